package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"paceline.internal/platform/postgres/embeddedpg"
)

// Restore prepares a data folder of a server from a backup.
type Restore struct {
	From     string    // the folder of the backup
	Database string    // one on the server, where the backup has two servers
	To       string    // the data folder: new, or empty
	WAL      string    // the folder of archived WAL; empty for the end of the backup
	At       time.Time // zero for the end of the WAL
	Out      io.Writer
}

// Run copies the base backup, and has the server recover when it starts. It then begins a timeline, by which the services notice.
func (r Restore) Run(ctx context.Context) error {
	m, err := ReadManifest(r.From)
	if err != nil {
		return err
	}
	server, err := m.server(r.Database)
	if err != nil {
		return err
	}
	settings, err := r.settings(server)
	if err != nil {
		return err
	}
	folder := filepath.Join(r.From, server.Folder)
	switch sum, err := sumOf(filepath.Join(folder, "backup_manifest")); {
	case err != nil:
		return err
	case sum != server.ManifestSHA256:
		return fmt.Errorf("%s is not the one that %s names: the backup was changed", filepath.Join(folder, "backup_manifest"), manifestFile)
	}
	if r.WAL != "" {
		if err := r.readable(ctx, server); err != nil {
			return err
		}
	}
	if err := emptyFolder(r.To); err != nil {
		return err
	}
	if err := verify(ctx, folder, r.Out); err != nil {
		return err
	}
	if err := copyFolder(ctx, folder, r.To); err != nil {
		return err
	}
	if err := addLines(filepath.Join(r.To, "postgresql.auto.conf"), settings); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.To, "recovery.signal"), nil, 0o600); err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		if err := embeddedpg.Give(r.To); err != nil {
			return err
		}
	}
	until := "the end of the backup, " + server.EndedAt.Format(time.RFC3339)
	if r.WAL != "" {
		until = cmp.Or(timeOf(r.At), "the end of the WAL in "+r.WAL)
	}
	_, err = fmt.Fprintf(r.Out, `Written: %s, a server of PostgreSQL %s that recovers to %s. Keep the services stopped. Next:
%s  lead *_DATABASE_URL, *_DATABASE_MIGRATE_URL and *_DATABASE_DIRECT_URL to it, and run the migrations of your release
  paceline settle
`, r.To, server.PostgresVersion, until, starts(r.To, server.PostgresVersion))
	return err
}

// starts prints how to start a server. Debian keeps its settings outside the data folder: then the backup has none.
func starts(data, version string) string {
	major, _, _ := strings.Cut(version, ".")
	if hasSettings(data) {
		program, err := embeddedpg.Program("pg_ctl")
		if err != nil {
			program = "pg_ctl"
		}
		return fmt.Sprintf("  start it, as the user of its files: %s -D %s -w start\n", program, data)
	}
	return fmt.Sprintf(`  bring its settings back, which lay outside the data folder: on Debian those in /etc/postgresql/%[1]s/main
  start it with them, on Debian as root, once the server before it is stopped:
    pg_conftool %[1]s main set data_directory %[2]s && pg_ctlcluster %[1]s main start
`, major, data)
}

// hasSettings reports whether a data folder has its server's settings.
func hasSettings(data string) bool {
	_, err := os.Stat(filepath.Join(data, "postgresql.conf"))
	return err == nil
}

// timeOf is an instant as people read it; empty for none.
func timeOf(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format("2006-01-02T15:04:05.999999Z07:00")
}

// settings returns the settings of the recovery. The backup of a server that was restored before still has those of that restore.
func (r Restore) settings(server Server) ([]string, error) {
	lines := []string{"", "# by paceline restore", "recovery_target_action = 'promote'", "recovery_target_timeline = 'latest'"}
	for _, of := range []string{"", "_lsn", "_name", "_time", "_xid"} {
		lines = append(lines, "recovery_target"+of+" = ''")
	}
	switch {
	case r.WAL == "" && !r.At.IsZero():
		return nil, errors.New("--at needs the WAL from the backup on: --wal DIR")
	case !r.At.IsZero() && r.At.Before(server.EndedAt):
		return nil, fmt.Errorf("the backup ended at %s, and cannot give an earlier instant: take an earlier backup", timeOf(server.EndedAt))
	case r.WAL == "":
		return append(lines, "restore_command = 'false'"), nil // the backup has what it needs
	}
	wal, err := filepath.Abs(r.WAL)
	if err != nil {
		return nil, err
	}
	if strings.ContainsAny(wal, "'\"\\%$`\n") {
		return nil, fmt.Errorf("%s has a quote or another character that a shell reads: give the WAL a plain path", wal)
	}
	if _, err := os.ReadDir(wal); err != nil {
		return nil, err
	}
	lines = append(lines, restoreCommand(wal))
	if !r.At.IsZero() {
		lines = append(lines, "recovery_target_time = '"+r.At.UTC().Format("2006-01-02 15:04:05.999999+00")+"'")
	}
	return lines, nil
}

// restoreCommand returns the setting by which the server fetches WAL; the last file is a part where pg_receivewal wrote it. Only a file
// that is not there ends the WAL: at the exit code 126 the server stops.
func restoreCommand(wal string) string {
	return `restore_command = 'test -x "` + wal + `" || exit 126; for f in "` + wal + `/%f" "` + wal + `/%f.partial"; ` +
		`do test -e "$f" || continue; cp "$f" "%p" || exit 126; exit 0; done; exit 1'`
}

// sh prints the first file of a folder that it cannot read.
const sh = `cd "$1" || exit; for f in *; do test -r "$f" || { echo "$1/$f"; exit 1; }; done`

// readable returns an error where the server would find no WAL after the backup, or could not read it: it would come up without it.
func (r Restore) readable(ctx context.Context, server Server) error {
	name, as, err := embeddedpg.Account(r.To)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", sh, "sh", r.WAL) //nolint:gosec // the path is an argument, which no shell reads
	cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Credential: as}
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("the server's user %s cannot read %s: chown -R %[1]s %[3]s, and let %[1]s into the folders above it (chmod o+x)",
			cmp.Or(name, "(you)"), strings.TrimSpace(string(said)), r.WAL)
	}
	return r.follows(server)
}

// follows returns an error when the folder lacks the WAL file in which the backup ended. The size of its files is that of the server's.
func (r Restore) follows(server Server) error {
	var high, low uint64
	if _, err := fmt.Sscanf(server.EndLSN, "%X/%X", &high, &low); err != nil {
		return fmt.Errorf("the end of the backup, %q, is no position in the WAL: %w", server.EndLSN, err)
	}
	files, err := os.ReadDir(r.WAL)
	if err != nil {
		return err
	}
	for _, file := range files {
		info, err := file.Info()
		if err != nil {
			return err
		}
		size := uint64(max(info.Size(), 0))
		if size < 1<<20 || size > 1<<30 {
			continue
		}
		at, each := (high<<32|low-1)/size, 1<<32/size
		if strings.TrimSuffix(file.Name(), ".partial") == fmt.Sprintf("%08X%08X%08X", server.Timeline, at/each, at%each) {
			return nil
		}
	}
	return fmt.Errorf("%s lacks the WAL file of %s, where the backup ended, so nothing later can be restored: "+
		"give the folder that has the WAL from before the backup on, unpacked", r.WAL, server.EndLSN)
}

// copyFolder copies the folders and files of a base backup.
func copyFolder(ctx context.Context, from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, relative)
		switch {
		case entry.IsDir():
			err = os.MkdirAll(target, 0o700)
		case entry.Type().IsRegular():
			err = copyFile(path, target)
		default:
			err = fmt.Errorf("%s is a link: the server has tablespaces; restore the folder with pg_basebackup's own means", path)
		}
		if err == nil && relative == "." {
			err = os.Chmod(target, 0o700) //nolint:gosec // Postgres refuses a data folder that others can read
		}
		return err
	})
}

func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // nothing was written
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}

// addLines adds lines to a file.
func addLines(path string, lines []string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(strings.Join(lines, "\n") + "\n")
	return errors.Join(err, file.Close())
}
