// Package letters reads and writes letters in the one way that every service has them.
package letters

import "golang.org/x/text/unicode/norm"

// Compose joins letters with the accents that follow them, NFC, as most phones write them. Every door for text that is stored, compared or
// sent asks it: apart, one accent more than doubles the price of a text, and João is not found as João.
func Compose(text string) string { return norm.NFC.String(text) }
