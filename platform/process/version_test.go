package process

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVersion(t *testing.T) {
	t.Parallel()
	checkout := &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "c0ffee"}, {Key: "vcs.modified", Value: "true"}}}
	checkout.Main.Version = "v0.1.9"
	require.Contains(t, version(checkout, "", ""), "v0.1.9, commit c0ffee with changes, go")
	require.Contains(t, version(checkout, "v0.2.0", ""), "v0.2.0, commit c0ffee")
	require.Contains(t, version(&debug.BuildInfo{}, "v0.2.0", "c0ffee"), "v0.2.0, commit c0ffee, go", "an image is built without a repository")
	require.Contains(t, version(nil, "", ""), "(devel), commit unknown")
	require.Regexp(t, `^gateway \S+, commit `, Version("gateway"))
}
