// Package schema has the migrations of the onboarding database.
package schema

import (
	"embed"
	"io/fs"

	"paceline.internal/platform/postgres"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations returns the schema of the onboarding database.
func Migrations() postgres.Migrations {
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		panic(err) // the path is a constant of this file
	}
	return postgres.Migrations{FS: sub, Service: "onboarding", Table: "conversation_sessions"}
}
