package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"paceline.internal/platform/reading"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/onboarding/session"
)

// readingCommand prints how what people write is read: first the texts that the readers were made from, then others.
type readingCommand struct{}

// Run needs the sources: it is called from the root of the repository.
func (c *readingCommand) Run(t terminal) error {
	return showReading(t.out, filepath.Join("platform", "reading", "testdata"))
}

// readers are the questions that are asked of a text, by the kind of file that has texts for it.
var readers = map[string]func(text string) string{
	"revocations": consented, "ordinary": consented,
	"answers": func(text string) string {
		return map[session.Intent]string{session.Advance: "goes on", session.Pause: "a no", session.Remark: "no answer"}[session.IntentOf(text)]
	},
	"notwords": func(text string) string {
		kind, _ := reading.Theirs(text)
		return map[reading.Kind]string{
			reading.Own: "has words of theirs", reading.Liked: "a reaction", reading.Noted: "a reaction", reading.Disliked: "a reaction",
			reading.Quoted: "a quote", reading.Automatic: "automatic",
		}[kind]
	},
}

func consented(text string) string {
	read := consent.Asked{}.Read(text, "", consent.OptedIn)
	if read.Preferences.Reminders == consent.Off || read.Preferences.Tips == consent.Off {
		return "reminders off" // "turn off the reminders, please"
	}
	switch read.Effect {
	case consent.OptOut:
		return "opted out"
	case consent.Ambiguous:
		return "held"
	case consent.None, consent.OptIn, consent.Help, consent.Overtaken:
	}
	return "passed"
}

// table counts what the texts of a file, or of a label in it, are read as.
type table map[string]map[string]int

func (t table) count(label, as string) {
	if t[label] == nil {
		t[label] = map[string]int{}
	}
	t[label][as]++
}

// measureReading reads the files of a folder.
func measureReading(folder string) (table, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.t*"))
	if err != nil {
		return nil, err
	}
	t := table{}
	for _, file := range files {
		kind, _, _ := strings.Cut(filepath.Base(file), ".")
		if readers[kind] == nil { // forms that texts are made from
			continue
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(content)) {
			label, text := strings.TrimSuffix(filepath.Base(file), ".txt"), strings.TrimSpace(line)
			if filepath.Ext(file) == ".tsv" {
				before, after, _ := strings.Cut(text, "\t")
				label, text = kind+": "+before, after
			}
			text = strings.ReplaceAll(text, `\n`, "\n")
			t.count(label, readers[kind](text))
			if kind == "ordinary" { // as an answer it is rarely a no
				t.count("as an answer: "+label, readers["answers"](text))
			}
		}
	}
	return t, nil
}

// targets are the shares of the unseen texts, in per cent, that a reading must have at least, or at most.
var targets = []struct {
	prefix, name string
	as           []string
	least, most  float64
}{
	{"revocations", "revocations opted out, held or without reminders", []string{"opted out", "held", "reminders off"}, 99, 100},
	{"ordinary", "ordinary texts opted out or held", []string{"opted out", "held"}, 0, 1},
	{"answers: no", "refusals read", []string{"a no"}, 97, 100},
}

// share returns how many in a hundred of the texts under labels that begin so are read as one of some readings.
func (t table) share(prefix string, as ...string) float64 {
	total, found := 0, 0
	for label, readings := range t {
		if !strings.HasPrefix(label, prefix) {
			continue
		}
		for reading, n := range readings {
			total += n
			if slices.Contains(as, reading) {
				found += n
			}
		}
	}
	return 100 * float64(found) / float64(total)
}

// showTargets prints whether each target is met.
func (t table) showTargets(out io.Writer) {
	for _, target := range targets {
		share, sign, bound, met := t.share(target.prefix, target.as...), "at least", target.least, "met"
		if target.most < 100 {
			sign, bound = "at most", target.most
		}
		if share < target.least || share > target.most {
			met = "missed"
		}
		fmt.Fprintf(out, "  target %s: %s, %.1f %% of %s %g %%\n", met, target.name, share, sign, bound)
	}
}

func showReading(out io.Writer, folder string) error {
	for _, part := range []struct{ folder, title string }{
		{"", "texts that the readers were made from"},
		{"unseen", "texts that they were not made from"},
		{"unseen/sentences", "texts of two or more sentences that they were not made from"},
		{"unseen/words", "names, things and short answers that they were not made from"},
	} {
		t, err := measureReading(filepath.Join(folder, part.folder))
		if err != nil {
			return err
		}
		columns := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintf(columns, "\n%s\n", part.title)
		for _, label := range slices.Sorted(maps.Keys(t)) {
			total := 0
			for _, n := range t[label] {
				total += n
			}
			fmt.Fprintf(columns, "  %s\t%d", label, total)
			for _, as := range slices.Sorted(maps.Keys(t[label])) {
				fmt.Fprintf(columns, "\t%s %d (%.1f %%)", as, t[label][as], 100*float64(t[label][as])/float64(total))
			}
			fmt.Fprintln(columns)
		}
		if err := columns.Flush(); err != nil {
			return err
		}
		if part.folder == "unseen" {
			t.showTargets(out)
		}
	}
	return nil
}
