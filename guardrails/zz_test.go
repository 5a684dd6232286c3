package guardrails_test
import ("testing";"os";"golang.org/x/tools/go/analysis/checker";"golang.org/x/tools/go/packages";"paceline.internal/guardrails")
func TestZZ(t *testing.T){
 l:=load(t,packages.LoadSyntax,nil,everything)
 n:=0
 for _,p:=range l { n+=len(p.Imports) }
 println("imports",n, len(l))
 f,_:=os.Create("/tmp/facts.log")
 g,err:=checker.Analyze(guardrails.All()[:1],l,&checker.Options{FactLog:f})
 if err!=nil{t.Fatal(err)}
 for _,a:=range g.Roots { for _,d:=range a.Diagnostics { println(a.Package.Fset.Position(d.Pos).String(), d.Message) } }
}
