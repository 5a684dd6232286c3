//go:build !race

package chaos_test

// conversations is how many the test command plays.
const conversations = 1000
