//go:build race

package chaos_test

// conversations is fewer under the race detector, which takes ten times as long and looks for something else.
const conversations = 60
