package manifests_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/test/manifests"
)

func TestDockerfile(t *testing.T) {
	t.Parallel()
	shipped, err := os.ReadFile(filepath.Join(root(t), "Dockerfile"))
	require.NoError(t, err)

	t.Run("NothingIsWrongWithIt", func(t *testing.T) {
		t.Parallel()
		problems, err := manifests.Dockerfile(shipped)
		require.NoError(t, err)
		require.Empty(t, problems)
	})

	for _, v := range []violation{
		{name: "WhatBuildKitWarnsOf", old: "AS build", new: "as build", want: "FromAsCasing"},
		{name: "AnInstructionThatIsUnknown", old: "WORKDIR", new: "WORKDIRECTORY", want: "unknown instruction: WORKDIRECTORY"},
		{name: "AShellForm", old: `ENTRYPOINT ["/service"]`, new: `ENTRYPOINT /service`, want: "ENTRYPOINT needs a shell"},
		{name: "Root", old: "USER 65532:65532", new: "USER 0", want: "USER is no number above 0"},
		{name: "AUserThatKubernetesCannotJudge", old: "USER 65532:65532", new: "USER nonroot", want: "USER is no number above 0"},
		{name: "AnImageWithAShell", old: "FROM gcr.io/distroless/static-debian12:nonroot", new: "FROM debian:bookworm", want: "the image stands on debian:bookworm"},
		{name: "WhatIsRunInIt", old: "USER 65532:65532", new: "RUN true\nUSER 65532:65532", want: "something runs in the image"},
		{name: "AStageThatIsNotThere", old: "--from=build", new: "--from=builder", want: "builder, which is no stage"},
	} {
		t.Run("Notices"+v.name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{"": string(shipped)}
			v.broken(t, files)
			problems, err := manifests.Dockerfile([]byte(files[""]))
			if err != nil {
				problems = append(problems, err.Error())
			}
			require.Contains(t, strings.Join(problems, "\n"), v.want)
		})
	}

	t.Run("EverySERVICEBuildsACommandOfOurs", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		script := regexp.MustCompile(`(?s)<<'SH'\n(.*?)\nSH\n`).FindStringSubmatch(string(shipped))
		require.Len(t, script, 2)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "build.sh"), []byte(script[1]), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), []byte("#!/bin/sh\necho \"$CGO_ENABLED $GOWORK $GOOS/$GOARCH $*\"\n"), 0o700))
		environ := []string{"PATH=" + dir + ":/usr/bin:/bin", "TARGETOS=linux", "TARGETARCH=arm64"}
		for _, service := range []string{"gateway", "onboarding", "messaging", "paceline"} {
			out, err := run(t, append(environ, "SERVICE="+service), filepath.Join(dir, "build.sh"))
			require.NoError(t, err, out)
			command := regexp.MustCompile(`^0 off linux/arm64 -C (\S+) build .* -o /out/service (\./\S+)\n$`).FindStringSubmatch(out)
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

// TestDockerContext holds .dockerignore to what the images are built from, above all to what must never get into one.
func TestDockerContext(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.Join(root(t), ".dockerignore"))
	require.NoError(t, err)
	lines := strings.Split(string(content), "\n")
	require.Contains(t, lines, "*", "everything is left out that is not named")
	for _, module := range []string{"deploy", "gateway", "platform", "proto", "services"} {
		require.Contains(t, lines, "!"+module)
	}
	for _, holdsSecrets := range []string{"deploy/compose", "deploy/kubernetes"} {
		require.Contains(t, lines, holdsSecrets)
	}
}
