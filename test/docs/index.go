package docs

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Test is one test or subtest, as `go test -run` names it.
type Test struct {
	Dir   string // relative to the root, with slashes
	Name  string
	Skips bool // its body, or that of the test around it, can skip it
}

// Index finds every test below root that a plain `go test` compiles on this machine, and those of its subtests that can be
// read from the source: t.Run with a literal name, and t.Run over a table whose names are literals (the field `name`, the
// first field, a map's key, or a list that is ranged over), also in functions of the package that are handed t.
func Index(root string) ([]Test, error) {
	var tests []Test
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if name := entry.Name(); path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "gen") {
			return fs.SkipDir
		}
		found, err := indexPackage(root, path)
		tests = append(tests, found...)
		return err
	})
	return tests, err
}

// indexPackage reads the test files of one folder. A package and its external test package are read as one.
func indexPackage(root, dir string) ([]Test, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil || len(names) == 0 {
		return nil, err
	}
	relative, err := filepath.Rel(root, dir)
	if err != nil {
		return nil, err
	}
	scan := scan{functions: map[string]*ast.FuncDecl{}, tables: map[string]ast.Expr{}, found: map[string]bool{}}
	for _, name := range names {
		if err := scan.read(name); err != nil {
			return nil, err
		}
	}
	for name, function := range scan.functions {
		if isTest(name) && function.Body != nil {
			scan.test(name, function.Body, scope{})
		}
	}
	var tests []Test
	for name, skips := range scan.found {
		tests = append(tests, Test{Dir: filepath.ToSlash(relative), Name: name, Skips: skips})
	}
	slices.SortFunc(tests, func(a, b Test) int { return strings.Compare(a.Name, b.Name) })
	return tests, nil
}

// isTest reports whether a plain `go test` runs the function; fuzz targets run their corpus.
func isTest(name string) bool {
	return name != "TestMain" && (strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz"))
}

// scan is the reading of one package.
type scan struct {
	functions map[string]*ast.FuncDecl
	tables    map[string]ast.Expr // package-level variables
	found     map[string]bool     // test -> whether it can skip
}

func (s *scan) read(path string) error {
	dir, name := filepath.Split(path)
	switch match, err := build.Default.MatchFile(dir, name); {
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	case !match:
		return nil // needs a tag, or another system
	}
	source, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	file, err := parser.ParseFile(token.NewFileSet(), path, source, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, declaration := range file.Decls {
		switch declaration := declaration.(type) {
		case *ast.FuncDecl:
			if declaration.Recv == nil {
				s.functions[declaration.Name.Name] = declaration
			}
		case *ast.GenDecl:
			s.readVariables(declaration)
		}
	}
	return nil
}

func (s *scan) readVariables(declaration *ast.GenDecl) {
	for _, spec := range declaration.Specs {
		value, ok := spec.(*ast.ValueSpec)
		if !ok {
			continue
		}
		for i, name := range value.Names {
			if i < len(value.Values) {
				s.tables[name.Name] = value.Values[i]
			}
		}
	}
}

// scope is what a body inherits from the ones around it.
type scope struct {
	names   []string // the names that the tables in sight give
	skips   bool
	callers []string // helpers that are being read, so that recursion ends
}

// test records one test and reads its body, and that of every helper it hands its t to.
func (s *scan) test(name string, body *ast.BlockStmt, around scope) {
	inner := scope{
		names:   append(slices.Clone(around.names), s.tableNames(body)...),
		skips:   around.skips || skips(body),
		callers: around.callers,
	}
	s.found[name] = s.found[name] || inner.skips
	ast.Inspect(body, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok {
			return true
		}
		if isRun(call) {
			s.subtests(name, call, inner)
			return false
		}
		if helper := s.helper(call, inner.callers); helper != nil {
			called := inner
			called.callers = append(slices.Clone(inner.callers), helper.Name.Name)
			s.test(name, helper.Body, called)
		}
		return true
	})
}

// subtests records what one t.Run starts: one test, or one for every name of the tables in sight.
func (s *scan) subtests(parent string, run *ast.CallExpr, around scope) {
	names := around.names
	if literal, ok := stringLiteral(run.Args[0]); ok {
		names = []string{literal}
	} else {
		around.names = nil // the table has named these: what they start in turn has names of its own
		names = between(run.Args[0], names)
	}
	for _, name := range names {
		full := parent + "/" + rewrite(name)
		switch body := run.Args[1].(type) {
		case *ast.FuncLit:
			s.test(full, body.Body, around)
		case *ast.Ident:
			if function := s.functions[body.Name]; function != nil && !slices.Contains(around.callers, body.Name) {
				inner := around
				inner.callers = append(slices.Clone(around.callers), body.Name)
				s.test(full, function.Body, inner)
				continue
			}
			s.found[full] = s.found[full] || around.skips
		default:
			s.found[full] = s.found[full] || around.skips
		}
	}
}

// between puts the names where an expression such as "S1_22_"+tt.name+"IsRefused" has them.
func between(expression ast.Expr, names []string) []string {
	sum, ok := expression.(*ast.BinaryExpr)
	if !ok || sum.Op != token.ADD {
		return names
	}
	framed := make([]string, 0, len(names))
	if before, ok := stringLiteral(sum.X); ok {
		for _, name := range between(sum.Y, names) {
			framed = append(framed, before+name)
		}
		return framed
	}
	after, _ := stringLiteral(sum.Y) // what is no literal cannot be read
	for _, name := range between(sum.X, names) {
		framed = append(framed, name+after)
	}
	return framed
}

// helper is the function of this package that a call hands its t to, or nil.
func (s *scan) helper(call *ast.CallExpr, callers []string) *ast.FuncDecl {
	name, ok := call.Fun.(*ast.Ident)
	if !ok || slices.Contains(callers, name.Name) {
		return nil
	}
	function := s.functions[name.Name]
	if function == nil || function.Body == nil || isTest(name.Name) {
		return nil
	}
	for _, argument := range call.Args {
		if t, ok := argument.(*ast.Ident); ok && t.Name == "t" {
			return function
		}
	}
	return nil
}

// tableNames are the names in the composite literals of a body and of the package-level tables that it mentions, outside the
// subtests that it starts with a function literal of their own.
func (s *scan) tableNames(body ast.Node) []string {
	var names []string
	ast.Inspect(body, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.CallExpr:
			return !isRun(node)
		case *ast.Ident:
			if table := s.tables[node.Name]; table != nil {
				names = append(names, literalNames(table)...)
			}
		case *ast.CompositeLit:
			names = append(names, literalNames(node)...)
			return false
		case *ast.RangeStmt:
			if list, ok := node.X.(*ast.CompositeLit); ok {
				names = append(names, stringLiterals(list.Elts)...)
			}
		}
		return true
	})
	return names
}

// literalNames are the strings in a table that can name its rows.
func literalNames(table ast.Node) []string {
	var names []string
	add := func(expression ast.Expr) { names = append(names, stringLiterals([]ast.Expr{expression})...) }
	ast.Inspect(table, func(node ast.Node) bool {
		composite, ok := node.(*ast.CompositeLit)
		if !ok {
			return true
		}
		for i, element := range composite.Elts {
			switch element := element.(type) {
			case *ast.KeyValueExpr:
				add(element.Key)
				if field, ok := element.Key.(*ast.Ident); ok && field.Name == "name" {
					add(element.Value)
				}
			case *ast.BasicLit:
				if _, list := composite.Type.(*ast.ArrayType); !list && i == 0 {
					add(element)
				}
			}
		}
		return true
	})
	return names
}

// skips reports whether a body can skip its own test, outside the subtests that it starts.
func skips(body *ast.BlockStmt) bool {
	found := false
	ast.Inspect(body, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok {
			return !found
		}
		if selector, ok := call.Fun.(*ast.SelectorExpr); ok {
			switch selector.Sel.Name {
			case "Skip", "Skipf", "SkipNow":
				found = true
			}
		}
		return !found && !isRun(call)
	})
	return found
}

// isRun reports whether a call has the form of t.Run(name, body).
func isRun(call *ast.CallExpr) bool {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != "Run" || len(call.Args) != 2 {
		return false
	}
	receiver, ok := selector.X.(*ast.Ident)
	return ok && receiver.Name == "t"
}

func stringLiterals(expressions []ast.Expr) []string {
	var values []string
	for _, expression := range expressions {
		if value, ok := stringLiteral(expression); ok {
			values = append(values, value)
		}
	}
	return values
}

func stringLiteral(expression ast.Expr) (string, bool) {
	literal, ok := expression.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return "", false
	}
	value, err := strconv.Unquote(literal.Value)
	return value, err == nil
}

// rewrite is what package testing makes of a subtest's name.
func rewrite(name string) string { return strings.ReplaceAll(name, " ", "_") }
