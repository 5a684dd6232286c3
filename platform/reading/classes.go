package reading

import (
	"slices"
	"strings"

	"paceline.internal/platform/reading/languages"
)

// classes has the kinds of each word that has some: times, places, what keeps a person busy, and others, as one letter each.
var classes = func() map[string]string {
	of := map[string]string{}
	letter := 'A'
	for _, key := range languages.Together().Keys("class-") {
		for _, line := range languages.Together().Lines(key) {
			for word := range strings.FieldsSeq(line) {
				if !strings.ContainsRune(of[word], letter) {
					of[word] += string(letter)
				}
			}
		}
		letter++
	}
	return of
}()

// deeds has the endings of what somebody is doing.
var deeds = languages.Together().Lines("deed-end")

// classed returns the words with their kinds in place of those that have some. Of other words only short ones stay, and how a deed ends.
func classed(words []string) (row []string) {
	for _, w := range words {
		switch kind := classes[w]; {
		case kind != "":
			row = append(row, kind)
		case len(w) < 5:
			row = append(row, w)
		case slices.ContainsFunc(deeds, func(end string) bool { return strings.HasSuffix(w, end) }):
			row = append(row, "~")
		default:
			row = append(row, "_")
		}
	}
	return row
}
