//go:build !race

package chaos_test

// conversations is the number that the proof plays: about four minutes. `rig chaos` plays as many as it is asked for.
const conversations = 200

// followed is the number of people whom engagement follows in it.
const followed = 40

// repeatable reports whether two runs can be compared.
const repeatable = true
