// Package backup backs up the servers of both databases, prepares a server from a backup, and settles what a restore has lost.
package backup

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// The databases.
const (
	Onboarding = "onboarding"
	Messaging  = "messaging"
)

// manifestFile is written last: a folder without it is no whole backup.
const manifestFile = "manifest.json"

// Manifest lists the contents of a backup.
type Manifest struct {
	Paceline  string              `json:"paceline"` // the version that made it
	Databases map[string]Database `json:"databases"`
	Servers   []Server            `json:"servers"`
}

// Database is one of the two databases.
type Database struct {
	Name          string    `json:"name"`
	Server        string    `json:"server"` // the folder of its server
	SchemaVersion int64     `json:"schema_version"`
	LastBeat      time.Time `json:"last_beat"` // of its service, before the backup
}

// Server is a base backup of one server.
type Server struct {
	Folder           string    `json:"folder"` // in that of the manifest
	SystemIdentifier string    `json:"system_identifier"`
	Timeline         int       `json:"timeline"`
	PostgresVersion  string    `json:"postgres_version"`
	BeganAt          time.Time `json:"began_at"` // these two by the server's clock
	EndedAt          time.Time `json:"ended_at"` // no earlier instant can be restored
	StartLSN         string    `json:"start_lsn"`
	EndLSN           string    `json:"end_lsn"`
	ManifestSHA256   string    `json:"backup_manifest_sha256"` // of the server's own list of its files and their checksums
}

// ReadManifest reads the manifest of the backup in a folder.
func ReadManifest(dir string) (m Manifest, err error) {
	text, err := os.ReadFile(filepath.Join(dir, manifestFile))
	if errors.Is(err, os.ErrNotExist) {
		return m, fmt.Errorf("%s has no %s: it is no backup of paceline backup, or one that did not end", dir, manifestFile)
	}
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("%s: %w", filepath.Join(dir, manifestFile), err)
	}
	return m, nil
}

// server returns the server of a database; of the only server without a name.
func (m Manifest) server(database string) (Server, error) {
	if database == "" && len(m.Servers) == 1 {
		return m.Servers[0], nil
	}
	for _, s := range m.Servers {
		if s.Folder == m.Databases[database].Server {
			return s, nil
		}
	}
	return Server{}, errors.New("the backup has a server for each database: say --database onboarding or --database messaging")
}

// write writes the manifest.
func (m Manifest) write(dir string) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, manifestFile), append(text, '\n'), 0o600)
}

// sumOf returns the SHA-256 of a file, in hexadecimal.
func sumOf(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:]), nil
}

// walRange has the WAL that a base backup needs, as its backup_manifest names it.
type walRange struct {
	Timeline int    `json:"Timeline"`
	StartLSN string `json:"Start-LSN"`
	EndLSN   string `json:"End-LSN"`
}

// readRange reads the WAL that a base backup needs.
func readRange(folder string) (walRange, error) {
	content, err := os.ReadFile(filepath.Join(folder, "backup_manifest"))
	if err != nil {
		return walRange{}, err
	}
	var listed struct {
		Ranges []walRange `json:"WAL-Ranges"`
	}
	if err := json.Unmarshal(content, &listed); err != nil {
		return walRange{}, fmt.Errorf("backup_manifest: %w", err)
	}
	if len(listed.Ranges) == 0 {
		return walRange{}, errors.New("backup_manifest names no WAL")
	}
	return listed.Ranges[len(listed.Ranges)-1], nil
}
