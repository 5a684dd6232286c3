package console

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// The services say sentences in English, built of parts. Here they are said in Portuguese: the longest saying that a text begins with is
// translated, what it is filled in with too, and then the rest behind a separator. What no saying has, such as a person's words, stays.

// separator matches the marks between two parts of a text.
const separator = `; to do: |; |\. → | → |\. |: |, |\n|\.$`

// method matches what fills a short saying: a method of /v1, or an address.
const method = `((?:(?:GET|POST|PUT) )?/v1/[^\s{]*(?:\{[a-z_ ]+\}\S*?)?|https://\S+?)`

// shortest is the least length of a saying that may be filled in with anything.
const shortest = 12

// heard is a saying that a text may begin with.
type heard struct {
	saying

	head string         // what the text begins with before the first of what is filled in
	form *regexp.Regexp // the fills, then the separator, then the rest; nil of one without fills
}

var (
	between   = regexp.MustCompile(`^(?:` + separator + `)`)
	notWithin = regexp.MustCompile(separator)
	spokenPt  = func() []heard {
		all := sayings()
		slices.SortStableFunc(all, func(a, b saying) int { return cmp.Compare(len(b.en), len(a.en)) })
		var forms []heard
		for _, s := range all {
			parts := strings.Split(s.en, "%s")
			for i, part := range parts {
				parts[i] = regexp.QuoteMeta(part)
			}
			head, _, filled := strings.Cut(s.en, "%s")
			if !filled {
				forms = append(forms, heard{saying: s, head: head})
				continue
			}
			fill := `(.*?)`
			if len(strings.Join(parts, "")) < shortest { // see, then: a person may write so too
				fill = method
			}
			forms = append(forms, heard{s, head, regexp.MustCompile(`(?s)^` + strings.Join(parts, fill) + `(?:(` + separator + `)(.*))?$`)})
		}
		return forms
	}()
)

// cutKey cuts the key of a word into its group and the word.
func cutKey(key string) (group, word string, ok bool) { return strings.Cut(key, ".") }

// inPortuguese says a service's text in Portuguese. missed are the parts that no saying has.
func inPortuguese(text string) (said string, missed []string) {
	var out strings.Builder
	for text != "" {
		if at := between.FindString(text); at != "" {
			out.WriteString(strings.Replace(at, "to do", "o que fazer", 1))
			text = text[len(at):]
			continue
		}
		part, rest, unknown := firstSaying(text)
		out.WriteString(part)
		text, missed = rest, append(missed, unknown...)
	}
	return out.String(), missed
}

// firstSaying says the beginning of a text, and returns the rest.
func firstSaying(text string) (said, rest string, missed []string) {
	for _, h := range spokenPt {
		if !strings.HasPrefix(text, h.head) {
			continue
		}
		if h.form == nil {
			if rest = text[len(h.head):]; rest == "" || between.MatchString(rest) {
				return h.pt, rest, nil
			}
			continue
		}
		found := h.form.FindStringSubmatch(text)
		if found == nil {
			continue
		}
		fills := make([]any, 0, len(found))
		for _, fill := range found[1 : len(found)-2] {
			inner, unknown := inPortuguese(fill)
			fills, missed = append(fills, inner), append(missed, unknown...)
		}
		return fmt.Sprintf(h.pt, fills...), found[len(found)-2] + found[len(found)-1], missed
	}
	at := notWithin.FindStringIndex(text)
	if at == nil {
		return text, "", []string{text}
	}
	return text[:at[0]], text[at[0]:], []string{text[:at[0]]}
}
