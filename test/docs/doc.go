// Package docs checks the repository's documents against its code: their diagrams are the code's, their links have targets, and the
// commands that they print exist. The map of the criteria to their tests is acceptance's, below.
//
// Go's test cache does not know of the files outside this module that the tests read: use -count=1 after changing one.
package docs
