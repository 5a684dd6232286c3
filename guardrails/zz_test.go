package guardrails_test
import ("testing";"strings";"go/types";"golang.org/x/tools/go/packages")
func TestZZ(t *testing.T){
 l:=load(t,packages.LoadSyntax,nil,"paceline.internal/services/onboarding","paceline.internal/platform/...")
 by:=map[string]*packages.Package{}
 for _,p:=range l { by[p.PkgPath]=p }
 o:=by["paceline.internal/services/onboarding"]
 println(len(o.Syntax), len(o.Imports), o.Imports["paceline.internal/platform/postgres"]==by["paceline.internal/platform/postgres"])
 for id,ob:=range o.TypesInfo.Uses { if f,ok:=ob.(*types.Func);ok && id.Name=="Listen" && strings.Contains(f.FullName(),"postgres") {
   println(f.FullName(), f.Pkg()==by["paceline.internal/platform/postgres"].Types, ob==by["paceline.internal/platform/postgres"].Types.Scope().Lookup("Listen"))
 }}
}
