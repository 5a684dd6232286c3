package events_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/events"
)

func TestAReceiverThatHangsDelaysItselfAlone(t *testing.T) {
	t.Parallel()
	w, healthy, done := setup(t), newSubscriber(t), make(chan struct{})
	const bad, people = 7, 30
	var lateFor atomic.Int32
	hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-done:
		case <-r.Context().Done(): // it was given up
			lateFor.Add(1)
		}
	}))
	t.Cleanup(hanging.Close)
	for range bad {
		w.subscribes(hanging.URL)
	}
	healthy.knows(w.subscribes(healthy.URL))
	tried := 0
	healthy.status = func(*http.Request) int { // under its lock
		if tried++; tried == people {
			close(done)
		}
		return http.StatusOK
	}
	for n := range people {
		w.tells(orgID, "session.advanced", fmt.Sprint("person ", n), n)
	}
	w.moves(w.feed())
	w.drains(w.runner(w.courier()))
	require.Equal(t, people, healthy.all())
	require.Zero(t, lateFor.Load(), "the healthy one was served before any of the others had used up its time")
	require.Equal(t, (bad+1)*people, w.count(`select count(*) from event_deliveries where status = 'completed'`))
}

func TestShares(t *testing.T) {
	t.Parallel()
	w := setup(t)
	steady, fresh := w.subscribes("https://example.com/"), w.subscribes("https://example.com/")
	for n := range 40 {
		w.tells(orgID, "session.advanced", fmt.Sprint("person ", n), n)
	}
	w.moves(w.feed())
	shares := events.NewShares(w.store.Deliveries())
	// claims claims what there is room for, and counts the deliveries of the subscriptions.
	claims := func() (jobs []queue.Job, ofSteady, ofFresh int) {
		for {
			now := w.clock.Now()
			c, err := shares.Claim(t.Context(), queue.Claim{Limit: 100, Now: now, Until: now.Add(time.Hour)})
			require.NoError(t, err)
			if len(c.Jobs) == 0 {
				return jobs, ofSteady, ofFresh
			}
			for _, j := range c.Jobs {
				jobs = append(jobs, j)
				switch {
				case strings.HasPrefix(j.Subject, steady.ID):
					ofSteady++
				case strings.HasPrefix(j.Subject, fresh.ID):
					ofFresh++
				}
			}
		}
	}
	ends := func(jobs []queue.Job, of events.Subscription) {
		for _, j := range jobs {
			if strings.HasPrefix(j.Subject, of.ID) {
				end := []queue.Finish{{Job: j, Status: queue.StatusCompleted, Attempts: j.Attempts, At: w.clock.Now()}}
				_, err := shares.Finish(t.Context(), end)
				require.NoError(t, err)
				_, err = shares.Finish(t.Context(), end) // as after an error
				require.NoError(t, err)
			}
		}
	}

	first, a, b := claims()
	require.Equal(t, []int{2, 2}, []int{a, b}, "nothing is known of either")
	ends(first, steady)
	second, a, b := claims()
	require.Equal(t, []int{8, 0}, []int{a, b}, "one answered at once, the other has its share at work")
	w.clock.Advance(5 * time.Second)
	ends(second, steady)
	ends(first, fresh)
	third, a, b := claims()
	require.Equal(t, []int{2, 2}, []int{a, b}, "both were slow")
	ends(third, steady)
	fourth, a, _ := claims()
	require.Equal(t, 2, a, "it is remembered")
	w.clock.Advance(time.Minute)
	ends(fourth[:1], steady)
	w.clock.Advance(time.Second)
	_, a, _ = claims()
	require.Equal(t, 1, a, "that one took a minute")
	w.clock.Advance(time.Minute)
	ends(third, fresh)
	w.clock.Advance(2 * time.Minute)
	_, _, b = claims()
	require.Equal(t, 2, b, "what is long ago says nothing")
}
