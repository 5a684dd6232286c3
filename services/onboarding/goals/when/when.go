// Package when reads when something is meant.
package when

import "time"

// Kind is what a reading is.
type Kind int

// The kinds.
const (
	None    Kind = iota // no temporal word
	At                  // an instant
	Unclear             // a temporal word that was not understood for certain
)

// Reading is what was read of a text.
type Reading struct {
	Kind       Kind
	At         time.Time // whole seconds
	Goal       string    // the text without its words of time
	Understood string
	Note       string
	Past       bool // an explicit time that has passed
}

// Read reads a text.
func Read(text, _ string, _ *time.Location, _ time.Time) Reading {
	return Reading{Kind: Unclear, Goal: text}
}
