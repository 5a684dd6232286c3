package stack_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/backup"
	"paceline.internal/emulators/twilio"
	"paceline.internal/platform/postgres/embeddedpg"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/services/onboarding/engagement/rules"
)

// TestRestore backs up both databases while conversations run, loses everything, restores the databases to different instants, and settles.
// Nobody gets a text twice or after their opt-out, and who cannot be known is held with the reason.
func TestRestore(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	for _, name := range []string{"pg_basebackup", "pg_receivewal"} { // the archives that can be downloaded come without them
		if _, err := embeddedpg.Program(name); err != nil {
			t.Skip(err)
		}
	}
	t.Parallel()
	for name, instants := range map[string][2]int{
		"MessagingIsOlder": {1, 2}, "OnboardingIsOlder": {2, 1}, "BothAreOld": {1, 1}, "CopiesAreStarted": {0, 0}, // of the same history
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRehearsal(t)
			r.backUp(t)
			r.goOn(t, instants)
		})
	}
}

// rehearsal is a stack on a server for each database.
type rehearsal struct {
	*bundle

	messagingServer, onboardingServer *embeddedpg.Server
	spares                            map[string]*embeddedpg.Server
	backup                            string
	wal                               map[string]string
	received                          []*exec.Cmd

	burst, replies, stops, lasts *person
	middle, late                 *person // who begin between the instants, and after them
}

func newRehearsal(t *testing.T) *rehearsal {
	t.Helper()
	r := &rehearsal{bundle: prepare(t), backup: filepath.Join(t.TempDir(), "backup"), spares: map[string]*embeddedpg.Server{}, wal: map[string]string{}}
	r.messagingServer, r.spares[backup.Messaging] = pgtest.Spare(t)
	r.onboardingServer, r.spares[backup.Onboarding] = pgtest.Spare(t)
	require.NoError(t, r.messagingServer.EnsureService(t.Context(), backup.Messaging))
	require.NoError(t, r.onboardingServer.EnsureService(t.Context(), backup.Onboarding))
	r.keepWAL(t, backup.Messaging, r.messagingServer)
	r.keepWAL(t, backup.Onboarding, r.onboardingServer)
	r.lead(t, r.onboardingServer, r.messagingServer)
	r.start(t, "INBOUND_SWEEP_INTERVAL", "1s", "ALARM_OVERDUE_GRACE", "10s")
	r.open(t)
	return r
}

// lead has the services use two servers.
func (r *rehearsal) lead(t *testing.T, onboarding, messaging *embeddedpg.Server) {
	t.Helper()
	url := func(server *embeddedpg.Server, name, login string) string { return server.URL(name, login) }
	r.config.OnboardingDatabaseURL = url(onboarding, backup.Onboarding, embeddedpg.Serving(backup.Onboarding))
	r.config.OnboardingMigrateURL = url(onboarding, backup.Onboarding, backup.Onboarding)
	r.config.MessagingDatabaseURL = url(messaging, backup.Messaging, embeddedpg.Serving(backup.Messaging))
	r.config.MessagingMigrateURL = url(messaging, backup.Messaging, backup.Messaging)
}

func (r *rehearsal) open(t *testing.T) {
	t.Helper()
	r.onboarding, r.messaging = open(t, r.config.OnboardingDatabaseURL), open(t, r.config.MessagingDatabaseURL)
}

// backUp begins conversations, keeps the WAL, and makes the backup.
func (r *rehearsal) backUp(t *testing.T) {
	t.Helper()
	r.burst, r.replies, r.stops, r.lasts = r.begin(t), r.enrol(t, "en"), r.enrol(t, "en"), r.enrol(t, "en")
	r.middle, r.late = r.enrol(t, "en"), r.enrol(t, "en")
	for _, p := range []*person{r.replies, r.stops, r.lasts} {
		p.activate(t)
		p.reaches(t, atOpening)
	}
	r.lasts.says(t, "please stop texting me")
	r.idle(t)
	var said bytes.Buffer
	b := backup.Backup{
		OnboardingURL: r.config.OnboardingDatabaseURL, MessagingURL: r.config.MessagingDatabaseURL, To: r.backup, Version: "test", Now: r.clock.Now,
		Out: &said,
	}
	require.ErrorContains(t, b.Run(t.Context()), "onboarding_serve may not replicate")
	b.OnboardingAs, b.MessagingAs = r.onboardingServer.URL("postgres", "postgres"), r.messagingServer.URL("postgres", "postgres")
	require.NoError(t, b.Run(t.Context()))
	require.ErrorContains(t, b.Run(t.Context()), "is not empty")
	t.Log(said.String())
	m, err := backup.ReadManifest(r.backup)
	require.NoError(t, err)
	require.Len(t, m.Servers, 2)
}

// keepWAL keeps a server's WAL, as docs/deploy.md says, until the server stops.
func (r *rehearsal) keepWAL(t *testing.T, name string, server *embeddedpg.Server) {
	t.Helper()
	program, err := embeddedpg.Program("pg_receivewal")
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.Mkdir(dir, 0o755))
	for up := dir; up != os.TempDir() && up != "/"; up = filepath.Dir(up) { // the server's user reads it
		require.NoError(t, os.Chmod(up, 0o755))
	}
	of, slot := "--dbname="+server.URL("postgres", "postgres"), "--slot=paceline"
	require.NoError(t, exec.CommandContext(t.Context(), program, of, slot, "--create-slot").Run())
	cmd := exec.CommandContext(t.Context(), program, of, slot, "--directory="+dir, "--synchronous")
	cmd.Stderr = new(bytes.Buffer)
	require.NoError(t, cmd.Start())
	r.wal[name], r.received = dir, append(r.received, cmd)
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended, unless the test failed
	require.Eventually(t, func() bool {
		files, err := os.ReadDir(dir)
		return err == nil && len(files) > 0
	}, patience, 10*time.Millisecond, "no WAL is kept")
}

// goOn has the conversations go on past two instants, and comes back at these.
func (r *rehearsal) goOn(t *testing.T, to [2]int) {
	t.Helper()
	ctx := t.Context()
	instants := [3]time.Time{1: r.now(t)}
	r.replies.says(t, r.replies.greets)
	r.replies.reaches(t, atExplanation)
	r.middle.activate(t)
	r.until(t, "its opening is noted", func() bool {
		return count(t, r.onboarding, `select count(*) from session_transitions t join conversation_sessions s on s.id = t.session_id
			where s.profile_id = $1 and t.kind = 'sent'`, r.middle.id) == 1
	})
	r.idle(t)
	instants[2] = r.now(t)
	r.burst.hears(t, 4)
	r.lasts.says(t, "START")
	r.stops.says(t, "please stop texting me")
	r.stops.hears(t, 2)
	r.late.activate(t)
	r.late.hears(t, 1)
	r.idle(t)
	r.now(t)
	r.stop(t)
	r.onboarding.Close()
	r.messaging.Close()
	require.NoError(t, r.onboardingServer.Stop(ctx)) // its receiver has all of its WAL then
	require.NoError(t, r.messagingServer.Stop(ctx))
	for _, cmd := range r.received {
		require.NoError(t, cmd.Process.Kill()) // the server has sent all before it ended
		t.Log(cmd.Wait(), cmd.Stderr)
	}

	for i, name := range []string{backup.Messaging, backup.Onboarding} {
		if to[i] == 0 {
			require.NoError(t, os.CopyFS(r.spares[name].Data(), os.DirFS(filepath.Join(r.backup, name))))
			require.NoError(t, os.Chmod(r.spares[name].Data(), 0o700))
			require.NoError(t, embeddedpg.Give(r.spares[name].Data()))
		} else {
			r.restore(t, name, instants[to[i]])
		}
		require.NoError(t, r.spares[name].Begin(ctx))
	}
	r.lead(t, r.spares[backup.Onboarding], r.spares[backup.Messaging])
	r.open(t)
	r.settle(t)
	r.check(t, to)
}

func (r *rehearsal) restore(t *testing.T, name string, at time.Time) {
	t.Helper()
	require.NoError(t, embeddedpg.Give(r.wal[name]))
	var said bytes.Buffer
	restore := backup.Restore{From: r.backup, Database: name, To: r.spares[name].Data(), WAL: r.wal[name], At: at, Out: &said}
	require.NoError(t, restore.Run(t.Context()))
	require.ErrorContains(t, restore.Run(t.Context()), "is not empty")
	t.Log(said.String())
}

// now is the servers' time; nothing that is committed before falls behind it.
func (r *rehearsal) now(t *testing.T) (at time.Time) {
	t.Helper()
	for _, db := range []*pgxpool.Pool{r.onboarding, r.messaging} {
		require.NoError(t, db.QueryRow(t.Context(), "select clock_timestamp()").Scan(&at))
	}
	return at
}

// settle is killed before the services run, and goes on once they do.
func (r *rehearsal) settle(t *testing.T) {
	t.Helper()
	var said bytes.Buffer
	s := backup.Settling{
		Onboarding: r.onboarding, Messaging: r.messaging, Calendar: rules.DefaultConfig().Calendar, Grace: 5 * time.Minute, Wait: time.Hour,
		Poll: 100 * time.Millisecond, Now: r.clock.Now, Out: &said,
	}
	killed, kill := context.WithCancel(t.Context())
	s.Out = &killer{kill: kill}
	require.ErrorIs(t, s.Run(killed), context.Canceled)
	s.Out = &said
	r.start(t)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(t.Context()) }()
	r.until(t, "it is settled", func() bool {
		select {
		case err := <-ended:
			require.NoError(t, err)
			return true
		default:
			return false
		}
	})
	t.Log(said.String())
	for _, stage := range []string{"1  stopped", "goes on with", "2  read back", "3  compared", "4  released", "5  parked"} {
		require.Contains(t, said.String(), stage)
	}
	require.ErrorIs(t, s.Run(t.Context()), backup.ErrRunning, "there is nothing to settle")
}

// killer ends a settle that waits.
type killer struct{ kill func() }

// Write implements io.Writer.
func (k *killer) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("waits for the services")) {
		k.kill()
	}
	return len(p), nil
}

// check brings the conversations to their end.
func (r *rehearsal) check(t *testing.T, to [2]int) {
	t.Helper()
	held := []string{r.late.id, r.middle.id}
	if to[1] == 2 { // onboarding knows that it began
		held = held[:1]
	}
	require.Equal(t, len(held), count(t, r.onboarding, `select count(*) from profiles where hold and hold_reason like $1 and id = any($2)`,
		backup.Reason+": %", held))
	require.Equal(t, len(held), count(t, r.onboarding, `select count(*) from profiles where hold`), "somebody else is held")
	require.Equal(t, 1, count(t, r.messaging, `select count(*) from consents where phone = $1 and state = 'opted_out'`, r.stops.phone))
	require.Equal(t, 1, count(t, r.messaging, `select count(*) from consents where phone = $1 and state = 'opted_in'`, r.lasts.phone))
	r.stops.requireHeard(t, opening, confirmed)
	r.late.requireHeard(t, opening)
	r.burst.requireWhole(t)
	r.replies.says(t, r.replies.begins)
	r.replies.requireWhole(t)
	times := map[string]int{}
	for _, m := range r.vendors.Twilio.Messages() {
		if m.Direction != twilio.DirectionAPI {
			continue
		}
		times[m.To+" "+m.Body]++
		require.Equal(t, 1, times[m.To+" "+m.Body], "sent twice: %s", m.Body)
		require.Equal(t, 1, count(t, r.messaging, `select count(*) from sms_messages where twilio_sid = $1`, m.SID), "each text is known")
	}
}
