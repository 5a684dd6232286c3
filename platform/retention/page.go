package retention

import (
	"fmt"
	"strings"
)

// Page is the rules as a table of docs/privacy.md.
func Page(rules []Rule) string {
	var b strings.Builder
	b.WriteString("| Table | What it holds | Kept until | Set by | An organisation's own |\n|---|---|---|---|---|\n")
	for _, r := range rules {
		variable, setting := "", ""
		if r.Variable != "" {
			variable = "`" + r.Variable + "`"
		}
		if r.Setting != "" {
			setting = "`" + r.Setting + "_days`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", r.Table, r.Holds, strings.ReplaceAll(r.Kept, "{for}", variable), variable, setting)
	}
	return b.String()
}
