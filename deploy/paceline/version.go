package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// commit is the commit that an image was built from; the linker sets it (Dockerfile). A build in a checkout has it from Go.
var commit string //nolint:gochecknoglobals // the linker sets it

// release is the version of a released binary, such as v0.2.0; the linker sets it (.goreleaser.yaml).
var release string //nolint:gochecknoglobals // the linker sets it

// versionCommand prints what this program was built from.
type versionCommand struct{}

// Run prints one line.
func (c *versionCommand) Run(t terminal) error {
	info, _ := debug.ReadBuildInfo()
	_, err := fmt.Fprintln(t.out, version(info, commit))
	return err
}

// version returns the version, the commit and the toolchain of a build. info may be nil.
func version(info *debug.BuildInfo, commit string) string {
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
	if commit == "" {
		commit = "unknown"
	}
	return fmt.Sprintf("paceline %s, commit %s%s, %s %s/%s", version, commit, dirty, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
