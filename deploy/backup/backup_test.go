package backup

import (
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
		"TheEndOfTheWAL":           {restore: Restore{WAL: wal}, want: `restore_command = 'cp "` + wal + `/%f" "%p" 2>/dev/null || cp "` + wal + `/%f.partial" "%p" 2>/dev/null'`},
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
