package guardrails

import (
	"go/ast"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/packages"
)

// walk is a way through the code as docs/development.md has it, with the most functions and files that it may have.
type walk struct {
	title            string
	functions, files int
}

var walks = []walk{
	{title: "A step: from the alarm to Twilio and back", functions: 45, files: 22},
	{title: "A text: a reply that advances", functions: 45, files: 25},
}

// calledByOthers are the functions of walks that no function before them names, and who calls them.
var calledByOthers = map[string]string{
	"services/messaging/twilio/exchange.go RoundTrip":    "Twilio's library, as the transport of its client",
	"gateway/twilio/verify.go verify":                    "the pipeline of callbacks, which callback gives it to",
	"services/onboarding/conversation/alarms.go stepJob": "the outbox, which New gives it to",
}

// TestWalks holds the two walks of docs/development.md to the code: each function is in the file that is linked before it, and is named in
// the body of one that stands before it, directly, by its interface or by its RPC. The walks keep their length.
func TestWalks(t *testing.T) {
	t.Parallel()
	dependOnTree(t)
	page, err := os.ReadFile(filepath.Join(root(t), "docs", "development.md"))
	require.NoError(t, err)
	for _, w := range walks {
		steps := w.read(t, string(page))
		files := map[string]bool{}
		for _, s := range steps {
			files[s.file] = true
		}
		require.Greater(t, len(steps), 30, w.title)
		require.LessOrEqual(t, len(steps), w.functions, "functions of %q", w.title)
		require.LessOrEqual(t, len(files), w.files, "files of %q", w.title)
		found := declared(t, slices.Sorted(maps.Keys(files)))
		named := map[string]bool{}
		for i, s := range steps {
			of := found[s]
			require.NotEmpty(t, of, "%s has no %s", s.file, s.name)
			_, others := calledByOthers[s.file+" "+s.name]
			if i > 0 && !others {
				require.True(t, slices.ContainsFunc(of, func(d declaration) bool { return named[d.full] || d.method && named["."+s.name] }),
					"%s: no function before %s names it", w.title, s.name)
			}
			for _, d := range of {
				maps.Copy(named, d.names)
			}
		}
	}
}

// place is a function of a walk.
type place struct{ file, name string }

var (
	linked   = regexp.MustCompile(`\]\(\.\./(\S+\.go)\)((?:(?:,|,? with|, then)?\s*` + "`" + `\w+` + "`" + `)+)`)
	function = regexp.MustCompile("`(\\w+)`")
)

// read lists the functions of a walk in their order.
func (w walk) read(t *testing.T, page string) (steps []place) {
	t.Helper()
	_, text, found := strings.Cut(page, "### "+w.title+"\n")
	require.True(t, found, "docs/development.md has no walk %q", w.title)
	text, _, _ = strings.Cut(text, "\n##")
	for _, match := range linked.FindAllStringSubmatch(text, -1) {
		for _, name := range function.FindAllStringSubmatch(match[2], -1) {
			steps = append(steps, place{match[1], name[1]})
		}
	}
	return steps
}

// declaration is a function with the full names of the functions that its body names, and, of methods of interfaces, ".Method".
type declaration struct {
	full   string
	method bool
	names  map[string]bool
}

// declared returns the functions of files.
func declared(t *testing.T, files []string) map[place][]declaration {
	t.Helper()
	var patterns []string
	for _, file := range files {
		patterns = append(patterns, "./"+filepath.Dir(file))
	}
	found := map[place][]declaration{}
	for _, p := range load(t, packages.LoadSyntax, nil, slices.Compact(patterns)...) {
		for _, parsed := range p.Syntax {
			file, err := filepath.Rel(root(t), p.Fset.Position(parsed.Pos()).Filename)
			require.NoError(t, err)
			for _, d := range parsed.Decls {
				if f, is := d.(*ast.FuncDecl); is && f.Body != nil {
					at := place{filepath.ToSlash(file), f.Name.Name}
					found[at] = append(found[at], declaration{
						full: p.TypesInfo.Defs[f.Name].(*types.Func).FullName(), method: f.Recv != nil, names: namesIn(p.TypesInfo, f.Body),
					})
				}
			}
		}
	}
	return found
}

func namesIn(info *types.Info, body ast.Node) map[string]bool {
	names := map[string]bool{}
	ast.Inspect(body, func(n ast.Node) bool {
		id, is := n.(*ast.Ident)
		if !is {
			return true
		}
		f, is := info.Uses[id].(*types.Func)
		if !is {
			return true
		}
		names[f.Origin().FullName()] = true
		if recv := f.Signature().Recv(); recv != nil && types.IsInterface(recv.Type()) {
			names["."+f.Name()] = true
		}
		return true
	})
	return names
}
