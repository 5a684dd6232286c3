package console

import (
	"embed"
	"encoding/json"
	"fmt"
	"slices"

	"golang.org/x/text/feature/plural"
	"golang.org/x/text/language"
	"golang.org/x/text/message/catalog"

	"paceline.internal/gateway/console/sentences"
)

// wordFiles has one file for each language of the console, named by its tag.
//
//go:embed words/*.json
var wordFiles embed.FS

// vocabulary is one language of the console.
type vocabulary struct {
	Name  string            `json:"name"` // of the language, in itself
	Words map[string]phrase `json:"words"`
	// Sentences translates the English sentences of the services, or parts of one: %s stands for each fill, in the same order, or %[2]s where
	// the order differs. English needs none.
	Sentences map[string]string `json:"sentences"`

	Tag  string `json:"-"`
	book sentences.Book
}

// phrase is a text, or its two forms by its first number.
type phrase struct {
	One   string `json:"one"`
	Other string `json:"other"`
}

// UnmarshalJSON reads a text, or an object with its forms.
func (p *phrase) UnmarshalJSON(body []byte) error {
	if json.Unmarshal(body, &p.Other) == nil {
		return nil
	}
	type forms phrase
	return json.Unmarshal(body, (*forms)(p))
}

var (
	vocabularies = readVocabularies() // the first is English, the fallback
	languages    = tags(vocabularies)
	words        = newCatalog(vocabularies)
)

func readVocabularies() (all []vocabulary) {
	entries, err := wordFiles.ReadDir("words")
	if err != nil {
		panic(err) // of a file of this package
	}
	for _, entry := range entries {
		v := vocabulary{Tag: entry.Name()[:len(entry.Name())-len(".json")]}
		body, err := wordFiles.ReadFile("words/" + entry.Name())
		if err == nil {
			err = json.Unmarshal(body, &v)
		}
		if err != nil {
			panic(fmt.Sprintf("%s: %v", entry.Name(), err)) // of a file of this package
		}
		v.book = sentences.New(v.Sentences, v.Words["sentence.to_do"].Other)
		if v.Tag == language.English.String() {
			all = slices.Insert(all, 0, v)
		} else {
			all = append(all, v)
		}
	}
	return all
}

func tags(all []vocabulary) (tags []language.Tag) {
	for _, v := range all {
		tags = append(tags, language.MustParse(v.Tag))
	}
	return tags
}

func newCatalog(all []vocabulary) catalog.Catalog {
	b := catalog.NewBuilder(catalog.Fallback(language.English))
	for _, v := range all {
		for key, p := range v.Words {
			message := catalog.String(p.Other)
			if p.One != "" {
				message = plural.Selectf(1, "%d", plural.One, p.One, plural.Other, p.Other)
			}
			if err := b.Set(language.MustParse(v.Tag), key, message); err != nil {
				panic(fmt.Sprintf("%s: %v", key, err)) // of a file of this package
			}
		}
	}
	return b
}

// known reports whether a key has words.
func known(key string) bool {
	_, ok := vocabularies[0].Words[key]
	return ok
}
