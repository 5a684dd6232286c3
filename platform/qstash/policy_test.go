package qstash_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/clock"
	emulator "paceline.internal/emulators/qstash"
	"paceline.internal/platform/qstash"
)

// round is the publisher in front of the emulator, and a service of the product behind it.
type round struct {
	*qstash.Publisher

	t        *testing.T
	clock    *clock.Settable
	emulator *emulator.Emulator

	mu       sync.Mutex
	arrivals map[string][]arrival // by path
	answers  func(w http.ResponseWriter, r *http.Request)
}

type arrival struct {
	after  time.Duration // since the start
	header http.Header
	body   []byte
}

func newRound(t *testing.T) *round {
	t.Helper()
	r := &round{
		t: t, clock: clock.NewSettable(start()), arrivals: map[string][]arrival{}, answers: func(http.ResponseWriter, *http.Request) {},
	}
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.mu.Lock()
		r.arrivals[req.URL.Path] = append(r.arrivals[req.URL.Path], arrival{after: r.clock.Now().Sub(start()), header: req.Header, body: body})
		r.mu.Unlock()
		r.answers(w, req)
	}))
	t.Cleanup(service.Close)
	r.emulator = emulator.New(emulator.Config{Clock: r.clock})
	t.Cleanup(r.emulator.Close)
	api := httptest.NewServer(r.emulator)
	t.Cleanup(api.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	client, err := qstash.New(qstash.Config{URL: api.URL, Token: emulator.DevToken, HTTPClient: &http.Client{Transport: transport}})
	require.NoError(t, err)
	cfg := publisherConfig(client)
	cfg.Origin, cfg.Now = service.URL, r.clock.Now
	r.Publisher, err = qstash.NewPublisher(cfg)
	require.NoError(t, err)
	return r
}

// run lets d pass, and stops at every timer on the way until its deliveries have ended.
func (r *round) run(d time.Duration) {
	r.t.Helper()
	until := r.clock.Now().Add(d)
	for {
		require.NoError(r.t, r.emulator.Idle(r.t.Context()))
		next, ok := r.clock.Next()
		if !ok || next.After(until) {
			break
		}
		r.clock.AdvanceToNext()
	}
	r.clock.Advance(until.Sub(r.clock.Now()))
}

// of are the requests to a path so far.
func (r *round) of(path string) []arrival {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]arrival(nil), r.arrivals[path]...)
}

func TestPolicyAtQStash(t *testing.T) {
	t.Parallel()
	const stepPath, failurePath = "/api/onboarding/step", "/api/onboarding/step/failed"
	due := func(t *testing.T) qstash.Job {
		t.Helper()
		j := job(t)
		j.Due = start()
		return j
	}

	t.Run("S1_07_S1_08_S1_11_SixAttemptsTenSecondsAndTwiceAsLongEachTime", func(t *testing.T) {
		t.Parallel()
		r := newRound(t)
		r.answers = func(w http.ResponseWriter, req *http.Request) {
			if req.URL.Path == stepPath {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}
		receipt, err := r.Publish(t.Context(), due(t))
		require.NoError(t, err)
		r.run(time.Hour)
		var at []time.Duration
		for _, a := range r.of(stepPath) {
			at = append(at, a.after)
			require.Equal(t, []string{"5", hashed()}, []string{a.header.Get(qstash.HeaderMaxRetries), a.header.Get(qstash.HeaderDedupHash)})
		}
		require.Equal(t, []time.Duration{
			0, 10 * time.Second, 30 * time.Second, 70 * time.Second, 150 * time.Second, 310 * time.Second,
		}, at)

		told := r.of(failurePath)
		require.Len(t, told, 1)
		failure, err := qstash.DecodeFailure(told[0].body)
		require.NoError(t, err)
		require.Equal(t, []any{receipt.MessageID, 5, 5, 500}, []any{failure.SourceMessageID, failure.Retried, failure.MaxRetries, failure.Status})
		require.Equal(t, []string{"5", hashed()}, []string{told[0].header.Get(qstash.HeaderMaxRetries), told[0].header.Get(qstash.HeaderDedupHash)})
	})

	t.Run("S1_10_NonRetryableIsDeadAtOnce", func(t *testing.T) {
		t.Parallel()
		r := newRound(t)
		r.answers = func(w http.ResponseWriter, req *http.Request) {
			if req.URL.Path == stepPath {
				w.Header().Set(qstash.HeaderNonRetryable, "true")
				w.WriteHeader(qstash.StatusNonRetryable)
			}
		}
		_, err := r.Publish(t.Context(), due(t))
		require.NoError(t, err)
		r.run(time.Hour)
		require.Len(t, r.of(stepPath), 1)
		require.Len(t, r.of(failurePath), 1)
		require.Len(t, r.emulator.Record().Of(emulator.DeadLettered), 1)
	})

	t.Run("S1_09_AJobsOwnPolicyIsHeeded", func(t *testing.T) {
		t.Parallel()
		r := newRound(t)
		r.answers = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
		j := due(t)
		j.Policy = qstash.Policy{Retries: 1, RetryDelay: "3000", Timeout: time.Second}
		_, err := r.Publish(t.Context(), j)
		require.NoError(t, err)
		r.run(time.Hour)
		require.Len(t, r.of(stepPath), 2)
		require.Equal(t, 3*time.Second, r.of(stepPath)[1].after)
		require.Len(t, r.of(failurePath), 6, "the callback keeps the publisher's policy")
	})

	t.Run("S1_03_S1_37_TheSameOperationIsOneMessageAndAnotherVersionIsAnother", func(t *testing.T) {
		t.Parallel()
		r := newRound(t)
		first, err := r.Publish(t.Context(), due(t))
		require.NoError(t, err)
		require.False(t, first.Deduplicated)
		second, err := r.Publish(t.Context(), due(t))
		require.NoError(t, err)
		require.Equal(t, qstash.Receipt{MessageID: first.MessageID, Deduplicated: true}, second)
		again := due(t)
		again.DedupID, err = qstash.NewDedupID("onboarding", sessionID, "onboarding_message_2", "2")
		require.NoError(t, err)
		third, err := r.Publish(t.Context(), again)
		require.NoError(t, err)
		require.False(t, third.Deduplicated)
		r.run(time.Minute)
		require.Len(t, r.of(stepPath), 2)
	})
}
