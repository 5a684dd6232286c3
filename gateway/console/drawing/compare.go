package drawing

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Compare marks what another version has otherwise, and keeps what is not there any more.
func (f *Flow) Compare(before Flow) {
	for _, lang := range before.Langs {
		if !slices.Contains(f.Langs, lang) {
			f.Langs = append(f.Langs, lang)
		}
	}
	had := map[string]Step{}
	for _, s := range before.Steps {
		had[s.ID] = s
	}
	for i, s := range f.Steps {
		old, was := had[s.ID]
		delete(had, s.ID)
		switch {
		case !was:
			f.Steps[i].Change = "new"
		case old.source != s.source:
			f.Steps[i].Change = "changed"
		}
		for _, c := range s.Copies {
			at := slices.IndexFunc(old.Copies, func(o Copy) bool { return Condition(o.When) == Condition(c.When) })
			if at < 0 {
				continue
			}
			for _, lang := range f.Langs {
				if text := old.Copies[at].Texts[lang]; text != c.Texts[lang] {
					f.Steps[i].Change = cmp.Or(f.Steps[i].Change, "changed")
					c.Before[lang] = text
				}
			}
		}
	}
	f.Gone = slices.Sorted(maps.Keys(had))
}

// Condition is the condition of a text or a way without its time.
func Condition(when string) string {
	before, _, _ := strings.Cut(when, " ")
	return before
}
