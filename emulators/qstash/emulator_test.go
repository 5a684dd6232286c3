package qstash_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	emulator "paceline.internal/emulators/qstash"
	"paceline.internal/platform/qstash"
)

func TestFaults(t *testing.T) {
	t.Parallel()

	t.Run("FailedPublishIsTriedAgainAndDeliveredOnce", func(t *testing.T) {
		t.Parallel()
		for name, fault := range map[string]emulator.PublishFault{
			"Status": {Status: 500}, "Reset": {Reset: true}, "LostAnswer": {LoseAnswer: true},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r := setup(t)
				r.emulator.SetFaults(emulator.Script{OnPublish: emulator.First(2, fault)})
				receipt, err := r.ours("a")
				require.NoError(t, err)
				r.idle()
				require.Equal(t, fault.LoseAnswer, receipt.Deduplicated)
				require.Equal(t, receipt.MessageID, r.dest.only(t).header.Get(qstash.HeaderMessageID))
			})
		}
	})

	t.Run("PublishThatKeepsFailingIsReported", func(t *testing.T) {
		t.Parallel()
		r := setup(t)
		r.emulator.SetFaults(emulator.Script{OnPublish: emulator.First(3, emulator.PublishFault{Status: 503})})
		_, err := r.ours("a")
		var refused *qstash.Error
		require.ErrorAs(t, err, &refused)
		require.Equal(t, 503, refused.Status)
		require.Len(t, r.emulator.Record().Of(emulator.Refused), 3)
		receipt, err := r.ours("a")
		require.NoError(t, err)
		require.False(t, receipt.Deduplicated, "a refused publish takes no deduplication id")
	})

	t.Run("CopiesArriveAtOnceUnderOneMessageID", func(t *testing.T) {
		t.Parallel()
		r := setup(t)
		const copies = 3
		var together sync.WaitGroup
		together.Add(copies)
		r.dest.answers(func(http.ResponseWriter, *http.Request) {
			together.Done()
			together.Wait() // answers only once all of them are here
		})
		r.emulator.SetFaults(emulator.Script{OnDeliver: emulator.Every(emulator.DeliverFault{Copies: copies - 1})})
		receipt := r.publish(r.message("a"))
		r.idle()
		for _, a := range r.dest.received() {
			require.Equal(t, receipt.MessageID, a.header.Get(qstash.HeaderMessageID))
		}
		require.Len(t, r.dest.received(), copies)
		require.Len(t, r.emulator.Record().Of(emulator.Delivered), 1)
	})

	t.Run("R_03_SilenceEndsWithTheTimeoutOfTheAttempt", func(t *testing.T) {
		t.Parallel()
		for silence, arrivals := range map[emulator.Silence]int{emulator.RequestSilent: 1, emulator.AnswerSilent: 2} {
			r := setup(t)
			r.emulator.SetFaults(emulator.Script{OnDeliver: func(d emulator.Delivery) emulator.DeliverFault {
				if d.N > 0 {
					silence = emulator.Speaks
				}
				return emulator.DeliverFault{Silence: silence}
			}})
			m := r.message("a")
			m.Timeout, m.Retries, m.RetryDelay = 30*time.Second, 1, "1000"
			r.publish(m)
			r.run(30*time.Second + time.Millisecond)
			require.Len(t, r.dest.received(), arrivals-1)
			r.run(time.Minute)
			require.Len(t, r.dest.received(), arrivals)
			delivered := r.emulator.Record().Of(emulator.Delivered)
			require.Len(t, delivered, 1)
			require.Equal(t, 31*time.Second, delivered[0].Time.Sub(start))
		}
	})
}

func TestLateAndLostDeliveries(t *testing.T) {
	t.Parallel()

	t.Run("LateDeliveryIsLateOnce", func(t *testing.T) {
		t.Parallel()
		r := setup(t)
		r.emulator.SetFaults(emulator.Script{OnDeliver: emulator.Every(emulator.DeliverFault{Delay: time.Minute})})
		m := r.message("a")
		m.Delay = 8 * time.Second
		r.publish(m)
		r.run(time.Hour)
		require.Equal(t, []time.Duration{68 * time.Second}, r.attempts())
	})

	t.Run("LateDeliveryCanBeCancelled", func(t *testing.T) {
		t.Parallel()
		r := setup(t)
		r.emulator.SetFaults(emulator.Script{OnDeliver: emulator.Every(emulator.DeliverFault{Delay: time.Minute})})
		receipt := r.publish(r.message("a"))
		r.idle()
		require.Less(t, r.cancel(receipt.MessageID), 300)
		r.run(time.Hour)
		require.Empty(t, r.dest.received())
	})

	t.Run("LostDeliveryLeavesNoTrace", func(t *testing.T) {
		t.Parallel()
		r := setup(t)
		r.emulator.SetFaults(emulator.Script{OnDeliver: func(d emulator.Delivery) emulator.DeliverFault {
			return emulator.DeliverFault{Lose: d.Message.DeduplicationID == "a"}
		}})
		m := r.message("a")
		m.Retries = 5
		lost := r.publish(m)
		kept := r.publish(r.message("b"))
		r.run(24 * time.Hour)
		require.Equal(t, kept.MessageID, r.dest.only(t).header.Get(qstash.HeaderMessageID))
		require.Equal(t, lost.MessageID, r.emulator.Record().Of(emulator.Lost)[0].MessageID)
		dead, _ := r.deadLetters("")
		require.Empty(t, dead)
	})

	t.Run("CountsBeginAgainWithEveryScript", func(t *testing.T) {
		t.Parallel()
		r := setup(t)
		for range 2 {
			r.emulator.SetFaults(emulator.Script{OnPublish: emulator.First(1, emulator.PublishFault{Status: 400})})
			require.Equal(t, 400, r.refusal(r.message("a")))
		}
	})
}

func TestIdle(t *testing.T) {
	t.Parallel()

	t.Run("WaitsForDeliveriesInFlightAndNotForLaterOnes", func(t *testing.T) {
		t.Parallel()
		r := setup(t)
		release, arrived := make(chan struct{}), make(chan struct{})
		r.dest.answers(func(http.ResponseWriter, *http.Request) { close(arrived); <-release })
		later := r.message("later")
		later.Delay = time.Hour
		r.publish(later)
		r.idle()
		r.publish(r.message("now"))
		<-arrived
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, r.emulator.Idle(gone), context.Canceled)
		close(release)
		r.idle()
		require.Len(t, r.emulator.Record().Of(emulator.Delivered), 1)
	})

	t.Run("ObserverHasSeenEverythingInOrder", func(t *testing.T) {
		t.Parallel()
		var seen emulator.Record
		r := setup(t, func(cfg *emulator.Config) {
			cfg.OnEvent = func(event emulator.Event) { seen = append(seen, event) } // one at a time: no lock
		})
		var publishers sync.WaitGroup
		for i := range 50 {
			publishers.Go(func() { r.publish(r.message(strconv.Itoa(i % 25))) })
		}
		publishers.Wait()
		r.idle()
		require.Equal(t, r.emulator.Record(), seen)
		require.Len(t, seen.Of(emulator.Published), 25)
		require.Len(t, seen.Of(emulator.Duplicate), 25)
		require.Len(t, seen.Of(emulator.Delivered), 25)
	})

	t.Run("IsNotForWebPages", func(t *testing.T) {
		t.Parallel()
		r := setup(t)
		status, _ := r.raw(http.MethodPost, "/v2/publish/http://127.0.0.1:1/?qstash_token="+emulator.DevToken,
			map[string]string{"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}, "forged")
		require.Equal(t, http.StatusForbidden, status)
		require.Empty(t, r.emulator.Record())
	})

	t.Run("WaitsForTheObserver", func(t *testing.T) {
		t.Parallel()
		entered, release := make(chan struct{}), make(chan struct{})
		r := setup(t, func(cfg *emulator.Config) {
			cfg.OnEvent = func(emulator.Event) { close(entered); <-release }
		})
		m := r.message("later")
		m.Delay = time.Hour // nothing is in flight, only the event is still to be reported
		var publisher sync.WaitGroup
		publisher.Go(func() { r.publish(m) })
		<-entered
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, r.emulator.Idle(gone), context.Canceled)
		close(release)
		r.idle()
		publisher.Wait()
	})

	t.Run("RunsOnTheSystemClock", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			answered := make(chan emulator.Event, 1)
			e := emulator.New(emulator.Config{
				HTTPClient: &http.Client{Transport: always(http.StatusNoContent)},
				OnEvent: func(event emulator.Event) {
					if event.Kind == emulator.Delivered {
						answered <- event
					}
				},
			})
			defer e.Close()
			req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v2/publish/http://destination/hook", http.NoBody)
			req.Host = "localhost"
			req.Header.Set("Authorization", "Bearer "+emulator.DevToken)
			req.Header.Set(qstash.HeaderDelay, "8s")
			began := time.Now() // the bubble's clock
			e.ServeHTTP(httptest.NewRecorder(), req)
			require.Equal(t, 8*time.Second, (<-answered).Time.Sub(began))
			require.NoError(t, e.Idle(t.Context()))
		})
	})
}

// always is a transport that answers every request with its status.
type always int

func (a always) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: int(a), Header: http.Header{}, Body: http.NoBody}, nil
}

func TestShutdown(t *testing.T) {
	t.Parallel()

	t.Run("WaitsForWhatIsInFlightAndEndsWhatWaits", func(t *testing.T) {
		t.Parallel()
		r := setup(t)
		release, arrived := make(chan struct{}), make(chan struct{})
		r.dest.answers(func(http.ResponseWriter, *http.Request) { close(arrived); <-release })
		later := r.message("later")
		later.Delay = time.Minute
		r.publish(later)
		r.publish(r.message("now"))
		<-arrived
		ended := make(chan error, 1)
		go func() { ended <- r.emulator.Shutdown(t.Context()) }()
		close(release)
		require.NoError(t, <-ended)
		require.Len(t, r.emulator.Record().Of(emulator.Delivered), 1)
		r.clock.Advance(time.Hour)
		r.idle()
		require.Len(t, r.dest.received(), 1)
		require.Equal(t, 503, r.refusal(r.message("after")))
	})

	t.Run("DropsWhatDoesNotEndInTime", func(t *testing.T) {
		t.Parallel()
		r := setup(t)
		arrived := make(chan struct{})
		r.dest.answers(func(_ http.ResponseWriter, req *http.Request) { close(arrived); <-req.Context().Done() })
		r.publish(r.message("now"))
		<-arrived
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, r.emulator.Shutdown(gone), context.Canceled)
	})
}

func TestCancelInFlight(t *testing.T) {
	t.Parallel()
	// The attempt cannot be called back, but it is the last one.
	r := setup(t)
	release, arrived := make(chan struct{}), make(chan struct{})
	r.dest.answers(func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-release
		w.WriteHeader(http.StatusInternalServerError)
	})
	m := r.message("a")
	m.Retries = 5
	receipt := r.publish(m)
	<-arrived
	require.Less(t, r.cancel(receipt.MessageID), 300)
	close(release)
	r.run(24 * time.Hour)
	require.Len(t, r.dest.received(), 1)
	require.Len(t, r.emulator.Record().Of(emulator.Cancelled), 1)
}

func TestPlan(t *testing.T) {
	t.Parallel()
	r := setup(t)
	m := r.message("year")
	m.Delay = 365 * 24 * time.Hour
	r.publish(m)
	m = r.message("more")
	m.Delay = 365*24*time.Hour + time.Second
	require.Equal(t, 400, r.refusal(m))
	m = r.message("large")
	m.Body = make([]byte, 10<<20+1)
	require.Equal(t, 413, r.refusal(m))
}

func TestUnreachableDestination(t *testing.T) {
	t.Parallel()
	r := setup(t)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	m := r.message("a")
	m.Destination, m.Retries, m.RetryDelay = gone.URL+"/hook", 1, "1000"
	m.FailureCallback = r.dest.url + "/failed"
	r.publish(m)
	r.run(time.Minute)
	failure, err := qstash.DecodeFailure(r.dest.only(t).body)
	require.NoError(t, err)
	require.Zero(t, failure.Status)
	require.Contains(t, r.emulator.Record().Of(emulator.DeadLettered)[0].Err, "refused")
}
