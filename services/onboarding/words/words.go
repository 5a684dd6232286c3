// Package words has the words that onboarding reads and avoids, as data: one file for each language that we write in, named by its locale.
// All languages are read at once.
package words

import (
	"embed"
	"sync"

	"paceline.internal/platform/reading/languages"
)

//go:embed *.tsv
var files embed.FS

// All returns the languages.
var All = sync.OnceValue(func() languages.Set { return languages.Read(files, languages.Written()) })

// Together returns the lines of all languages as if they were one.
var Together = sync.OnceValue(func() languages.Language { return All().Together() })
