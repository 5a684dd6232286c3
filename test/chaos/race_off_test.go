//go:build !race

package chaos_test

// repeatable reports whether two runs can be compared.
const repeatable = true
