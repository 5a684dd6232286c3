// Command train makes the weights of package reading from the texts in its testdata, and prints how well they tell texts that they were not
// made from: each fifth of the families of texts is read by the other four.
package main

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"paceline.internal/platform/reading"
)

// text is one text of the corpus.
type text struct {
	words    string
	is       bool
	file     string
	features []uint32
	length   int     // how many features it has, also those that are too rare
	weight   float64 // how much it counts
	family   uint32  // of texts that have most of their words from one another
}

const folds = 5

// Among answers, ordinary texts are no refusals, unless answers.tsv has the same text as one. They count for less, since a few are; a yes
// counts for more, since a person who is ready must not wait.
const (
	ordinary = "testdata/ordinary.*.txt"
	lesser   = 0.4
	stray    = 1.5
	greater  = 3
)

// Texts of other rooms: what the rules of consent know, which counts four times because its rows differ in a word, and goals.
const (
	rules = "../../services/messaging/consent/testdata/cases.tsv"
	goals = "../../services/onboarding/goals/timeparse/testdata/[^t]*.tsv"
	// commands are answers to messages of engagement.
	commands = "../../services/onboarding/engagement/rules/testdata/commands.tsv"
)

// The files that each model is made from. What is there twice counts twice.
var (
	revocationTexts = []string{
		"testdata/revocations.*.txt", ordinary, "testdata/answers.tsv", rules, rules, rules, rules, goals, commands, commands, commands,
	}
	answerTexts = []string{"testdata/answers*.tsv", goals, commands, ordinary}
)

func main() {
	if err := run(os.Stdout, "."); err != nil {
		fmt.Fprintln(os.Stderr, "train:", err)
		os.Exit(1)
	}
}

// run writes the weights of both models into a folder.
func run(out io.Writer, folder string) error {
	revocations, err := read(revocationTexts...)
	if err != nil {
		return err
	}
	answers, err := read(answerTexts...)
	if err != nil {
		return err
	}
	families, err := expanded("testdata/families.tsv")
	if err != nil {
		return err
	}
	answers = weighed(answers)
	for _, model := range []struct {
		name  string
		texts []text
		more  []text  // which tell nothing about texts of other people
		share float64 // of telling
		is    func(t text) bool
	}{
		{"revocation", revocations, nil, 0, func(t text) bool {
			return strings.HasPrefix(t.file, "revocations") || t.file == "clear" || t.file == "unclear"
		}},
		{"refusal", answers, families, 0.5, func(t text) bool { return t.file == "no" }},
	} {
		for _, texts := range [][]text{model.texts, model.more} {
			for i := range texts {
				texts[i].is = model.is(texts[i])
			}
		}
		withoutRare(model.texts, model.more)
		texts := withoutStrays(model.texts, across(out, model.name, model.share, model.texts, model.more))
		weights := stored(fit(model.share, slices.Concat(texts, model.more)))
		if err := os.WriteFile(filepath.Join(folder, model.name+".bin"), weights, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// read returns the texts of files: lines, or in a .tsv a label and a text in each, the label being the file then.
func read(patterns ...string) (all []text, err error) {
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			return nil, errors.Join(err, fmt.Errorf("there is no %s", pattern))
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			for line := range strings.Lines(string(content)) {
				t := text{words: strings.TrimSpace(line), file: filepath.Base(file), weight: 1}
				if strings.HasPrefix(t.words, "#") || strings.HasPrefix(t.words, "=") || t.words == "" {
					continue
				}
				if filepath.Ext(file) == ".tsv" {
					columns := strings.Split(t.words, "\t")
					t.file, t.words = columns[0], columns[len(columns)-1]
				}
				switch pattern {
				case commands:
					if t.file == "none" {
						continue
					}
					t.file = "commands"
				case goals:
					t.file, t.words = "goals", strings.NewReplacer("{", "", "}", "").Replace(t.words)
				}
				kind, words := reading.Theirs(t.words)
				if kind != reading.Own {
					continue
				}
				t.features = reading.Features(words)
				all = append(all, t)
			}
		}
	}
	return mixed(all, 0), nil
}

// weighed returns the texts by which answers are told apart, each with its weight: without the ordinary ones that answers.tsv has, too.
func weighed(all []text) (kept []text) {
	labelled := map[string]bool{}
	for _, t := range all {
		if !strings.HasPrefix(t.file, "ordinary") {
			labelled[reading.Normalise(t.words)] = true
		}
	}
	for _, t := range all {
		switch {
		case t.file == "yes":
			t.weight = greater
		case !strings.HasPrefix(t.file, "ordinary"):
		case labelled[reading.Normalise(t.words)]:
			continue
		default:
			t.weight = lesser
		}
		kept = append(kept, t)
	}
	return kept
}

// mixed returns the texts in another order, the same each time: that of their hashes.
func mixed(all []text, turn int) []text {
	keys := make(map[string]uint64, len(all))
	for _, t := range all {
		h := fnv.New64a()
		fmt.Fprint(h, turn, t.words)
		keys[t.words] = h.Sum64()
	}
	other := slices.Clone(all)
	slices.SortStableFunc(other, func(a, b text) int { return cmp.Compare(keys[a.words], keys[b.words]) })
	return other
}

// across prints, for each file, how many of its texts are read wrongly by a model that was made without them. It returns their scores.
func across(out io.Writer, name string, share float64, all, more []text) map[string]float64 {
	grouped(all)
	scores := map[string]float64{}
	wrong, count := map[string]int{}, map[string]int{}
	var is, isNot []float64 // the scores of texts that are of the kind, and of others
	var weights [folds][]float64
	var fits sync.WaitGroup
	for fold := range uint32(folds) {
		others := slices.Clone(more)
		for _, t := range all {
			if t.family%folds != fold {
				others = append(others, t)
			}
		}
		fits.Go(func() { weights[fold] = fit(share, others) })
	}
	fits.Wait()
	for fold := range uint32(folds) {
		for _, t := range all {
			if t.family%folds == fold {
				count[t.file]++
				found := score(weights[fold], t)
				scores[t.words] = found
				if (found > 0) != t.is {
					wrong[t.file]++
				}
				if t.is {
					is = append(is, found)
				} else {
					isNot = append(isNot, found)
				}
			}
		}
	}
	fmt.Fprintf(out, "%s, of %d texts:\n", name, len(all))
	for bound := -2.0; bound <= 2; bound += 0.5 {
		fmt.Fprintf(out, "  above %4.1f: %5.1f %% of its kind, %5.1f %% of the others\n", bound, above(is, bound), above(isNot, bound))
	}
	for _, file := range slices.Sorted(maps.Keys(count)) {
		n := count[file]
		fmt.Fprintf(out, "  %-22s %5d texts, %4d wrong (%.1f %%)\n", file, n, wrong[file], 100*float64(wrong[file])/float64(n))
	}
	return scores
}

// withoutStrays leaves out the ordinary texts that a model made without them surely takes for its kind. Nobody labelled ordinary texts as
// answers, and some are a no.
func withoutStrays(all []text, scores map[string]float64) (kept []text) {
	for _, t := range all {
		if t.weight != lesser || scores[t.words] < stray {
			kept = append(kept, t)
		}
	}
	return kept
}

func above(scores []float64, bound float64) float64 {
	n := 0
	for _, s := range scores {
		if s > bound {
			n++
		}
	}
	return 100 * float64(n) / float64(len(scores))
}

func score(weights []float64, t text) float64 {
	sum := 0.0
	for _, n := range t.features {
		sum += weights[n]
	}
	return sum / math.Sqrt(float64(t.length))
}

// fit is logistic regression by AdaGrad (Duchi, Hazan, Singer 2011), a little held back. What is as frequent in both kinds of texts moves
// less (Wang, Manning 2012).
func fit(share float64, all []text) []float64 {
	const epochs, rate, decay = 10, 0.3, 5e-5
	weights, squares, telling := make([]float64, reading.Buckets), make([]float64, reading.Buckets), telling(share, all)
	for epoch := range epochs {
		for _, t := range mixed(all, epoch+1) {
			sum := 0.0
			for _, n := range t.features {
				sum += float64(weights[n] * telling[n])
			}
			miss := 1 / (1 + math.Exp(-sum/math.Sqrt(float64(t.length))))
			if t.is {
				miss--
			}
			part := t.weight * miss / math.Sqrt(float64(t.length))
			for _, n := range t.features {
				step := float64(part*telling[n]) + float64(decay*weights[n])
				squares[n] += float64(step * step)
				weights[n] -= rate * step / (math.Sqrt(squares[n]) + 1e-8)
			}
		}
	}
	for n := range weights {
		weights[n] *= telling[n]
	}
	return weights
}

// telling returns how much each feature tells: as much as any other, and by the share, as the logarithm of how much more frequent it is in
// one kind of texts.
func telling(share float64, all []text) []float64 {
	counts, sums := map[bool][]float64{true: make([]float64, reading.Buckets), false: make([]float64, reading.Buckets)}, map[bool]float64{}
	for _, t := range all {
		for _, n := range t.features {
			counts[t.is][n] += t.weight
			sums[t.is] += t.weight
		}
	}
	much := make([]float64, reading.Buckets)
	for n := range much {
		ratio := (counts[true][n] + 1) / sums[true] / ((counts[false][n] + 1) / sums[false])
		much[n] = 1 - share + float64(share*math.Abs(math.Log(ratio)))
	}
	return much
}

// stored returns the weights as bytes, reading.Unit steps for 1.
func stored(weights []float64) []byte {
	bytes := make([]byte, len(weights))
	for i, w := range weights {
		bytes[i] = byte(int8(math.Round(math.Max(-127, math.Min(127, w*reading.Unit))))) //nolint:gosec // as Score reads it
	}
	return bytes
}
