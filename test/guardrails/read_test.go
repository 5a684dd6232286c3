package guardrails

import (
	"go/ast"
	"go/constant"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// within reports whether a package is one of the roots, or below one: a new package needs no new line in any rule.
func within(path string, roots ...string) bool {
	for _, root := range roots {
		if path == root || strings.HasPrefix(path, root+"/") {
			return true
		}
	}
	return false
}

// run makes a rule the Run of an analyzer. A rule only reports: it has no result for other analyzers.
func run(rule func(pass *analysis.Pass)) func(pass *analysis.Pass) (any, error) {
	return func(pass *analysis.Pass) (any, error) {
		rule(pass)
		return nil, nil
	}
}

// each visits what a package ships, which is all but its tests. owner is the function around a node, as types.Func's
// FullName has it, "" at the top of a file. visit says whether to go on below the node.
func each(pass *analysis.Pass, visit func(n ast.Node, owner string) bool) {
	for _, file := range pass.Files {
		if strings.HasSuffix(pass.Fset.File(file.FileStart).Name(), "_test.go") {
			continue
		}
		for _, declaration := range file.Decls {
			owner := ""
			if function, ok := declaration.(*ast.FuncDecl); ok {
				if known, ok := pass.TypesInfo.Defs[function.Name].(*types.Func); ok {
					owner = known.FullName()
				}
			}
			ast.Inspect(declaration, func(n ast.Node) bool { return n != nil && visit(n, owner) })
		}
	}
}

// eachFunction visits the functions that a package ships.
func eachFunction(pass *analysis.Pass, visit func(f *types.Func, body *ast.BlockStmt)) {
	each(pass, func(n ast.Node, _ string) bool {
		if declared, ok := n.(*ast.FuncDecl); ok && declared.Body != nil {
			if f, ok := pass.TypesInfo.Defs[declared.Name].(*types.Func); ok {
				visit(f, declared.Body)
			}
		}
		return false
	})
}

// named is the function or method that an identifier stands for, called or not; nil when it is none.
func named(pass *analysis.Pass, id *ast.Ident) *types.Func {
	function, ok := pass.TypesInfo.Uses[id].(*types.Func)
	if !ok {
		return nil
	}
	return function.Origin()
}

// callee is the function or method that a call names; nil for a conversion and for the call of a value.
func callee(pass *analysis.Pass, call *ast.CallExpr) *types.Func {
	switch f := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		return named(pass, f)
	case *ast.SelectorExpr:
		return named(pass, f.Sel)
	}
	return nil
}

// isType reports whether t is, or points to, a type by its full name, such as "time.Time".
func isType(t types.Type, names ...string) bool {
	if pointer, ok := t.(*types.Pointer); ok {
		t = pointer.Elem()
	}
	n, ok := types.Unalias(t).(*types.Named)
	if !ok || n.Obj().Pkg() == nil {
		return false
	}
	for _, name := range names {
		if n.Obj().Pkg().Path()+"."+n.Obj().Name() == name {
			return true
		}
	}
	return false
}

// takes reports whether a function has a parameter of one of the types. Its caller passes one on, under any name and behind
// any interface.
func takes(signature *types.Signature, names ...string) bool {
	for parameter := range signature.Params().Variables() {
		t := parameter.Type()
		if list, ok := t.(*types.Slice); ok {
			t = list.Elem()
		}
		if isType(t, names...) {
			return true
		}
	}
	return false
}

// said returns what a constant expression says; a name of a constant says what that is.
func said(pass *analysis.Pass, e ast.Expr) (string, bool) {
	value := pass.TypesInfo.Types[e].Value
	if value == nil || value.Kind() != constant.String {
		return "", false
	}
	return constant.StringVal(value), true
}

// text returns what is spelled out at a node, put together from however many pieces. A constant's name is left out: the constant
// is checked where it is declared.
func text(pass *analysis.Pass, n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.BasicLit:
		return said(pass, n)
	case *ast.BinaryExpr:
		return said(pass, n)
	}
	return "", false
}
