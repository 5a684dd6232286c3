package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
)

// CheckOwn checks the texts that an organisation wants in place of these, as JSON: an object of the texts of each language, by key.
// The same rules hold as for a copy file, and the language must be one of these. It reports every problem, each wrapping ErrCopy.
func (e Engagement) CheckOwn(stored []byte) error {
	var own edition
	if err := json.Unmarshal(stored, &own); err != nil {
		return fmt.Errorf("%w: they must be an object of languages, each an object of texts", ErrCopy)
	}
	var problems []error
	for locale, texts := range own {
		if e.texts[locale] == nil {
			problems = append(problems, fmt.Errorf("%w: %.20q is none of %s", ErrCopy, locale, strings.Join(e.Locales(), ", ")))
			delete(own, locale)
			continue
		}
		for key := range texts {
			if _, known := shapes()[key]; !known {
				problems = append(problems, fmt.Errorf("%w: %.60q is no text of engagement or goals", ErrCopy, key))
				delete(texts, key)
			}
		}
	}
	for _, problem := range e.laid(own).problems(engagementSet()) {
		problems = append(problems, fmt.Errorf("%w: %s", ErrCopy, problem))
	}
	return errors.Join(problems...)
}

// Own returns these texts with those of an organisation laid over them. It leaves out text that this release cannot read.
func (e Engagement) Own(stored []byte) Engagement {
	if stored == nil {
		return e
	}
	var languages map[string]map[string]any
	if json.Unmarshal(stored, &languages) != nil {
		return e
	}
	own := edition{}
	for locale, texts := range languages {
		own[locale] = map[string]string{}
		for key, text := range texts {
			if words, is := text.(string); is {
				own[locale][key] = words
			}
		}
	}
	return Engagement{e.laid(own)}
}

// laid returns these texts with others, in the same languages, in place of them.
func (e Engagement) laid(own edition) edition {
	merged := edition{}
	for locale, texts := range e.texts {
		merged[locale] = maps.Clone(texts)
		maps.Copy(merged[locale], own[locale])
	}
	return merged
}
