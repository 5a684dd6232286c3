package main

import (
	"fmt"
	"hash/fnv"
	"os"
	"regexp"
	"strings"

	"paceline.internal/platform/reading"
)

const (
	// each is the number of texts that are made of one form, and formed is the weight of such a text.
	each   = 80
	formed = 0.25
	// fewest is the fewest texts that a piece must be in: what one person wrote says little of others.
	fewest = 2
	// likeness is the least share of their words that two texts of one family have in both.
	likeness = 0.5
)

var slot = regexp.MustCompile(`\{[a-z]+\}|\([^()]*\)`)

// expanded returns texts made from the forms of a file. A form is a label and a text in which {name} stands for one of
// the words of the line =name, and (a|b) stands for a or b.
func expanded(file string) (all []text, err error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	words, seen := map[string][]string{}, map[string]bool{}
	for line := range strings.Lines(string(content)) {
		label, form, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if name, ok := strings.CutPrefix(label, "="); ok {
			words["{"+name+"}"] = strings.Split(form, "|")
			continue
		}
		for turn := range each {
			t := text{words: filled(form, turn, words), file: label, weight: formed}
			if kind, own := reading.Theirs(t.words); kind == reading.Own && !seen[own] {
				seen[own] = true
				t.features = reading.Features(own)
				all = append(all, t)
			}
		}
	}
	return all, nil
}

// filled returns a form with words in its slots: others in each turn, and the same in the same turn.
func filled(form string, turn int, words map[string][]string) string {
	n := 0
	fill := func(slot string) string {
		options := words[slot]
		if slot[0] == '(' {
			options = strings.Split(slot[1:len(slot)-1], "|")
		}
		n++
		return options[hashed(form, turn, n)%uint32(len(options))] //nolint:gosec // a line has few
	}
	said := form
	for slot.MatchString(said) {
		said = slot.ReplaceAllStringFunc(said, fill)
	}
	return said
}

func hashed(of ...any) uint32 {
	h := fnv.New64a()
	fmt.Fprint(h, of...)
	n := h.Sum64()
	return uint32(n ^ n>>32) //nolint:gosec // half of it
}

// withoutRare takes out of the texts what too few of them have.
func withoutRare(lists ...[]text) {
	counts, seen := map[uint32]int{}, map[string]bool{}
	for _, t := range lists[0] {
		if !seen[t.words] {
			seen[t.words] = true
			for _, n := range t.features {
				counts[n]++
			}
		}
	}
	for _, list := range lists {
		for i, t := range list {
			list[i].length = len(t.features)
			list[i].features = nil
			for _, n := range t.features {
				if counts[n] >= fewest {
					list[i].features = append(list[i].features, n)
				}
			}
		}
	}
}

// grouped gives each text the family of the first text that is like it.
func grouped(all []text) {
	type first struct {
		words  map[string]bool
		family uint32
	}
	having := map[string][]*first{}
	for i := range all {
		words := map[string]bool{}
		for word := range strings.FieldsSeq(reading.Normalise(all[i].words)) {
			words[strings.Trim(word, ".,!?;:()\"")] = true
		}
		shared := map[*first]int{}
		of := &first{words, hashed(all[i].words)}
		best, found := likeness, false
		for word := range words {
			for _, f := range having[word] {
				shared[f]++
			}
		}
		for f, n := range shared {
			like := float64(n) / float64(len(words)+len(f.words)-n)
			if like > best || like == best && (!found || f.family < of.family) {
				best, of, found = like, f, true
			}
		}
		if !found {
			for word := range words {
				having[word] = append(having[word], of)
			}
		}
		all[i].family = of.family
	}
}
