package flow

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"paceline.internal/platform/reading"
	"paceline.internal/platform/reading/languages"
)

// checkSense refuses texts of one language that would be sent otherwise than they were meant, and words for choices that no flow gets.
func (f *Flow) checkSense(language string, found *Problems) {
	e, file := f.texts[language], language+".yaml"
	for _, key := range slices.Sorted(maps.Keys(e.Texts)) {
		for _, problem := range f.senseProblems(e.Texts[key]) {
			found.addf(file, e.lines[key], "text %s %s", key, problem)
		}
		if slices.Contains(e.cut, key) {
			found.addf(file, e.lines[key],
				"text %s ends before \" #\", where a comment begins; quote the text, or write the comment on a line above it", key)
		}
	}
	for _, id := range f.Order {
		s := f.Steps[id]
		for _, key := range s.sends() {
			if problem := e.contradicts(s, e.Texts[key]); problem != "" {
				found.addf(file, e.lines[key], "text %s %s", key, problem)
			}
		}
		for _, choice := range s.Expect.Choices {
			for _, word := range e.words(choice) {
				if isGoal(word) {
					found.addf(file, e.lines[choiceKey(choice)], "choices: %q of %s is read as a goal (remind me, undo), which no flow gets", word, choice)
				}
			}
		}
	}
}

// senseProblems lists what people would stumble over in one text, each as the end of a sentence.
func (f *Flow) senseProblems(text string) (problems []string) {
	if sign, name := f.foreign(text); sign != "" {
		problems = append(problems, fmt.Sprintf("has %s, which is sent as it stands; a placeholder is written {%s|...}", sign, name))
	}
	if word := optOut(text); word != "" {
		problems = append(problems, fmt.Sprintf(
			"asks for the reply %s, which opts the person out and reaches no flow; choose another word", word))
	}
	return problems
}

// The notations of placeholders in other products. Names in brackets may also be a brand, and count only where they are known.
var (
	address  = regexp.MustCompile(`https?://\S+`)
	notation = regexp.MustCompile(`%([A-Za-z_]\w*)%|\$([a-z_]\w+)|\$([A-Z][A-Z0-9]*_\w+)`)
	bracket  = regexp.MustCompile(`[\[<*|#]+\s*([A-Za-z][\w .-]*?)\s*[\]>*|#]+`)
)

// foreign finds a placeholder in another notation than ours, and the name in it.
func (f *Flow) foreign(text string) (sign, name string) {
	text = address.ReplaceAllString(placeholder.ReplaceAllString(text, ""), "")
	if match := notation.FindStringSubmatch(text); match != nil {
		return match[0], strings.ToLower(match[1] + match[2] + match[3])
	}
	for _, match := range bracket.FindAllStringSubmatch(text, -1) {
		name := strings.ReplaceAll(fold(strings.ReplaceAll(match[1], "_", " ")), " ", "_")
		if f.isValue(name) {
			return match[0], name
		}
	}
	return "", ""
}

// isValue reports whether a placeholder may have the name.
func (f *Flow) isValue(name string) bool {
	_, declared := f.Fields[name]
	return declared || name == FirstName
}

var (
	sentences = regexp.MustCompile(`[.!?\n]+(?:\s|$)`)
	capitals  = regexp.MustCompile(`\p{Lu}{3,}`)
)

// optOut finds a keyword of opting out in capitals, by which a text asks for a reply: "YES to keep it or CANCEL to cancel". It may stand in
// the words by which messages say how to get no more of them, and STOP in any.
func optOut(text string) string {
	for _, sentence := range sentences.Split(text, -1) {
		for _, word := range capitals.FindAllString(sentence, -1) {
			left := strings.Fields(fold(reading.WithoutFooters(sentence)))
			key := fold(word)
			stops := slices.Contains(languages.Together().Lines("stop"), key) && !slices.Contains(spoken.Lines("flow-stop"), key)
			if stops && slices.Contains(left, key) {
				return word
			}
		}
	}
	return ""
}

// The parts of a list of choices: what separates them, and the signs behind the numbers of one.
var (
	between  = regexp.MustCompile(`[,;\n!?]|\.(?:\s|$)|\s(?:or|ou|o|and|e|y|et)\s`)
	numbered = regexp.MustCompile(`(^|\s)1[.)]\s`)
	numberOf = regexp.MustCompile(`(^|\s)(\d+)[.)]\s`)
)

// contradicts returns what is wrong with a text that gives a choice another number than its place.
func (e edition) contradicts(s Step, text string) string {
	choices := s.Expect.Choices
	if numbered.MatchString(text) {
		text = numberOf.ReplaceAllString(text, "$1$2 ")
	}
	seen, wrong := map[int]bool{}, ""
	for _, part := range between.Split(text, -1) {
		for _, l := range e.labels(choices, placeholder.ReplaceAllString(part, "")) {
			again := seen[l.place] // a list names each once; what comes later is no part of it
			seen[l.place] = true
			if named, _, _ := e.named(choices, l.text); wrong == "" && !again && len(named) == 1 && named[0] != choices[l.place-1] {
				wrong = fmt.Sprintf("says %d for %s, but %d is %s by the order of step %s, [%s]; number them in that order",
					l.place, named[0], l.place, choices[l.place-1], s.ID, strings.Join(choices, ", "))
			}
		}
	}
	if len(seen) < 2 { // it lists nothing: "2 days"
		return ""
	}
	return wrong
}

// label has a place in a list of choices, and the words around its number.
type label struct {
	place int
	text  string
}

// labels finds the places that a part of a list has. Words stand behind their numbers, or all before them.
func (e edition) labels(choices []string, part string) (all []label) {
	row := apart(part)
	found := digits.FindAllStringIndex(row, -1)
	found = slices.DeleteFunc(found, func(at []int) bool {
		n, err := strconv.Atoi(row[at[0]:at[1]])
		return err != nil || n < 1 || n > len(choices)
	})
	if len(found) > 1 && slices.ContainsFunc(choices, func(c string) bool { return digits.MatchString(strings.Join(e.words(c), " ")) }) {
		found = found[:1] // the others belong to the words: "1 2 pm"
	}
	for i, at := range found {
		place, _ := strconv.Atoi(row[at[0]:at[1]])
		before, behind := 0, len(row)
		if i > 0 {
			before = found[i-1][1]
		}
		if i+1 < len(found) {
			behind = found[i+1][0]
		}
		switch last := found[len(found)-1][1]; {
		case len(found) == 1:
			all = append(all, label{place, row[:at[0]] + " " + row[at[1]:]})
		case last == len(row):
			all = append(all, label{place, row[before:at[0]]})
		default:
			all = append(all, label{place, row[at[1]:behind]})
		}
	}
	return all
}
