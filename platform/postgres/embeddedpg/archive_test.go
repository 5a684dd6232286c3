package embeddedpg

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"
)

// jar packs entries as the real archives are packed: a zip with a tar.xz in it, next to a manifest.
func jar(t *testing.T, entries ...tar.Header) []byte {
	t.Helper()
	var packed bytes.Buffer
	tarball := tar.NewWriter(&packed)
	for _, entry := range entries {
		content := []byte(entry.PAXRecords["PACELINE.content"])
		entry.PAXRecords, entry.Size = nil, int64(len(content))
		require.NoError(t, tarball.WriteHeader(&entry))
		_, err := tarball.Write(content)
		require.NoError(t, err)
	}
	require.NoError(t, tarball.Close())

	var archive bytes.Buffer
	files := zip.NewWriter(&archive)
	for _, file := range []struct {
		name    string
		content []byte
	}{
		{name: "META-INF/MANIFEST.MF", content: []byte("Manifest-Version: 1.0\n")},
		{name: "postgres-linux-x86_64.txz", content: xzStored(packed.Bytes())},
	} {
		writer, err := files.Create(file.name)
		require.NoError(t, err)
		_, err = writer.Write(file.content)
		require.NoError(t, err)
	}
	require.NoError(t, files.Close())
	return archive.Bytes()
}

// file is an entry with content, which travels in a PAX record because a header has no place for it.
func file(name, content string, mode int64) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, PAXRecords: map[string]string{"PACELINE.content": content}}
}

func symlink(name, target string) tar.Header {
	return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}
}

// xzStored is content as an .xz stream of uncompressed chunks, after the format's specification 1.0.4.
func xzStored(content []byte) []byte {
	var out []byte
	withCRC := func(b []byte) []byte { return binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b)) }
	padded := func(b []byte) []byte { return append(b, make([]byte, (4-len(b)%4)%4)...) }
	flags := []byte{0, 0} // no integrity check

	out = append(out, 0xFD, '7', 'z', 'X', 'Z', 0)
	out = append(out, withCRC(bytes.Clone(flags))...)

	const lzma2, dictionary = 0x21, 0x10
	block := withCRC([]byte{2, 0, lzma2, 1, dictionary, 0, 0, 0}) // 2: the header takes (2+1)*4 bytes
	const chunkSize = 1 << 16
	for at, control := 0, byte(1); at < len(content); at, control = at+chunkSize, 2 { // 1 resets the dictionary, 2 goes on
		chunk := content[at:min(at+chunkSize, len(content))]
		block = append(block, control)
		block = binary.BigEndian.AppendUint16(block, uint16(len(chunk)-1))
		block = append(block, chunk...)
	}
	block = append(block, 0)
	out = append(out, padded(block)...)

	index := []byte{0, 1} // one block
	index = binary.AppendUvarint(index, uint64(len(block)))
	index = binary.AppendUvarint(index, uint64(len(content)))
	index = withCRC(padded(index))
	out = append(out, index...)

	footer := append(binary.LittleEndian.AppendUint32(nil, uint32(len(index)/4-1)), flags...)
	out = binary.LittleEndian.AppendUint32(out, crc32.ChecksumIEEE(footer))
	out = append(out, footer...)
	return append(out, 'Y', 'Z')
}
