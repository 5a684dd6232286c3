package flow_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/onboarding/flow"
)

// large is a flow of many steps of every kind that is checked by itself, in many languages.
func large(steps, languages int) fstest.MapFS {
	var named []string
	for i := range languages {
		named = append(named, fmt.Sprintf("a%c", 'a'+i))
	}
	var source, texts strings.Builder
	fmt.Fprintf(&source, "flow: large\nlanguages: [%s]\nstart: s0\nsteps:\n", strings.Join(named, ", "))
	texts.WriteString("texts:\n")
	for i := range steps {
		next := fmt.Sprintf("s%d", i+1)
		if i+1 == steps {
			next = "done"
		}
		switch i % 4 {
		case 0:
			fmt.Fprintf(&source, "  s%d: {ask: Q%d, expect: {choice: [one, two, three]}, save: f%d, unclear: {send: U%d, then: %s}, "+
				"silence: {after: 24h, then: done}, then: {one: %s, else: done}}\n", i, i, i, i, next, next)
			fmt.Fprintf(&texts, "  Q%d: \"{first_name|there}, question %d: 1 One, 2 Two, 3 Three?\"\n  U%d: Reply to %d with 1, 2 or 3.\n", i, i, i, i)
		case 1:
			fmt.Fprintf(&source, "  s%d: {if: \"person.fields.f%d == 'two' || person.locale == 'en'\", then: %s, else: done}\n", i, i-1, next)
		case 2:
			fmt.Fprintf(&source, "  s%d: {call: \"https://host.example/%d\", save: c%d, failed: done, then: %s}\n", i, i, i, next)
		case 3:
			fmt.Fprintf(&source, "  s%d: {send: T%d, after: 8s, then: %s}\n", i, i, next)
			fmt.Fprintf(&texts, "  T%d: \"Text %d: your answer was {f%d|unknown}.\"\n", i, i, i-3)
		}
	}
	source.WriteString("  done: {end: over}\n")
	texts.WriteString("choices:\n  one: [One, first]\n  two: [Two, second]\n  three: [Three, third]\n")
	folder := fstest.MapFS{"flow.yaml": {Data: []byte(source.String())}}
	for _, language := range named {
		folder[language+".yaml"] = &fstest.MapFile{Data: []byte(texts.String())}
	}
	return folder
}

// BenchmarkCheck checks a flow of 200 steps in 20 languages, which has to take less than a second, and one of half the steps, to see what
// grows faster than the flow.
func BenchmarkCheck(b *testing.B) {
	for _, steps := range []int{100, 200} {
		folder := large(steps, 20)
		b.Run(fmt.Sprintf("%dSteps20Languages", steps), func(b *testing.B) {
			for b.Loop() {
				_, err := flow.Parse(folder)
				require.NoError(b, err)
			}
		})
	}
}
