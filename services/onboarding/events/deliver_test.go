package events_test

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/events"
)

// many is the number of events for the subscriber that is killed and started again.
var many = flag.Int("events", 10_000, "events for a subscriber that is killed and started again")

// drains delivers all that is due.
func (w *world) drains(r *queue.Runner) {
	w.t.Helper()
	_, err := r.Drain(w.t.Context())
	require.NoError(w.t, err)
}

func (w *world) subscription(id string) events.Subscription {
	w.t.Helper()
	s, err := w.store.Subscription(w.t.Context(), id)
	require.NoError(w.t, err)
	return s
}

func TestDeliveries(t *testing.T) {
	t.Parallel()
	t.Run("ASubscriberThatIsKilledGetsEachEventOnceInTheOrderOfItsPerson", func(t *testing.T) {
		t.Parallel()
		w, host := setup(t), newSubscriber(t)
		const people = 50
		total := *many
		if testing.Short() {
			total = 2000
		}
		s, f, r := w.subscribes(host.URL+"/events"), w.feed(), w.runner(w.courier())
		host.knows(s)
		var dead atomic.Bool
		host.status = func(req *http.Request) int { // under the lock of the subscriber
			if host.tries%(total/4) == 0 {
				dead.Store(true)
			}
			if dead.Load() {
				hijack(req)
			}
			return http.StatusOK
		}
		w.exec(`insert into event_outbox (event_id, org_id, type, subject, time, causation_id, data)
			select gen_random_uuid(), $1, 'session.advanced', 'person ' || i % $3, $2, 'test:1', jsonb_build_object('n', i)
			from generate_series(1, $4::int) i`, orgID, w.clock.Now(), people, total)
		restarts := 0
		for host.all() < total {
			w.moves(f)
			w.drains(r)
			if dead.Swap(false) {
				restarts++
			}
			w.clock.Advance(time.Minute)
			require.Less(t, restarts, 100)
		}
		require.GreaterOrEqual(t, restarts, 3)
		require.Len(t, host.got, people)
		for who, seqs := range host.got {
			require.Len(t, seqs, total/people, who)
			require.IsIncreasing(t, seqs, who)
		}
		require.Equal(t, total, w.count(`select count(*) from event_deliveries where status = 'completed'`))
		require.Zero(t, w.subscription(s.ID).FailingSince)
	})

	t.Run("TheLogHoldsWhatASubscriberHasNoRoomFor", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		s := w.subscribes("https://example.com/")
		for n := range 10 {
			w.tells(orgID, "session.advanced", "ana", n)
		}
		w.moves(w.feed())
		w.exec(`delete from event_deliveries`)
		w.exec(`update event_subscriptions set cursor_seq = 0`)
		n, more, err := w.store.FanOut(t.Context(), s.ID, 500, 4, w.clock.Now())
		require.NoError(t, err)
		require.False(t, more, "there is no room")
		require.Equal(t, 4, n)
		n, more, err = w.store.FanOut(t.Context(), s.ID, 500, 4, w.clock.Now())
		require.NoError(t, err)
		require.False(t, more, "it waits for room")
		require.Zero(t, n)
	})

	t.Run("APausedSubscriptionGoesOnWhereItWas", func(t *testing.T) {
		t.Parallel()
		w, host := setup(t), newSubscriber(t)
		s, f, r := w.subscribes(host.URL), w.feed(), w.runner(w.courier())
		host.knows(s)
		failing := ""
		host.status = func(req *http.Request) int {
			if failing != "" && strings.HasPrefix(req.Header.Get("webhook-id"), failing) {
				return http.StatusInternalServerError
			}
			return http.StatusOK
		}
		w.tells(orgID, "session.advanced", "ana", 1)
		w.moves(f)
		first, _ := w.reads(0)
		failing = first[0].ID
		w.tells(orgID, "session.advanced", "ana", 2)
		w.tells(orgID, "session.advanced", "bia", 3)
		w.moves(f)
		w.drains(r)
		require.Equal(t, map[string][]int64{"bia": {3}}, host.got, "one person's trouble is no other's")
		require.NotZero(t, w.subscription(s.ID).FailingSince.Add(1))

		paused, err := w.store.Pause(t.Context(), s.ID, events.PausedByHand, w.clock.Now())
		require.NoError(t, err)
		require.True(t, paused)
		again, err := w.store.Pause(t.Context(), s.ID, "again", w.clock.Now())
		require.NoError(t, err)
		require.False(t, again)
		w.tells(orgID, "session.advanced", "ana", 4)
		w.moves(f)
		w.clock.Advance(time.Hour)
		w.drains(r)
		require.Equal(t, 1, w.count(`select count(*) from event_deliveries`), "what was delivered")
		require.Equal(t, events.PausedByHand, w.subscription(s.ID).PausedReason)

		failing = ""
		resumed, missed, err := w.store.Resume(t.Context(), orgID, s.ID, w.clock.Now())
		require.NoError(t, err)
		require.False(t, missed)
		require.Equal(t, events.Active, resumed.Status)
		w.moves(f)
		w.drains(r)
		require.Equal(t, map[string][]int64{"ana": {1, 2, 4}, "bia": {3}}, host.got)
	})

	t.Run("ASubscriberThatFailsForThreeDaysIsPausedAndWhatItMissedIsSaid", func(t *testing.T) {
		t.Parallel()
		w, host := setup(t), newSubscriber(t)
		s, f, r := w.subscribes(host.URL), w.feedKeeping(0), w.runner(w.courier())
		host.status = func(*http.Request) int { return http.StatusBadGateway }
		for hours := range 80 {
			if hours%10 == 0 {
				w.tells(orgID, "session.advanced", "ana", hours)
				w.tells(orgID, "session.advanced", fmt.Sprint(hours), hours)
			}
			w.moves(f)
			w.drains(r)
			require.NoError(t, f.Forget(t.Context()))
			w.clock.Advance(time.Hour)
		}
		got := w.subscription(s.ID)
		require.Equal(t, events.Paused, got.Status)
		require.Equal(t, "every delivery failed for three days", got.PausedReason)
		require.Zero(t, w.count(`select count(*) from event_deliveries where status in ('pending', 'processing')`))
		w.clock.Advance(events.KeptForSubscribers)
		require.NoError(t, f.Forget(t.Context()))
		_, missed, err := w.store.Resume(t.Context(), orgID, s.ID, w.clock.Now())
		require.NoError(t, err)
		require.True(t, missed)
	})

	t.Run("ADeliveryOfAPausedSubscriptionIsReplayedOnceThatIsResumed", func(t *testing.T) {
		t.Parallel()
		w, host := setup(t), newSubscriber(t)
		s, f, r := w.subscribes(host.URL), w.feed(), w.runner(w.courier())
		host.knows(s)
		w.tells(orgID, "session.advanced", "ana", 1)
		w.moves(f)
		w.exec(`update event_deliveries set status = 'failed', processed_at = $1`, w.clock.Now())
		_, err := w.store.Pause(t.Context(), s.ID, events.PausedByHand, w.clock.Now())
		require.NoError(t, err)
		failed, err := w.store.Deliveries().List(t.Context(), queue.Filter{OrgID: orgID, Status: queue.StatusFailed, Limit: 10})
		require.NoError(t, err)
		require.Len(t, failed, 1)
		replays := func() error {
			_, err := w.store.ReplayDelivery(t.Context(), orgID, failed[0].ID, w.clock.Now())
			return err
		}
		require.ErrorIs(t, replays(), events.ErrPaused)
		w.exec(`update event_deliveries set status = 'pending', processed_at = null`) // as 0.1.0 replays it
		w.drains(r)
		require.Equal(t, 1, w.count(`select count(*) from event_deliveries where status = 'failed' and error_message = $1`,
			events.ErrPaused.Error()))
		_, _, err = w.store.Resume(t.Context(), orgID, s.ID, w.clock.Now())
		require.NoError(t, err)
		require.NoError(t, replays())
		w.drains(r)
		require.Equal(t, map[string][]int64{"ana": {1}}, host.got)
	})

	t.Run("NothingIsPostedForAnOrganisationThatHasEndedUntilItIsTakenBack", func(t *testing.T) {
		t.Parallel()
		w, host := setup(t), newSubscriber(t)
		s, f, r := w.subscribes(host.URL), w.feed(), w.runner(w.courier())
		host.knows(s)
		w.tells(orgID, "session.advanced", "ana", 1)
		w.moves(f) // the delivery is made, and the organisation ends
		now := w.clock.Now()
		w.exec(`insert into organisations (org_id, name, status, wanted, version, reason, changed_at, created_at, erase_after)
			values ($1, 'Acme', 'ended', 'ended', 2, 'left', $2, $2, $3)`, orgID, now, now.Add(30*24*time.Hour))
		w.drains(r)
		w.clock.Advance(time.Hour)
		w.tells(orgID, "session.advanced", "ana", 2)
		w.moves(f)
		w.drains(r)
		require.Zero(t, host.tries)
		require.Equal(t, 1, w.count(`select count(*) from event_deliveries`))
		stand, err := w.store.Gauges(t.Context(), w.clock.Now().Add(time.Hour))
		require.NoError(t, err)
		require.Zero(t, stand.Behind, "nobody waits for it")

		w.exec(`update organisations set status = 'active', wanted = 'active', erase_after = null`)
		w.clock.Advance(10 * time.Minute)
		w.moves(f)
		w.drains(r)
		require.Equal(t, map[string][]int64{"ana": {1, 2}}, host.got)
	})

	t.Run("WhoFallsBehindWhatIsKeptIsPaused", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		s, f := w.subscribes("https://example.com/"), w.feed()
		w.moves(f)
		w.exec(`update event_feed set last_seq = 1`)
		w.exec(`insert into events (seq, event_id, org_id, type, subject, time, causation_id, data, recorded_at)
			values (1, gen_random_uuid(), $1, 'session.advanced', 'ana', $2, '', '{}', $2)`, orgID, w.clock.Now().Add(-8*24*time.Hour))
		require.NoError(t, f.Forget(t.Context()))
		require.Equal(t, "it fell behind what the log keeps", w.subscription(s.ID).PausedReason)
		require.Zero(t, w.count(`select count(*) from events`))
	})

	t.Run("WhoAnswersGoneIsPausedAtOnceAndRetryAfterIsHeeded", func(t *testing.T) {
		t.Parallel()
		w, host := setup(t), newSubscriber(t)
		s, f, r := w.subscribes(host.URL), w.feed(), w.runner(w.courier())
		host.knows(s)
		busy := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Retry-After", "600")
			rw.WriteHeader(http.StatusTooManyRequests)
		}))
		t.Cleanup(busy.Close)
		other := w.subscribes(busy.URL)
		host.status = func(*http.Request) int { return http.StatusGone }
		w.tells(orgID, "session.advanced", "ana", 1)
		w.moves(f)
		w.drains(r)
		require.Equal(t, "the subscriber answered 410 Gone", w.subscription(s.ID).PausedReason)
		require.Equal(t, 1, w.count(`select count(*) from event_deliveries where subscription_id = $1 and attempts = 1
			and next_retry_at = $2::timestamptz + interval '10 minutes'`, other.ID, w.clock.Now()))
	})

	t.Run("WhoAsksForAnEarlyTryForEverGetsNoMoreThanTheOthers", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		tries := 0
		busy := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			tries++
			rw.Header().Set("Retry-After", "5")
			rw.WriteHeader(http.StatusServiceUnavailable)
		}))
		t.Cleanup(busy.Close)
		w.subscribes(busy.URL)
		r := w.runner(w.courier())
		w.tells(orgID, "session.advanced", "ana", 1)
		w.moves(w.feed())
		for n := 1; n <= events.Tries; n++ {
			w.drains(r)
			require.Equal(t, n, tries)
			require.Equal(t, n, w.count(`select attempts from event_deliveries`))
			w.clock.Advance(events.Backoff(n) - time.Millisecond)
			w.drains(r)
			require.Equal(t, n, tries, "not before its time")
			w.clock.Advance(time.Millisecond)
		}
		require.Equal(t, 1, w.count(`select count(*) from event_deliveries where status = 'failed'`))
	})

	t.Run("ASecretIsRotatedWithoutALoss", func(t *testing.T) {
		t.Parallel()
		w, host := setup(t), newSubscriber(t)
		s, f, r := w.subscribes(host.URL), w.feed(), w.runner(w.courier())
		host.knows(s)
		now := w.clock.Now()
		fresh := events.NewSecret()
		require.NoError(t, w.store.Rotate(t.Context(), orgID, s.ID, fresh, now.Add(events.OldSecretLife), now))
		sends := func(n int) {
			w.tells(orgID, "session.advanced", "ana", n)
			w.moves(f)
			w.drains(r)
			require.Equal(t, n, host.all())
		}
		sends(1) // with the secret before
		host.knows(events.Subscription{Secret: fresh})
		sends(2)
		again := func() error {
			now := w.clock.Now()
			return w.store.Rotate(t.Context(), orgID, s.ID, fresh, now.Add(events.OldSecretLife), now)
		}
		require.ErrorIs(t, again(), events.ErrRotating, "the secret before is in use")
		w.clock.Advance(events.OldSecretLife)
		sends(3)
		signatures := 0
		host.status = func(req *http.Request) int {
			signatures = len(strings.Fields(req.Header.Get("webhook-signature")))
			return http.StatusOK
		}
		sends(4)
		require.Equal(t, 1, signatures, "the old secret has ended")
		require.NoError(t, again())
	})

	t.Run("ABodyIsSentToWhoAsksForItAndToNoOthers", func(t *testing.T) {
		t.Parallel()
		w, host, curious := setup(t), newSubscriber(t), newSubscriber(t)
		f, r := w.feed(), w.runner(w.courier())
		plain := w.subscribes(host.URL, "message.received")
		host.knows(plain)
		full, err := w.store.Subscribe(t.Context(), events.Subscription{
			OrgID: orgID, URL: curious.URL, Types: []string{}, Body: true, Secret: events.NewSecret(), CreatedAt: w.clock.Now(),
		})
		require.NoError(t, err)
		curious.knows(full)
		w.tells(orgID, "message.received", "ana", 1)
		w.exec(`insert into event_types (type) values ('message.received') on conflict do nothing`)
		w.moves(f)
		w.tells(orgID, "message.received", "ana", 1)
		w.tells(another, "message.received", "bia", 2)
		w.moves(f)
		w.drains(r)
		require.Len(t, host.bodies, 1)
		require.Len(t, curious.bodies, 1)
		was, _ := host.bodies[0]["data"].(map[string]any)
		became, _ := curious.bodies[0]["data"].(map[string]any)
		require.NotContains(t, was, "body")
		require.Equal(t, fmt.Sprint("the text of ", was["message_id"]), became["body"])
		require.Zero(t, w.count(`select count(*) from event_deliveries where payload::text like '%the text%'`), "it is stored nowhere")
		require.Subset(t, host.bodies[0], map[string]any{
			"specversion": "1.0", "source": "/paceline/orgs/" + orgID, "type": "message.received", "subject": "ana", "causationid": "test:1",
		})
	})

	t.Run("ADeliveryThatFailsForGoodLetsTheOthersPassAndIsTriedAgainByHand", func(t *testing.T) {
		t.Parallel()
		w, host := setup(t), newSubscriber(t)
		s, f, r := w.subscribes(host.URL), w.feed(), w.runner(w.courier())
		host.knows(s)
		poison := true
		w.tells(orgID, "session.advanced", "ana", 1)
		w.tells(orgID, "session.advanced", "ana", 2)
		w.moves(f)
		first, _ := w.reads(0)
		host.status = func(req *http.Request) int {
			if poison && req.Header.Get("webhook-id") == first[0].ID {
				return http.StatusBadRequest
			}
			return http.StatusOK
		}
		for n := 3; n < 80 && w.count(`select count(*) from event_deliveries where status = 'failed'`) == 0; n++ {
			w.tells(orgID, "session.advanced", "bia", n)
			w.moves(f)
			w.drains(r)
			w.clock.Advance(time.Hour)
		}
		w.drains(r)
		require.Equal(t, []int64{2}, host.got["ana"])
		require.Equal(t, events.Active, w.subscription(s.ID).Status, "the others succeed")
		failed, err := w.store.Deliveries().List(t.Context(), queue.Filter{OrgID: orgID, Status: queue.StatusFailed, Limit: 10})
		require.NoError(t, err)
		require.Len(t, failed, 1)
		require.Equal(t, "the subscriber answered 400 Bad Request", failed[0].ErrorMessage)
		poison = false
		_, err = w.store.ReplayDelivery(t.Context(), another, failed[0].ID, w.clock.Now())
		require.ErrorIs(t, err, events.ErrNoDelivery)
		_, err = w.store.ReplayDelivery(t.Context(), orgID, failed[0].ID, w.clock.Now())
		require.NoError(t, err)
		w.drains(r)
		require.Equal(t, []int64{2, 1}, host.got["ana"])
	})

	t.Run("ATryThatUsedUpItsTimeIsNotedAndIsNoOutageOfOurs", func(t *testing.T) {
		t.Parallel()
		w, host := setup(t), newSubscriber(t)
		s := w.subscribes(host.URL)
		job := queue.Job{OrgID: orgID, Subject: s.ID + ":ana", Payload: []byte(`{"id":"1","data":{}}`)}
		ctx, cancel := context.WithCancel(t.Context())
		host.status = func(r *http.Request) int {
			cancel()
			<-r.Context().Done()
			return http.StatusInternalServerError
		}
		err := w.courier().Deliver(ctx, job)
		require.ErrorContains(t, err, "no answer: ")
		require.False(t, postgres.Outage(err), "the queue would take it for one of our database's, and try for ever")
		require.Equal(t, w.clock.Now().UTC(), w.subscription(s.ID).FailingSince.UTC())
	})

	t.Run("AnOrganisationHasAtMostTwentySubscriptions", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		for range events.MaxSubscriptions {
			w.subscribes("https://example.com/")
		}
		_, err := w.store.Subscribe(t.Context(), events.Subscription{
			OrgID: orgID, URL: "https://example.com/", Types: []string{}, Secret: events.NewSecret(), CreatedAt: w.clock.Now(),
		})
		require.ErrorIs(t, err, events.ErrTooMany)
		_, err = w.store.Subscribe(t.Context(), events.Subscription{
			OrgID: another, URL: "https://example.com/", Types: []string{}, Secret: events.NewSecret(), CreatedAt: w.clock.Now(),
		})
		require.NoError(t, err)
	})
}

// hijack ends the connection of a request without an answer, as a process that is killed does.
func hijack(*http.Request) { panic(http.ErrAbortHandler) }

func TestWhereEventsArePosted(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.networks = nil
	public := w.courier()
	for _, url := range []string{
		"", "example.com", "ftp://example.com/", "http://example.com/", "https://user@example.com/", "https://example.com/#x", "https://10.0.0.1/",
		"https://127.0.0.1/", "https://[::1]/", "https://[::ffff:127.0.0.1]/", "https://169.254.169.254/latest", "https://100.64.0.1/",
		"https://[64:ff9b::7f00:1]/", "https://0.0.0.0/", "https://example.com:0/", "https://example.com:65536/",
		"https://" + strings.Repeat("a", 2000),
	} {
		require.Error(t, public.CheckURL(url), url)
	}
	require.EqualError(t, public.CheckURL("http://example.com/"), "url must begin with https://; http takes a network of EVENTS_ALLOW_PRIVATE_TARGETS")
	for _, url := range []string{"https://example.com/hooks?x=1", "https://93.184.216.34:8443/", "https://[2606:2800:220:1:248:1893:25c8:1946]/"} {
		require.NoError(t, public.CheckURL(url), url)
	}
	w.networks = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	allowed := w.courier()
	require.NoError(t, allowed.CheckURL("http://127.0.0.1:9000/"))
	require.NoError(t, allowed.CheckURL("https://127.0.0.1/"))
	require.NoError(t, allowed.CheckURL("https://93.184.216.34/"))
	require.ErrorContains(t, allowed.CheckURL("http://93.184.216.34/"), "url must begin with https://; http takes a network of EVENTS_ALLOW_PRIVATE_TARGETS",
		"in plain text to allowed networks only")
	require.Error(t, allowed.CheckURL("https://10.0.0.1/"))
}

func TestConnections(t *testing.T) {
	t.Parallel()
	// try makes one delivery to a URL, and says how it failed.
	try := func(t *testing.T, w *world, url string) string {
		t.Helper()
		w.subscribes(url)
		w.tells(orgID, "session.advanced", "ana", 1)
		w.moves(w.feed())
		w.drains(w.runner(w.courier()))
		var message string
		require.NoError(t, w.pool.QueryRow(t.Context(), `select error_message from event_deliveries`).Scan(&message))
		return message
	}
	t.Run("ANameThatLeadsToAPrivateAddressIsRefusedWhenItIsConnectedTo", func(t *testing.T) {
		t.Parallel()
		w, called := setup(t), false
		inside := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called = true }))
		t.Cleanup(inside.Close)
		w.networks = nil
		require.NoError(t, w.courier().CheckURL(strings.Replace(inside.URL, "127.0.0.1", "localhost", 1)))
		require.Equal(t, "the url leads to an address that may not be called; use a public one, or one of EVENTS_ALLOW_PRIVATE_TARGETS",
			try(t, w, strings.Replace(inside.URL, "127.0.0.1", "localhost", 1)))
		require.False(t, called)
	})
	t.Run("AFailureNamesNoAddress", func(t *testing.T) {
		t.Parallel()
		closed := httptest.NewServer(nil)
		closed.Close()
		require.Equal(t, "no answer: connect: connection refused", try(t, setup(t), closed.URL))
		require.Equal(t, "no answer: the name in the url could not be resolved", try(t, setup(t), "http://example..com/"))
	})
	t.Run("ARedirectIsNotFollowed", func(t *testing.T) {
		t.Parallel()
		w, followed := setup(t), false
		host := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/elsewhere" {
				followed = true
			}
			http.Redirect(rw, r, "/elsewhere", http.StatusTemporaryRedirect)
		}))
		t.Cleanup(host.Close)
		require.Equal(t, "the subscriber answered 307 Temporary Redirect", try(t, w, host.URL))
		require.False(t, followed)
	})
	t.Run("AnAnswerWithoutAnEndIsNotReadToIt", func(t *testing.T) {
		t.Parallel()
		w, gone := setup(t), make(chan struct{})
		host := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			defer close(gone)
			for {
				if _, err := rw.Write(make([]byte, 1<<10)); err != nil {
					return
				}
			}
		}))
		t.Cleanup(host.Close)
		require.Empty(t, try(t, w, host.URL), "a status of 200 is a success, whatever follows it")
		<-gone
	})
}

func TestSign(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		secret, id := rapid.SliceOfN(rapid.Byte(), 24, 64).Draw(r, "secret"), uuid.NewString()
		body := rapid.SliceOf(rapid.Byte()).Draw(r, "body")
		header := http.Header{}
		events.Sign(header, id, noon, body, events.NewSecret(), secret)
		require.NoError(r, verify(events.ShowSecret(secret), body, header))
		require.Error(r, verify(events.ShowSecret(secret), append(body, '.'), header))
		require.Error(r, verify(events.ShowSecret(events.NewSecret()), body, header))
	})
}
