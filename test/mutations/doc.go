// Package mutations takes the guards of README.md's promises away, one at a time, and runs the tests that have to notice. If no
// test fails, the guard is dead or untested. With -short it only checks that the table fits the code.
package mutations
