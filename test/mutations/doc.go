// Package mutations takes guards of README.md's promises away, one at a time, and runs one test of one package that has to notice. If it
// passes, the guard is dead or untested. With -short it only checks that the table fits the code.
//
// The table has two or three guards for each promise, of which one line alone is between a fault and a person. A row costs a build of what
// depends on its file, so a guard that the same test notices with another, or that no promise needs, has no row.
package mutations
