package process

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// release and commit are those of a released binary or an image, such as v0.2.0; the linker sets them (.goreleaser.yaml, Dockerfile).
// A build in a checkout has them from Go.
var release, commit string //nolint:gochecknoglobals // the linker sets them

// Version returns the version, the commit and the toolchain of this binary.
func Version(name string) string {
	info, _ := debug.ReadBuildInfo()
	return name + " " + version(info, release, commit)
}

// version reads info, which may be nil; release goes before it.
func version(info *debug.BuildInfo, release, commit string) string {
	version, dirty := cmp.Or(release, "(devel)"), ""
	if info != nil {
		if info.Main.Version != "" && release == "" {
			version = info.Main.Version
		}
		for _, setting := range info.Settings {
			switch {
			case setting.Key == "vcs.revision":
				commit = setting.Value
			case setting.Key == "vcs.modified" && setting.Value == "true":
				dirty = " with changes"
			}
		}
	}
	return fmt.Sprintf("%s, commit %s%s, %s %s/%s", version, cmp.Or(commit, "unknown"), dirty, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
