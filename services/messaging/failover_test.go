package messaging_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/emulators/clock"
	emulator "paceline.internal/emulators/twilio"
	"paceline.internal/platform/postgres/embeddedpg"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/platform/process"
	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging"
)

// TestFailover promotes an asynchronous standby that lacks the last commits, under two running processes. Every other caller asks again for
// what was lost, as if their database had gone back as well.
func TestFailover(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	for name, skew := range map[string]time.Duration{"ClocksAgree": 0, "TwiliosClockIsAhead": time.Minute, "TwiliosClockIsBehind": -time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, losses{}, failOver(t, skew, nil, promoted))
		})
	}
	t.Run("ABackupIsRestoredUnderRunningProcesses", func(t *testing.T) { // on the same timeline: only the counts tell
		t.Parallel()
		require.Equal(t, losses{}, failOver(t, 0, nil, restored))
	})
	t.Run("WithoutBeatsItIsSeen", func(t *testing.T) {
		t.Parallel()
		unwatched := failOver(t, 0, process.RestOnMachineClock, promoted)
		t.Logf("without: %+v", unwatched)
		require.NotZero(t, unwatched.Doubled)
		require.NotZero(t, unwatched.AfterStop)
		require.NotZero(t, unwatched.Inverted)
		require.NotZero(t, unwatched.WithoutRow)
	})
}

// losses count what must not happen.
type losses struct{ Doubled, AfterStop, Inverted, WithoutRow int }

// skewed is a clock that is off.
type skewed struct {
	clock.Clock

	by time.Duration
}

func (s skewed) Now() time.Time { return s.Clock.Now().Add(s.by) }

const (
	people       = 40 // the first five stop in the time that is lost; the next five had stopped, and start again
	stop, before = "please stop texting me", 3
	lostUntil    = 6
	last         = 8
)

type trial struct {
	*testing.T

	twilio  *emulator.Emulator
	clients []messagingv1.MessagingServiceClient
	stopped sync.Map // phone -> when its stop was answered, by Twilio's clock
	skew    time.Duration
}

// successor is the server that takes over: from when on it gets no more commits, and how it begins.
type successor struct {
	pair   func(testing.TB) (primary, next *embeddedpg.Server)
	part   func(ctx context.Context, next, primary *embeddedpg.Server) error
	begins func(next *embeddedpg.Server, ctx context.Context) error
	// counted says that nothing but the counts tells: the loss has to have some.
	counted bool
}

var (
	promoted = successor{
		pair: pgtest.Pair,
		part: func(ctx context.Context, next, primary *embeddedpg.Server) error {
			return errors.Join(next.CaughtUp(ctx, primary), next.Unfollow(ctx))
		},
		begins: (*embeddedpg.Server).Promote,
	}
	restored = successor{
		pair:    pgtest.Spare,
		part:    func(ctx context.Context, next, primary *embeddedpg.Server) error { return next.Backup(ctx, primary) },
		begins:  (*embeddedpg.Server).Begin,
		counted: true,
	}
)

func failOver(t *testing.T, skew time.Duration, rest process.Rest, by successor) losses {
	t.Helper()
	ctx := t.Context()
	primary, standby := by.pair(t)
	require.NoError(t, primary.EnsureService(ctx, "messaging"))
	require.NoError(t, messaging.Migrations().Up(ctx, primary.URL("messaging", "messaging")))
	b := &trial{T: t, skew: skew}
	b.serve(either(primary, standby), rest)

	b.each(func(i int) {
		b.steps(i, 1, before)
		if i >= 5 && i < 10 {
			b.writes(i, stop)
		}
	})
	require.NoError(t, by.part(ctx, standby, primary))
	counts := beats(t, primary)
	b.each(func(i int) {
		switch {
		case i < 5:
			b.steps(i, before+1, lostUntil-1)
			b.writes(i, stop)
		case i < 10:
			b.writes(i, "START")
			fallthrough
		default:
			b.steps(i, before+1, lostUntil)
		}
	})
	if by.counted {
		require.Eventually(t, func() bool { return beats(t, primary) > counts+1 }, time.Minute, 50*time.Millisecond)
	}
	dead, kill := context.WithCancel(ctx)
	kill()
	require.NoError(t, primary.Stop(dead))
	require.NoError(t, by.begins(standby, ctx))
	now := clock.System().Now
	began := now()
	var once sync.Once
	b.each(func(i int) {
		from := before + 1
		if i%2 == 1 {
			from = lostUntil + 1 // whoever asks for these did not forget
		}
		b.steps(i, from, last)
		once.Do(func() {
			t.Logf("the first person went on %s after the promotion", now().Sub(began).Round(time.Millisecond))
		})
	})
	t.Logf("everybody went on %s after the promotion", now().Sub(began).Round(time.Millisecond))
	return b.losses(standby)
}

// beats is the lower count of both processes.
func beats(t *testing.T, server *embeddedpg.Server) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server.URL("messaging", "postgres"))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.WithoutCancel(t.Context()))) }()
	require.NoError(t, conn.QueryRow(t.Context(), "select coalesce(min(n), 0) from beats").Scan(&n))
	return n
}

// either is a URL of both servers, of which the one that takes writes is used.
func either(primary, standby *embeddedpg.Server) string {
	u := primary.URL("messaging", embeddedpg.Serving("messaging"))
	return strings.Replace(u, "&port=5432", ","+standby.Host()+"&port=5432,5432&target_session_attrs=read-write", 1)
}

// serve starts two processes.
func (b *trial) serve(database string, rest process.Rest) {
	settings := environ(database, "")
	twilio, err := emulator.New(emulator.Config{
		Clock: skewed{clock.System(), b.skew}, AccountSID: settings["TWILIO_ACCOUNT_SID"], AuthToken: settings["TWILIO_AUTH_TOKEN"],
		Numbers: []string{settings["TWILIO_FROM_NUMBER"]},
		Script:  emulator.Script{OnCallback: func(emulator.Message) emulator.CallbackFault { return emulator.CallbackFault{Drop: true} }},
	})
	require.NoError(b, err)
	b.twilio = twilio
	b.Cleanup(twilio.Close)
	api := httptest.NewServer(twilio)
	b.Cleanup(api.Close)
	settings["TWILIO_API_URL"] = api.URL
	settings["SEND_LEASE"], settings["TWILIO_TIMEOUT"] = "6s", "5s" // a readback waits so long
	cfg, err := messaging.LoadConfig(settings)
	require.NoError(b, err)
	for range 2 {
		var network net.ListenConfig
		grpcPort, err := network.Listen(b.Context(), "tcp", "127.0.0.1:0")
		require.NoError(b, err)
		opsPort, err := network.Listen(b.Context(), "tcp", "127.0.0.1:0")
		require.NoError(b, err)
		ctx, stop := context.WithCancel(b.Context())
		ready, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			ended <- messaging.Run(ctx, cfg, process.Deps{
				Log: slog.New(slog.DiscardHandler), Rest: rest, Listener: grpcPort, OpsListener: opsPort, Ready: func() { close(ready) },
			})
		}()
		b.Cleanup(func() {
			stop()
			require.NoError(b, <-ended)
		})
		select {
		case <-ready:
		case err := <-ended:
			ended <- err
			require.NoError(b, err)
		}
		b.clients = append(b.clients, dial(b.T, grpcPort.Addr().String(), rpc.RoleService))
	}
}

func (b *trial) each(do func(i int)) {
	var all sync.WaitGroup
	for i := range people {
		all.Go(func() { do(i) })
	}
	all.Wait()
}

func phoneOf(i int) string { return fmt.Sprintf("+1415555%04d", 110+i) }

// steps sends texts, each until it is known to be sent or refused for good, as a conversation does.
func (b *trial) steps(i, from, to int) {
	for n := from; n <= to; n++ {
		asked := &messagingv1.SendRequest{
			OrgId: org, To: phoneOf(i), Body: fmt.Sprintf("step %d of %s", n, phoneOf(i)), IdempotencyKey: fmt.Sprintf("onboarding:%d:%d", i, n),
		}
		sent := func() bool {
			answer, err := b.clients[i%2].Send(b.Context(), asked)
			if err != nil {
				return false
			}
			switch answer.GetOutcome() { //nolint:exhaustive // the others come again
			case messagingv1.Outcome_OUTCOME_ACCEPTED, messagingv1.Outcome_OUTCOME_ALREADY_ACCEPTED, messagingv1.Outcome_OUTCOME_OPTED_OUT:
				return true
			}
			return false
		}
		if !until(b.Context(), sent) {
			b.Errorf("person %d is stranded at step %d", i, n)
			return
		}
	}
}

// writes has a person text us, and returns once that is answered.
func (b *trial) writes(i int, body string) {
	d, err := b.twilio.Receive(b.Context(), phoneOf(i), "+14155550100", body)
	if err != nil {
		b.Error(err)
		return
	}
	recorded := func() bool {
		_, err := b.clients[i%2].RecordInbound(b.Context(), &messagingv1.RecordInboundRequest{
			TwilioSid: d.MessageSID, From: phoneOf(i), To: "+14155550100", Body: body, Segments: 1, ReceivedAt: timestamppb.Now(),
		})
		return err == nil
	}
	if !until(b.Context(), recorded) {
		b.Errorf("what person %d wrote is not recorded", i)
	}
	if body == stop {
		b.stopped.Store(phoneOf(i), clock.System().Now().Add(b.skew))
	} else {
		b.stopped.Delete(phoneOf(i))
	}
}

// until repeats a call like a caller that backs off.
func until(ctx context.Context, done func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for !done() {
		timer := time.NewTimer(100 * time.Millisecond)
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-timer.C:
		}
	}
	return true
}

// losses compares Twilio's record with the database.
func (b *trial) losses(server *embeddedpg.Server) (l losses) {
	conn, err := pgx.Connect(b.Context(), server.URL("messaging", "postgres"))
	require.NoError(b, err)
	defer func() { require.NoError(b, conn.Close(context.WithoutCancel(b.Context()))) }()
	times := map[string]int{}
	for _, m := range b.twilio.Messages() {
		if m.Direction != emulator.DirectionAPI {
			continue
		}
		times[m.To+m.Body]++
		if at, stopped := b.stopped.Load(m.To); stopped && strings.HasPrefix(m.Body, "step") && m.CreatedAt.After(at.(time.Time)) {
			l.AfterStop++
		}
		var known bool // by its SID, or as one that was under way when the standby was cut off: the reconciler settles that
		require.NoError(b, conn.QueryRow(b.Context(), `select exists (select from sms_messages where twilio_sid = $1
			or twilio_sid is null and status in ('sending', 'unknown') and to_number = $2 and body = $3)`, m.SID, m.To, m.Body).Scan(&known))
		if !known {
			l.WithoutRow++
		}
	}
	for _, n := range times {
		l.Doubled += n - 1
	}
	for i := range people {
		want := "opted_in"
		if i < 5 {
			want = "opted_out"
		}
		var state string
		require.NoError(b, conn.QueryRow(b.Context(), "select state from consents where phone = $1", phoneOf(i)).Scan(&state))
		if state != want {
			l.Inverted++
		}
	}
	return l
}
