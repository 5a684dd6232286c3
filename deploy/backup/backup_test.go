package backup

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"paceline.internal/services/messaging/send"
	"paceline.internal/services/onboarding/restores"
)

func TestWithoutPassword(t *testing.T) {
	t.Parallel()
	for as, want := range map[string]string{
		"postgres://ada:s3cret@db:5432/postgres?sslmode=require":              "postgres://ada@db:5432/postgres?sslmode=require",
		"postgres:///postgres?host=%2Frun&password=s3cret&user=ada":           "postgres:///postgres?host=%2Frun&user=ada",
		"postgres://ada:s3cret@a:1,b:2/postgres?target_session_attrs=primary": "postgres://ada@a:1,b:2/postgres?target_session_attrs=primary",
	} {
		connection, environ, err := withoutPassword(as)
		require.NoError(t, err)
		require.Equal(t, want, connection)
		require.Contains(t, environ, "PGPASSWORD=s3cret")
	}
	for _, as := range []string{"host=db user=ada password=s3cret", "postgres://ada@db/postgres?sslkey=k&sslpassword=s3cret", "postgres://ada:s3cret@db:no/"} {
		_, _, err := withoutPassword(as)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "s3cret")
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	ended := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	wal := t.TempDir()
	for name, tt := range map[string]struct {
		restore Restore
		want    string
		wantErr string
	}{
		"TheEndOfTheBackup":        {restore: Restore{}, want: "restore_command = 'false'"},
		"AnInstantWithoutWAL":      {restore: Restore{At: ended.Add(time.Hour)}, wantErr: "--wal"},
		"AnInstantBeforeTheBackup": {restore: Restore{WAL: wal, At: ended.Add(-time.Second)}, wantErr: "earlier backup"},
		"AnInstant":                {restore: Restore{WAL: wal, At: ended.Add(time.Second)}, want: "recovery_target_time = '2026-11-29 12:00:01+00'"},
		"APathThatAShellWouldRead": {restore: Restore{WAL: "/tmp/a'b"}, wantErr: "plain path"},
		"TheEndOfTheWAL":           {restore: Restore{WAL: wal}, want: restoreCommand(wal)},
		"AFolderThatIsNotThere":    {restore: Restore{WAL: "/nowhere/at/all"}, wantErr: "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lines, err := tt.restore.settings(Server{EndedAt: ended})
			if tt.wantErr != "" {
				require.ErrorContains(t, err, tt.wantErr)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, lines[len(lines)-1], "the last line of a name counts")
			require.Contains(t, lines, "recovery_target_time = ''")
		})
	}
}

// TestRestoreCommand runs the command: only a file that is not there ends the WAL; for what cannot be read the server stops.
func TestRestoreCommand(t *testing.T) {
	t.Parallel()
	wal := t.TempDir()
	for name, content := range map[string]string{"1": "whole", "2.partial": "part"} {
		require.NoError(t, os.WriteFile(filepath.Join(wal, name), []byte(content), 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(wal, "3"), 0o700)) // even root cannot copy it
	for name, tt := range map[string]struct {
		wal, file, want string
		code            int
	}{
		"AFile":         {wal: wal, file: "1", want: "whole"},
		"APart":         {wal: wal, file: "2", want: "part"},
		"NoFile":        {wal: wal, file: "4", code: 1},
		"AnUnreadable":  {wal: wal, file: "3", code: 126},
		"NoFolder":      {wal: filepath.Join(wal, "away"), file: "1", code: 126},
		"NoPlaceToCopy": {wal: wal, file: "1", want: "none", code: 126},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := filepath.Join(t.TempDir(), tt.want, "to")
			if tt.want != "none" {
				require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o700))
			}
			line := strings.TrimSuffix(strings.TrimPrefix(restoreCommand(tt.wal), "restore_command = '"), "'")
			cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.NewReplacer("%f", tt.file, "%p", to).Replace(line))
			_ = cmd.Run() // the code says it
			require.Equal(t, tt.code, cmd.ProcessState.ExitCode())
			if tt.code == 0 {
				content, err := os.ReadFile(to)
				require.NoError(t, err)
				require.Equal(t, tt.want, string(content))
			}
		})
	}
}

// TestReadable refuses WAL that the server's user cannot read, or that does not begin where the backup ended.
func TestReadable(t *testing.T) {
	t.Parallel()
	const ended = "000000020000000A000000FF"
	for name, tt := range map[string]struct {
		file string
		mode os.FileMode
		want string
	}{
		"TheFile":         {file: ended, mode: 0o644},
		"APart":           {file: ended + ".partial", mode: 0o644},
		"OnlyALaterFile":  {file: "000000020000000B00000000", mode: 0o644, want: "lacks the WAL file of A/FF000138"},
		"CompressedFiles": {file: ended + ".gz", mode: 0o644, want: "unpacked"},
		"AnotherOwner":    {file: ended, mode: 0, want: ended + ": chown -R "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wal := t.TempDir()
			for up := wal; up != filepath.Clean(os.TempDir()); up = filepath.Dir(up) {
				require.NoError(t, os.Chmod(up, 0o755))
			}
			file := filepath.Join(wal, tt.file)
			require.NoError(t, os.WriteFile(file, nil, 0o600))
			require.NoError(t, os.Truncate(file, 16<<20))
			require.NoError(t, os.Chmod(file, tt.mode))
			err := Restore{WAL: wal, To: filepath.Join(wal, "none")}.readable(t.Context(), Server{Timeline: 2, EndLSN: "A/FF000138"})
			if tt.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tt.want)
			}
		})
	}
}

func TestStarts(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	said := starts(data, "15.14 (Debian 15.14-0+deb12u1)")
	require.Contains(t, said, "pg_conftool 15 main set data_directory "+data+" && pg_ctlcluster 15 main start", "Debian has no settings in the folder")
	require.NotContains(t, said, "pg_ctl -D")
	require.NoError(t, os.WriteFile(filepath.Join(data, "postgresql.conf"), nil, 0o600))
	require.Contains(t, starts(data, "15.14"), "pg_ctl -D "+data)
}

// TestMatch pairs the steps of two people with what Twilio has: each message once, the nearest first, and none of another time or person.
func TestMatch(t *testing.T) {
	t.Parallel()
	org, at := uuid.New(), time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	step := func(phone string, after time.Duration) restores.StepSent {
		return restores.StepSent{OrgID: org.String(), Phone: phone, MessageID: uuid.New(), At: at.Add(after)}
	}
	orphan := func(phone string, after time.Duration) send.Orphan {
		return send.Orphan{ID: uuid.New(), OrgID: org, Phone: phone, At: at.Add(after)}
	}
	steps := []restores.StepSent{step("+1", 0), step("+1", 10*time.Second), step("+2", 0), step("+1", time.Hour)}
	orphans := []send.Orphan{orphan("+1", time.Second), orphan("+1", 11*time.Second), orphan("+1", 12*time.Second), orphan("+3", 0)}
	without := []uuid.UUID{steps[0].MessageID, steps[1].MessageID, steps[2].MessageID, steps[3].MessageID}
	require.Equal(t, []uuid.UUID{orphans[0].ID, orphans[1].ID}, match(steps, without, orphans))
	require.Equal(t, []uuid.UUID{orphans[1].ID}, match(steps, without[1:2], orphans), "the first one has its message")
}
