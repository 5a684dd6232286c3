package retention

import (
	"slices"
	"strings"
)

// Page returns the rules as a list of docs/security-and-privacy.md: until when rows are kept, then the tables
// and what they hold.
func Page(rules []Rule) string {
	var ends []string
	tables := map[string][]string{}
	for _, r := range rules {
		end := strings.ReplaceAll(r.Kept, "{for}", "`"+r.Variable+"`")
		if r.Setting != "" {
			end += " (`" + r.Setting + "_days`)"
		}
		if !slices.Contains(ends, end) {
			ends = append(ends, end)
		}
		table := "`" + r.Table + "`"
		if r.Holds != "" {
			table += " (" + r.Holds + ")"
		}
		tables[end] = append(tables[end], table)
	}
	var b strings.Builder
	for _, end := range ends {
		b.WriteString("- **" + end + "**: " + strings.Join(tables[end], ", ") + "\n")
	}
	return b.String()
}
