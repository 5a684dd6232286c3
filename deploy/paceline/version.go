package main

import (
	"fmt"

	"paceline.internal/platform/process"
)

// versionCommand prints what this program was built from.
type versionCommand struct{}

// Run prints one line.
func (c *versionCommand) Run(t terminal) error {
	_, err := fmt.Fprintln(t.out, process.Version("paceline"))
	return err
}
