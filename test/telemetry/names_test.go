package telemetry_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNames holds the names that the code gives to metrics to the form of Prometheus, and the old names to new ones that exist.
func TestNames(t *testing.T) {
	t.Parallel()
	instrument := regexp.MustCompile(`\.(?:Int64|Float64)(?:Observable)?(Counter|UpDownCounter|Gauge|Histogram)\(\s*"([^"]+)"(.*)`)
	known := map[string]bool{}
	for _, tree := range []string{"platform", "services", "gateway"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, tree), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			for _, found := range instrument.FindAllStringSubmatch(string(source), -1) {
				kind, name := found[1], found[2]
				require.Regexp(t, `^paceline_[a-z]+(_[a-z]+)*$`, name, path)
				require.Equal(t, kind == "Counter", strings.HasSuffix(name, "_total"), "%s: the name of a counter ends in _total: %s", path, name)
				require.Equal(t, strings.Contains(found[3], `WithUnit("s")`), strings.HasSuffix(strings.TrimSuffix(name, "_total"), "_seconds"),
					"%s: the name tells the unit: %s", path, name)
				require.False(t, known[name], "%s: two metrics are called %s", path, name)
				known[name] = true
			}
			return err
		}))
	}
	require.NotEmpty(t, known)
	table, err := os.ReadFile(filepath.Join(root, "platform/telemetry/old_names.go"))
	require.NoError(t, err)
	for _, row := range regexp.MustCompile(`"(paceline_\w+)": `).FindAllStringSubmatch(string(table), -1) {
		require.True(t, known[row[1]], "no service exports %s", row[1])
	}
}
