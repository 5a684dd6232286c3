package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestImage makes an image of this test's own binary, which is a Go binary like any other.
func TestImage(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	archive, digest, err := image(self, "amd64")
	require.NoError(t, err)
	again, _, err := image(self, "amd64")
	require.NoError(t, err)
	require.True(t, bytes.Equal(archive, again), "the same binary makes the same image")

	outer := unpacked(t, archive)
	var index struct{ Manifests []descriptor }
	require.NoError(t, json.Unmarshal(outer["index.json"], &index))
	require.Equal(t, digest, index.Manifests[0].Digest)
	blob := func(d descriptor) []byte { return outer["blobs/sha256/"+d.Digest[len("sha256:"):]] }
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	require.NoError(t, json.Unmarshal(blob(index.Manifests[0]), &manifest))
	require.Contains(t, string(blob(manifest.Config)), `"User":"65532:65532"`)
	root := unpacked(t, blob(manifest.Layers[0]))
	binary, err := os.ReadFile(self)
	require.NoError(t, err)
	require.True(t, bytes.Equal(binary, root["service"]))
	require.Equal(t, passwd, string(root["etc/passwd"]))
	require.Contains(t, string(root["etc/ssl/certs/ca-certificates.crt"]), "BEGIN CERTIFICATE")
}

func unpacked(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		header, err := r.Next()
		if err == io.EOF { //nolint:errorlint // as documented
			return files
		}
		require.NoError(t, err)
		files[header.Name], err = io.ReadAll(r)
		require.NoError(t, err)
	}
}
