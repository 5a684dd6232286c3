package drawing_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/gateway/console/drawing"
)

// example reads the files of an example.
func example(t *testing.T, name string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, file := range []string{"flow.yaml", "en.yaml", "pt-BR.yaml"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", "examples", "flows", name, file))
		require.NoError(t, err)
		all[file] = string(text)
	}
	return all
}

func TestEveryTextOfAStepIsShownAndCompared(t *testing.T) {
	t.Parallel()
	read := func(change func(files map[string]string)) drawing.Flow {
		files := example(t, "appointment")
		change(files)
		f, err := drawing.Read(files)
		require.NoError(t, err)
		return f
	}
	now := read(func(map[string]string) {})
	now.Compare(read(func(files map[string]string) {
		files["en.yaml"] = strings.Replace(files["en.yaml"], "NUDGE: \"Can you come", "NUDGE: \"Will you come", 1)
		files["flow.yaml"] = strings.Replace(files["flow.yaml"], "languages: [en, pt-BR]", "languages: [en, pt-BR, es]", 1)
		files["es.yaml"] = "texts:\n  NUDGE: ¿Puede venir?\n"
	}))
	whens := []string{}
	for _, c := range now.Steps[0].Copies {
		whens = append(whens, c.When)
	}
	require.Equal(t, []string{"", "unclear", "silence 6h"}, whens)
	nudge := now.Steps[0].Copies[2]
	require.Contains(t, nudge.Texts["pt-BR"], "Você pode vir")
	require.Equal(t, "¿Puede venir?", nudge.Before["es"], "also in a language that is gone")
	require.Contains(t, nudge.Before["en"], "Will you come")
	require.Len(t, nudge.Before, 2, "what is as it was is not struck out")
	require.Equal(t, "changed", now.Steps[0].Change)
}

// TestEveryExampleIsDrawn holds that no two ways share a piece of a lane.
func TestEveryExampleIsDrawn(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"appointment", "nps", "onboarding", "opt_in", "payment", "survey"} {
		f, err := drawing.Read(example(t, name))
		require.NoError(t, err, name)
		d := drawing.Draw(f, map[string]drawing.Counts{f.Start: {Reached: 1, Began: 4}})
		require.Equal(t, 98, d.Boxes[0].Bar)
		require.Len(t, d.Boxes, len(f.Steps))
		for i, a := range d.Ways {
			for _, b := range d.Ways[i+1:] {
				apart := max(a.FromY, a.ToY) < min(b.FromY, b.ToY) || max(b.FromY, b.ToY) < min(a.FromY, a.ToY)
				require.True(t, a.LaneX != b.LaneX || apart, "%s: %+v %+v", name, a, b)
			}
		}
	}
	_, err := drawing.Read(map[string]string{"flow.yaml": "steps: 7"})
	require.Error(t, err)
}
