// Package sentences translates what the services say. They write in English, built of parts: the longest sentence that a text begins with
// is translated, then its fills, and then the rest behind a separator. A part that no sentence has, such as a person's words, stays.
package sentences

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// separator matches the marks between two parts of a text.
const separator = `; to do: |; |\. → | → |\. |: |, |\n|\.$`

// method matches the fills of a short sentence: a method of /v1, or an address.
const method = `((?:(?:GET|POST|PUT) )?/v1/[^\s{]*(?:\{[a-z_ ]+\}\S*?)?|https://\S+?)`

// shortest is the least length of a sentence that may be filled in with anything.
const shortest = 12

// heard is a sentence that a text may begin with.
type heard struct {
	en, translated string

	head string         // the begin of the text before the first fill
	form *regexp.Regexp // the fills, then the separator, then the rest; nil without fills
}

var (
	between   = regexp.MustCompile(`^(?:` + separator + `)`)
	notWithin = regexp.MustCompile(separator)
)

// Book has the sentences of a language; the zero value has none.
type Book struct {
	heard []heard
	toDo  string
}

// New prepares sentences by the English ones: %s stands for each fill. toDo introduces an advice.
func New(sentences map[string]string, toDo string) Book {
	var all []heard
	for en, translated := range sentences {
		parts := strings.Split(en, "%s")
		for i, part := range parts {
			parts[i] = regexp.QuoteMeta(part)
		}
		h := heard{en: en, translated: translated}
		var filled bool
		if h.head, _, filled = strings.Cut(en, "%s"); filled {
			fill := `(.*?)`
			if len(strings.Join(parts, "")) < shortest { // see, then: a person may write so too
				fill = method
			}
			h.form = regexp.MustCompile(`(?s)^` + strings.Join(parts, fill) + `(?:(` + separator + `)(.*))?$`)
		}
		all = append(all, h)
	}
	slices.SortFunc(all, func(a, b heard) int { return cmp.Or(cmp.Compare(len(b.en), len(a.en)), cmp.Compare(a.en, b.en)) })
	return Book{all, toDo}
}

// Translate translates a service's text. missed are the parts that no sentence has.
func (b Book) Translate(text string) (said string, missed []string) {
	var out strings.Builder
	for text != "" {
		if at := between.FindString(text); at != "" {
			out.WriteString(strings.Replace(at, "to do", b.toDo, 1))
			text = text[len(at):]
			continue
		}
		part, rest, unknown := b.first(text)
		out.WriteString(part)
		text, missed = rest, append(missed, unknown...)
	}
	return out.String(), missed
}

// first translates the beginning of a text, and returns the rest.
func (b Book) first(text string) (said, rest string, missed []string) {
	for _, h := range b.heard {
		if !strings.HasPrefix(text, h.head) {
			continue
		}
		if h.form == nil {
			if rest = text[len(h.head):]; rest == "" || between.MatchString(rest) {
				return h.translated, rest, nil
			}
			continue
		}
		found := h.form.FindStringSubmatch(text)
		if found == nil {
			continue
		}
		fills := make([]any, 0, len(found))
		for _, fill := range found[1 : len(found)-2] {
			inner, unknown := b.Translate(fill)
			fills, missed = append(fills, inner), append(missed, unknown...)
		}
		return fmt.Sprintf(h.translated, fills...), found[len(found)-2] + found[len(found)-1], missed
	}
	at := notWithin.FindStringIndex(text)
	if at == nil {
		return text, "", []string{text}
	}
	return text[:at[0]], text[at[0]:], []string{text[:at[0]]}
}
