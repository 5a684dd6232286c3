package console

import (
	"fmt"
	"maps"
	"slices"

	"golang.org/x/text/feature/plural"
	"golang.org/x/text/message/catalog"
)

// said in both languages: a text, or a catalog.Message where it depends on a number.
type pair struct{ en, pt any }

// glossary is the words of a page by their keys, which begin with the page's name.
type glossary map[string]pair

// glossaries are all words.
func glossaries() []glossary {
	return []glossary{
		wordsOfLayout(), wordsOfSignIn(), wordsOfOverview(), wordsOfPeople(), wordsOfWhy(),
		wordsOfNeeds(), wordsOfDeeds(), wordsOfEvidence(), wordsOfQueues(), wordsOfGoals(), wordsOfEngagement(), wordsOfScript(), wordsOfLedger(),
		wordsOfHandsets(), wordsOfMe(), wordsOfPerson(), wordsOfTrouble(), wordsOfScheduling(),
		wordsOfForms(), wordsOfAudit(), wordsOfTruth(), wordsOfRecord(),
	}
}

// many is a text that depends on its first number, in both languages' two forms.
func many(one, other string) catalog.Message {
	return plural.Selectf(1, "%d", plural.One, one, plural.Other, other)
}

// words is the catalog of all pages.
var words = func() catalog.Catalog {
	b := catalog.NewBuilder(catalog.Fallback(languages[0]))
	for _, g := range glossaries() {
		for _, key := range slices.Sorted(maps.Keys(g)) {
			for i, text := range []any{g[key].en, g[key].pt} {
				if err := say(b, i, key, text); err != nil {
					panic(err) // of a constant of this package
				}
			}
		}
	}
	return b
}()

func say(b *catalog.Builder, lang int, key string, text any) error {
	switch text := text.(type) {
	case string:
		return b.SetString(languages[lang], key, text)
	case catalog.Message:
		return b.Set(languages[lang], key, text)
	}
	return fmt.Errorf("%s is a %T", key, text)
}

// known reports whether a key has words.
func known(key string) bool {
	return slices.ContainsFunc(glossaries(), func(g glossary) bool { _, ok := g[key]; return ok })
}
