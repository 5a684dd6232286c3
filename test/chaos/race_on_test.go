//go:build race

package chaos_test

// conversations is fewer under the race detector, which takes ten times as long and looks for something else.
const conversations = 60

// followed is fewer as well.
const followed = 15

// repeatable reports whether two runs can be compared. The services bound what they wait for on the machine's clock, and under the
// race detector on a busy machine they come to those bounds.
const repeatable = false
