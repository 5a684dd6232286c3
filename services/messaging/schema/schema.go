// Package schema has the migrations of the messaging database.
package schema

import (
	"embed"
	"io/fs"

	"paceline.internal/platform/postgres"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations returns the schema of the messaging database.
func Migrations() postgres.Migrations {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		panic(err) // only a malformed path could do this, and it is the constant above
	}
	return postgres.Migrations{FS: files, Service: "messaging", Table: "sms_messages"}
}
