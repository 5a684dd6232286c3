//go:build !race

package chaos_test

// conversations is the number that the test command plays.
const conversations = 1000

// followed is the number of people whom engagement follows in it.
const followed = 40

// repeatable reports whether two runs can be compared.
const repeatable = true
