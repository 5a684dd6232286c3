package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"time"
)

// passwd has the user that the processes run as. Its number is what Kubernetes compares with runAsNonRoot.
const passwd = "root:x:0:0:root:/:/none\nnonroot:x:65532:65532:nonroot:/:/none\n" //nolint:gosec // it has no password

// file is one of an archive; a folder when it has no content.
type file struct {
	name    string
	mode    int64
	content []byte
}

// descriptor is how OCI names a blob.
type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int    `json:"size"`
}

// image is an OCI archive with one layer, and its digest. The same binary makes the same image: no time of its making is in it.
func image(binary, arch string) (archive []byte, digest string, err error) {
	service, err := os.ReadFile(binary)
	if err != nil {
		return nil, "", err
	}
	trusted, err := os.ReadFile(certificates)
	if err != nil {
		return nil, "", err
	}
	layer, err := pack([]file{
		{name: "etc/", mode: 0o755},
		{name: "etc/passwd", mode: 0o444, content: []byte(passwd)},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o444, content: trusted},
		{name: "service", mode: 0o555, content: service},
	})
	if err != nil {
		return nil, "", err
	}
	of := blobs{}
	packed := of.add("application/vnd.oci.image.layer.v1.tar", layer)
	config := of.addJSON("application/vnd.oci.image.config.v1+json", map[string]any{
		"architecture": arch, "os": "linux",
		"config": map[string]any{"User": "65532:65532", "Entrypoint": []string{"/service"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{packed.Digest}},
	})
	manifest := of.addJSON("application/vnd.oci.image.manifest.v1+json", map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": []descriptor{packed},
	})
	index := map[string]any{"schemaVersion": 2, "manifests": []descriptor{manifest}}
	archive, err = pack(append([]file{
		{name: "oci-layout", mode: 0o444, content: []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		{name: "index.json", mode: 0o444, content: encoded(index)},
		{name: "blobs/", mode: 0o755},
		{name: "blobs/sha256/", mode: 0o755},
	}, of.files...))
	return archive, manifest.Digest, err
}

// blobs are the parts of an image, each under its digest.
type blobs struct{ files []file }

func (b *blobs) add(mediaType string, content []byte) descriptor {
	sum := sha256.Sum256(content)
	digest := hex.EncodeToString(sum[:])
	b.files = append(b.files, file{name: "blobs/sha256/" + digest, mode: 0o444, content: content})
	return descriptor{MediaType: mediaType, Digest: "sha256:" + digest, Size: len(content)}
}

func (b *blobs) addJSON(mediaType string, value any) descriptor {
	return b.add(mediaType, encoded(value))
}

// encoded is JSON of maps, slices and strings, which always succeeds, with the keys in order.
func encoded(value any) []byte {
	out, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return out
}

// pack makes an archive of root's files.
func pack(files []file) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		header := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content)), ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
		header.Typeflag = tar.TypeReg
		if f.content == nil {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}
