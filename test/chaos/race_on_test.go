//go:build race

package chaos_test

// repeatable reports whether two runs can be compared. The services bound what they wait for on the machine's clock, and under the
// race detector on a busy machine they come to those bounds.
const repeatable = false
