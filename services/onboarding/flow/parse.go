package flow

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// File is the name of the file that holds the steps.
const File = "flow.yaml"

// maxFile bounds one file of a flow.
const maxFile = 1 << 20

// Parse reads the folder of a flow. Its error is Problems: everything that is wrong, with file and line.
func Parse(folder fs.FS) (Flow, error) {
	var found Problems
	source, err := readFile(folder, File)
	if err != nil {
		found.addf(File, 0, "%s", err)
		return Flow{}, found
	}
	flow := parseSteps(source, &found)
	files := map[string][]byte{File: source}
	flow.readTexts(folder, files, &found)
	if len(found) == 0 { // the checks below would only repeat what is wrong with the form
		flow.check(&found)
		flow.checkStates(&found)
		flow.checkTexts(&found)
		flow.checkFiles(folder, &found)
		flow.bound()
	} else {
		flow.checkRest(&found)
	}
	if err := found.err(); err != nil {
		return Flow{}, err
	}
	flow.Version = hash(files)
	return flow, nil
}

// ParseSteps reads a flow.yaml without texts: they are kept elsewhere, and Render has none. Its error is Problems.
func ParseSteps(source []byte) (Flow, error) {
	var found Problems
	flow := parseSteps(source, &found)
	if len(found) == 0 {
		flow.check(&found)
	}
	flow.Version = hash(map[string][]byte{File: source})
	return flow, found.err()
}

func parseSteps(source []byte, found *Problems) Flow {
	flow := Flow{Segments: 2, UnknownSends: "confirm_absent_then_resend", Fields: map[string]Field{}, Steps: map[string]Step{}}
	if doc := parseYAML(File, source, found); doc != nil {
		flow.read(doc, found)
	}
	return flow
}

// checkFiles refuses a file of texts in a language that the flow does not name.
func (f *Flow) checkFiles(folder fs.FS, found *Problems) {
	names, err := fs.Glob(folder, "*.yaml")
	if err != nil {
		found.addf(File, 0, "%s", err)
	}
	for _, name := range names {
		language := strings.TrimSuffix(name, ".yaml")
		if name != File && !strings.HasPrefix(name, ".") && !slices.Contains(f.Languages, language) {
			found.addf(name, 0, "languages of %s does not name %s; add it there, or remove the file", File, language)
		}
	}
}

func readFile(folder fs.FS, name string) ([]byte, error) {
	info, err := fs.Stat(folder, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errors.New("the file is missing")
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is no file")
	}
	file, err := folder.Open(name)
	if err != nil {
		return nil, err
	}
	source, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	err = errors.Join(err, file.Close())
	switch {
	case err != nil:
		return nil, err
	case len(source) > maxFile:
		return nil, fmt.Errorf("the file is too long; at most %d bytes are read", maxFile)
	case !utf8.Valid(source):
		return nil, errors.New("the file is not in UTF-8; save it as UTF-8")
	}
	// A version is the same however an editor or git ends its lines.
	return bytes.ReplaceAll(bytes.TrimPrefix(source, []byte("\xef\xbb\xbf")), []byte("\r\n"), []byte("\n")), nil
}

// lineOf finds the line in a message of the YAML library.
var lineOf = regexp.MustCompile(`^(?:yaml: )?(?:unmarshal errors:\s*)?line (\d+): `)

// advices has what to do, by a part of what the YAML library says.
var advices = map[string]string{ //nolint:gosec // a token of YAML
	"cannot start any token":          "indent with spaces and not with tabs, and quote a text that begins with a sign",
	"mapping values are not allowed":  `quote a text with ": " in it, and indent the keys of a mapping alike`,
	"did not find expected key":       "indent the keys of a mapping alike; a text in '...' has '' for an apostrophe",
	"did not find expected ',' or":    "a comma or the closing sign is missing, or a text with a sign is not quoted",
	"found unexpected end of stream":  "a quotation mark is not closed",
	"could not find expected ':'":     "a key needs a colon and a space behind it",
	"did not find expected node cont": "a value is missing, or a text that begins with a sign is not quoted",
}

// The bounds of the search for a broken line: how many lines one mapping goes on over, how many of those are passed, and the bytes
// of a file.
const (
	ahead    = 50
	passed   = 5
	searched = 64 << 10
)

// brokenAt returns the line from which on a file cannot be read: the library often names the one where the mapping around it begins. It
// is 0 for a long file.
func brokenAt(source []byte) int {
	if len(source) > searched {
		return 0
	}
	lines := bytes.SplitAfter(source, []byte("\n"))
	reads := func(n int) bool {
		var doc yaml.Node
		err := yaml.NewDecoder(bytes.NewReader(bytes.Join(lines[:n], nil))).Decode(&doc)
		return err == nil || errors.Is(err, io.EOF)
	}
	whole := 0
	for range passed { // a mapping over several lines cannot be read before its end, and is not broken
		broken := len(lines)
		for whole+1 < broken {
			if middle := (whole + broken) / 2; reads(middle) {
				whole = middle
			} else {
				broken = middle
			}
		}
		end := min(broken+ahead, len(lines)-1)
		for end > broken && !reads(end) {
			end--
		}
		if end <= broken {
			break
		}
		whole = end
	}
	return whole + 1
}

// addYAML adds a problem that the YAML library found.
func (p *Problems) addYAML(file string, line int, err error) {
	text := strings.TrimSpace(strings.TrimPrefix(err.Error(), "yaml: "))
	if match := lineOf.FindStringSubmatch(text); match != nil {
		if n, err := strconv.Atoi(match[1]); err == nil {
			line = n
		}
		text = text[len(match[0]):]
	}
	for said, advice := range advices {
		if strings.Contains(text, said) {
			text += "; " + advice
		}
	}
	p.addf(file, line, "%s", text)
}

// unquoted finds a text that begins with a placeholder and is not quoted: YAML takes it for a mapping that does not end.
var unquoted = regexp.MustCompile(`(?m)^[ \t]*\w+:[ \t]+\{\w+\|[^{}\n]*\}[ \t]*[^ \t\n#}]`)

// parseYAML returns the one document of a file, or nil.
func parseYAML(file string, source []byte, found *Problems) *yaml.Node {
	var doc, more yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(source))
	if err := decoder.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		if at := unquoted.FindIndex(source); at != nil { // the library names the line where the mapping begins
			found.addf(file, 1+bytes.Count(source[:at[0]], []byte("\n")), "quote a text that begins with {")
			return nil
		}
		var said Problems
		said.addYAML(file, 0, err)
		found.addf(file, cmp.Or(brokenAt(source), said[0].Line), "%s", said[0].Text)
		return nil
	}
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		found.addf(file, more.Line, "something follows the first document; take --- and what follows it out")
		return nil
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		found.addf(file, 0, "the file must hold one mapping")
		return nil
	}
	if aliased(&doc, file, found) {
		return nil
	}
	return doc.Content[0]
}

// aliased refuses anchors, aliases and merges: a file could grow without bound by them, and a key could stand twice.
func aliased(node *yaml.Node, file string, found *Problems) bool {
	refused := node.Kind == yaml.AliasNode || node.Anchor != "" || node.Tag == "!!merge"
	if refused {
		found.addf(file, node.Line, "anchors, aliases and merges are not read; write the value out")
	}
	if node.Kind == yaml.MappingNode {
		seen := map[string]int{}
		for i := 0; i < len(node.Content); i += 2 {
			key := node.Content[i]
			if line, twice := seen[key.Value]; twice {
				found.addf(file, key.Line, "%q is on line %d already", key.Value, line)
				refused = true
			}
			seen[key.Value] = key.Line
		}
	}
	for _, child := range node.Content {
		refused = aliased(child, file, found) || refused
	}
	return refused
}

// hash names a version by its files.
func hash(files map[string][]byte) string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(sum, "%s %d\n%s", name, len(files[name]), files[name])
	}
	return hex.EncodeToString(sum.Sum(nil))[:16]
}

// limited writes a limit as the file does.
func limited(limit time.Duration) string {
	if limit%(24*time.Hour) == 0 {
		return fmt.Sprintf("%dd", limit/(24*time.Hour))
	}
	return limit.String()
}

// duration reads what the schema lets pass: Go's form, and days.
func duration(text string) (total time.Duration, err error) {
	if days, rest, found := strings.Cut(text, "d"); found {
		d, err := time.ParseDuration(days + "h")
		if err != nil {
			return 0, err
		}
		total, text = 24*d, rest
	}
	if text == "" {
		return total, nil
	}
	rest, err := time.ParseDuration(text)
	return total + rest, err
}
