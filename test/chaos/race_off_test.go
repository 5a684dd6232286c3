//go:build !race

package chaos_test

// conversations says how many the test command plays.
const conversations = 1000

// followed says how many people engagement follows in it.
const followed = 40

// repeatable says whether two runs can be compared.
const repeatable = true
