package flows

import (
	"io/fs"
	"strings"
	"time"
)

// folder has the text of each file by its name. It implements fs.FS.
type folder map[string]string

// Open implements fs.FS.
func (f folder) Open(name string) (fs.File, error) {
	text, has := f[name]
	if !has {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return file{strings.NewReader(text), info{name, len(text)}}, nil
}

// file implements fs.File.
type file struct {
	*strings.Reader

	info info
}

// Stat implements fs.File.
func (f file) Stat() (fs.FileInfo, error) { return f.info, nil }

// Close implements fs.File.
func (f file) Close() error { return nil }

// info implements fs.FileInfo.
type info struct {
	name string
	size int
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return int64(i.size) }
func (i info) Mode() fs.FileMode  { return 0o444 }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return false }
func (i info) Sys() any           { return nil }
