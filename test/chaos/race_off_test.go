//go:build !race

package chaos_test

// conversations is how many the test command plays.
const conversations = 1000

// repeatable is whether two runs can be compared.
const repeatable = true
