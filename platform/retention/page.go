package retention

import (
	"fmt"
	"strings"
)

// Page returns the rules as a list of docs/security-and-privacy.md: a table, what it holds, and until when.
func Page(rules []Rule) string {
	var b strings.Builder
	for _, r := range rules {
		setting := ""
		if r.Setting != "" {
			setting = " (`" + r.Setting + "_days`)"
		}
		fmt.Fprintf(&b, "- `%s`, %s: %s%s\n", r.Table, r.Holds, strings.ReplaceAll(r.Kept, "{for}", "`"+r.Variable+"`"), setting)
	}
	return b.String()
}
