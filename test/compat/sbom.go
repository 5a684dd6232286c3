package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// judgeContents has CycloneDX's own library read the list of what is in an image.
func judgeContents(ctx context.Context, _ *site) (results []result, err error) {
	dir, err := os.MkdirTemp("", "paceline-images-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	build := exec.CommandContext(ctx, "go", "run", "./deploy/image", "-to", dir, "gateway")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", build, err, out)
	}
	return node(ctx, "@cyclonedx/cyclonedx-library", "sbom.mjs", "CONTENTS="+filepath.Join(dir, "gateway.cdx.json"))
}
