package manifests

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/stretchr/testify/require"
)

// byDigest is an image that cannot become another one under the same name.
var byDigest = regexp.MustCompile(`^[^@]+:[^@]+@sha256:[0-9a-f]{64}$`)

func TestDockerfile(t *testing.T) {
	t.Parallel()
	shipped, err := os.ReadFile(filepath.Join(root(t), "Dockerfile"))
	require.NoError(t, err)

	t.Run("BuildKitFindsNothingAndTheImageRunsOneStaticBinaryAsNobody", func(t *testing.T) {
		t.Parallel()
		parsed, err := parser.Parse(bytes.NewReader(shipped))
		require.NoError(t, err)
		require.Empty(t, parsed.Warnings)
		stages, _, err := instructions.Parse(parsed.AST, linter.New(&linter.Config{
			Warn: func(rule, description, _, message string, _ []parser.Range) {
				t.Errorf("%s: %s (%s)", rule, message, description)
			},
		}))
		require.NoError(t, err)
		for _, stage := range stages {
			require.Regexp(t, byDigest, stage.BaseName)
		}
		last := stages[len(stages)-1]
		require.Contains(t, last.BaseName, "gcr.io/distroless/static-debian12:nonroot@")
		var said []string
		for _, command := range last.Commands {
			said = append(said, fmt.Sprint(command))
		}
		// A number, because Kubernetes cannot check that a name is not root; no shell form, because the image has no shell.
		require.Equal(t, []string{"COPY --from=build /out/service /service", "USER 65532:65532", `ENTRYPOINT ["/service"]`}, said)
	})

	t.Run("EverySERVICEBuildsACommandOfOurs", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		script := regexp.MustCompile(`(?s)RUN (?:--mount=\S+ )+\\\n(.*?[^\\])\n`).FindStringSubmatch(string(shipped))
		require.Len(t, script, 2)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "build.sh"), []byte(script[1]), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), []byte("#!/bin/sh\necho \"$CGO_ENABLED $GOWORK $GOOS/$GOARCH $*\"\n"), 0o700))
		environ := []string{"PATH=" + dir + ":/usr/bin:/bin", "TARGETOS=linux", "TARGETARCH=arm64"}
		for _, service := range []string{"gateway", "onboarding", "messaging", "paceline"} {
			out, err := run(t, append(environ, "SERVICE="+service), filepath.Join(dir, "build.sh"))
			require.NoError(t, err, out)
			command := regexp.MustCompile(`^0 off linux/arm64 -C (\S+) build .* -o /out/service .* (\./\S+)\n$`).FindStringSubmatch(out)
			require.Len(t, command, 3, out)
			main, err := os.ReadFile(filepath.Join(root(t), command[1], command[2], "main.go"))
			require.NoError(t, err)
			require.Contains(t, string(main), "// Command "+service+" is ")
			require.FileExists(t, filepath.Join(root(t), command[1], "go.mod"))
		}
		out, err := run(t, append(environ, "SERVICE="), filepath.Join(dir, "build.sh"))
		require.Error(t, err)
		require.Contains(t, out, "SERVICE must be")
	})
}

// TestDockerContext checks that .dockerignore lets in what the images are built from, and keeps out what must never get into one.
func TestDockerContext(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.Join(root(t), ".dockerignore"))
	require.NoError(t, err)
	lines := strings.Split(string(content), "\n")
	require.Contains(t, lines, "*", "everything is left out that is not named")
	for _, module := range []string{"deploy", "gateway", "platform", "proto", "services"} {
		require.Contains(t, lines, "!"+module)
	}
	for _, holdsSecrets := range []string{"deploy/compose", "deploy/helm"} {
		require.Contains(t, lines, holdsSecrets)
	}
}
