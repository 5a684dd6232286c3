//go:build !race

package chaos_test

// conversations is how many the test command plays.
const conversations = 1000

// followed is how many people engagement follows in it.
const followed = 40

// repeatable is whether two runs can be compared.
const repeatable = true
