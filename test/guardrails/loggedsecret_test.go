package guardrails

import (
	"go/ast"
	"go/types"
	"regexp"

	"golang.org/x/tools/go/analysis"
)

// loggedSecret finds phone numbers, message bodies and secrets on their way to a log. Their types mask themselves, as long as
// the value is logged and not the string that was got out of it.
var loggedSecret = &analysis.Analyzer{
	Name: "loggedsecret",
	Doc:  "finds phone numbers, bodies and secrets that are logged as plain strings",
	Run:  run(runLoggedSecret),
}

const reachesLog = "%s reaches a log - log the value of the masking type (sms.Phone, sms.Body, telemetry.Masked, config.Secret) " +
	"by slog.Any, or an id"

// personal are the names of attributes that hold such things. A state token is none.
var personal = regexp.MustCompile(
	`^(.+_)?(phone|phone_number|msisdn|body|password|secret|authorization|api_key)$|^((access|auth|bearer|service|qstash|twilio)_)?token$`)

// masking are the types that hide what they hold. revealing are the ways to get it out.
var (
	masking   = []string{messaging + "/sms.Phone", messaging + "/sms.Body", platform + "/config.Secret", platform + "/telemetry.Masked"}
	revealing = map[string]bool{
		"(" + messaging + "/sms.Phone).String":    true,
		"(" + platform + "/config.Secret).Reveal": true,
	}
)

func runLoggedSecret(pass *analysis.Pass) {
	if !within(pass.Pkg.Path(), product) {
		return
	}
	each(pass, func(n ast.Node, _ string) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		for _, a := range attributes(pass, call) {
			key, _ := said(pass, a.key)
			switch {
			case reveals(pass, a.value):
				pass.Reportf(a.value.Pos(), reachesLog, "what a masking type hides")
			case personal.MatchString(key) && plain(pass, a.value):
				pass.Reportf(a.value.Pos(), reachesLog, "the plain string "+key)
			}
		}
		return true
	})
}

type attribute struct{ key, value ast.Expr }

// attributes are the keys and values that a call hands to log/slog: of slog.String and its like, or in turns.
func attributes(pass *analysis.Pass, call *ast.CallExpr) []attribute {
	f := callee(pass, call)
	if f == nil || f.Pkg() == nil || f.Pkg().Path() != "log/slog" || call.Ellipsis.IsValid() {
		return nil
	}
	signature := f.Signature()
	if !signature.Variadic() {
		if signature.Results().Len() == 1 && isType(signature.Results().At(0).Type(), "log/slog.Attr") && len(call.Args) == 2 {
			return []attribute{{key: call.Args[0], value: call.Args[1]}}
		}
		return nil
	}
	var found []attribute
	for args := call.Args[min(signature.Params().Len()-1, len(call.Args)):]; len(args) > 1; {
		if isType(pass.TypesInfo.TypeOf(args[0]), "log/slog.Attr") {
			args = args[1:]
			continue
		}
		found, args = append(found, attribute{key: args[0], value: args[1]}), args[2:]
	}
	return found
}

// reveals reports whether a value is got out of a masking type right here.
func reveals(pass *analysis.Pass, value ast.Expr) bool {
	call, ok := ast.Unparen(value).(*ast.CallExpr)
	if !ok {
		return false
	}
	if f := callee(pass, call); f != nil {
		return revealing[f.FullName()]
	}
	converts := pass.TypesInfo.Types[call.Fun].IsType() && len(call.Args) == 1
	return converts && plain(pass, value) && isType(pass.TypesInfo.TypeOf(call.Args[0]), masking...)
}

// plain reports whether a value is a string, or bytes, that would be logged as it stands.
func plain(pass *analysis.Pass, value ast.Expr) bool {
	t := pass.TypesInfo.TypeOf(value)
	if t == nil {
		return false
	}
	if method, _, _ := types.LookupFieldOrMethod(t, true, pass.Pkg, "LogValue"); method != nil {
		return false
	}
	switch u := t.Underlying().(type) {
	case *types.Basic:
		return u.Info()&types.IsString != 0
	case *types.Slice:
		element, ok := u.Elem().Underlying().(*types.Basic)
		return ok && element.Kind() == types.Byte
	}
	return false
}
