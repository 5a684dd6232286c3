package guardrails

import (
	"go/ast"
	"go/types"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// Purity finds what a pure package may not have: I/O, a clock, chance, a library. A decision about a person is a function
// from values to a value. It can be read, tested by properties and replayed because nothing else takes part in it.
//
// It lists what is allowed to be imported, not what is forbidden, so that what nobody thought of is refused. forbidigo still
// refuses time.Now everywhere, and depguard holds the directions between packages that are not pure.
var Purity = &analysis.Analyzer{
	Name: "purity",
	Doc:  "finds I/O, clocks and chance in pure packages",
	Run:  run(runPurity),
}

const impure = "pure package made impure: %s. Take the value as an argument, or move this to the orchestrator or adapter that calls it " +
	"(docs/architecture.md)"

// Pure are the pure packages, with all below them. docs/architecture.md calls the same ones pure; a test compares.
func Pure() []string {
	return []string{
		onboarding + "/catalog", onboarding + "/quiet", onboarding + "/session",
		messaging + "/consent", messaging + "/sms",
	}
}

// libraries are the exceptions to "the standard library only": which package may use which, and why.
var libraries = map[string]string{
	// Numbering plans are data that a library keeps better than we could.
	messaging + "/sms": "github.com/nyaruka/phonenumbers",
}

// harmless are packages of the standard library that do no I/O and know neither clock nor chance, but for what impurely sees
// of them. Whoever needs one more adds it, if that is true of it.
var harmless = []string{
	"bytes", "cmp", "container/heap", "container/list", "container/ring", "crypto/hmac", "crypto/sha1", "crypto/sha256", "crypto/sha512",
	"crypto/subtle", "embed", "encoding", "encoding/base32", "encoding/base64", "encoding/binary", "encoding/csv", "encoding/hex",
	"encoding/json", "encoding/xml", "errors", "fmt", "hash", "hash/adler32", "hash/crc32", "hash/crc64", "hash/fnv", "html", "io", "io/fs",
	"iter", "log/slog", "maps", "math", "math/big", "math/bits", "net/url", "path", "reflect", "regexp", "regexp/syntax", "slices", "sort",
	"strconv", "strings", "text/template", "text/template/parse", "time", "unicode", "unicode/utf16", "unicode/utf8",
}

func runPurity(pass *analysis.Pass) {
	if !within(pass.Pkg.Path(), Pure()...) {
		return
	}
	each(pass, func(n ast.Node, _ string) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			if path, err := strconv.Unquote(n.Path.Value); err == nil && !mayImport(pass.Pkg.Path(), path) {
				pass.Reportf(n.Pos(), impure, "it imports "+path)
			}
		case *ast.Ident:
			if what := impurely(pass.TypesInfo.Uses[n]); what != "" {
				pass.Reportf(n.Pos(), impure, what)
			}
		}
		return true
	})
}

func mayImport(who, path string) bool {
	return slices.Contains(harmless, path) || within(path, Pure()...) || libraries[who] == path
}

// impurely says what is impure about a thing of a package that is not: fmt prints, time has a clock.
func impurely(object types.Object) string {
	if object == nil {
		return ""
	}
	if builtin, ok := object.(*types.Builtin); ok {
		if builtin.Name() == "print" || builtin.Name() == "println" {
			return "it prints"
		}
		return ""
	}
	if object.Pkg() == nil {
		return ""
	}
	name := object.Pkg().Path() + "." + object.Name()
	if f, ok := object.(*types.Func); ok {
		name = f.Origin().FullName()
	}
	switch name {
	case "time.Now", "time.Since", "time.Until", "time.Sleep", "time.After", "time.AfterFunc", "time.NewTimer", "time.NewTicker", "time.Tick":
		return "it has a clock, " + name
	case "time.Local", "(time.Time).Local", "time.LoadLocation":
		return "it asks the machine, " + name
	}
	switch {
	case strings.HasPrefix(name, "fmt.Print"), strings.HasPrefix(name, "fmt.Scan"):
		return "it does I/O, " + name
	case object.Pkg().Path() == "log/slog" && !masks(object):
		return "it logs, " + name
	}
	return ""
}

// masks reports whether a thing of log/slog serves a LogValue method, which is how personal data keeps itself out of logs:
// a value or an attribute, and what makes them.
func masks(object types.Object) bool {
	const value, attr = "log/slog.Value", "log/slog.Attr"
	switch object := object.(type) {
	case *types.TypeName:
		return slices.Contains([]string{"Value", "Attr", "LogValuer", "Kind", "Level"}, object.Name())
	case *types.Const:
		return true
	case *types.Var:
		return object.IsField()
	case *types.Func:
		signature := object.Signature()
		if receiver := signature.Recv(); receiver != nil {
			return !isType(receiver.Type(), "log/slog.Logger", "log/slog.Handler")
		}
		return signature.Results().Len() == 1 && isType(signature.Results().At(0).Type(), value, attr)
	}
	return false
}
