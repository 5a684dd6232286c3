package retention

import (
	"fmt"
	"strings"
)

// Page is the rules as a table of docs/security-and-privacy.md.
func Page(rules []Rule) string {
	var b strings.Builder
	b.WriteString("| Table | What it holds | Kept until | An organisation's own |\n|---|---|---|---|\n")
	for _, r := range rules {
		setting := ""
		if r.Setting != "" {
			setting = "`" + r.Setting + "_days`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.Table, r.Holds, strings.ReplaceAll(r.Kept, "{for}", "`"+r.Variable+"`"), setting)
	}
	return b.String()
}
