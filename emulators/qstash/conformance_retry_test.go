package qstash_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	emulator "paceline.internal/emulators/qstash"
	"paceline.internal/platform/qstash"
)

func item10RetryCount(t *testing.T) {
	t.Parallel()
	for _, retries := range []int{0, 1, 5} {
		t.Run(strconv.Itoa(retries), func(t *testing.T) {
			t.Parallel()
			r := setup(t)
			r.dest.answersStatus(500)
			m := r.message("a")
			m.Retries, m.RetryDelay = retries, "1000"
			receipt := r.publish(m)
			r.run(time.Hour)

			got := r.dest.received()
			require.Len(t, got, retries+1)
			for i, a := range got {
				require.Equal(t, strconv.Itoa(i), a.header.Get(qstash.HeaderRetried))
				require.Equal(t, receipt.MessageID, a.header.Get(qstash.HeaderMessageID))
			}
			require.Len(t, r.emulator.Record().Of(emulator.DeadLettered), 1)
		})
	}
	t.Run("ThreeByDefault", func(t *testing.T) {
		t.Parallel()
		r := setup(t)
		r.dest.answersStatus(500)
		m := r.message("a")
		m.Retries = planRetries
		r.publish(m)
		r.run(24 * time.Hour)
		require.Len(t, r.dest.received(), 4)
	})
	t.Run("NegativeIsRefused", func(t *testing.T) {
		t.Parallel()
		status, _ := setup(t).rawPublish(map[string]string{"Upstash-Retries": "-1"})
		require.Equal(t, 400, status)
	})
}

func item11DefaultBackoff(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.dest.answersStatus(503)
	m := r.message("a")
	m.Retries = 6
	r.publish(m)
	r.run(30 * 24 * time.Hour)

	at, want := time.Duration(0), []time.Duration{0}
	for _, pause := range []string{"12s", "2m28s", "30m8s", "6h7m6s", "24h", "24h"} {
		d, err := time.ParseDuration(pause)
		require.NoError(t, err)
		at += d
		want = append(want, at)
	}
	require.Equal(t, want, r.attempts())
}

func item12RetryDelayExpression(t *testing.T) {
	t.Parallel()
	t.Run("PausesAreMilliseconds", func(t *testing.T) {
		t.Parallel()
		r := setup(t)
		r.dest.answersStatus(500)
		m := r.message("a")
		m.Retries, m.RetryDelay = 3, "10000 * pow(2, retried)"
		r.publish(m)
		r.run(time.Hour)
		require.Equal(t, []time.Duration{0, 10 * time.Second, 30 * time.Second, 70 * time.Second}, r.attempts())
	})
	for _, expression := range []string{"pow(2", "sleep(1)", "1 +", "retried retried", "1;2", "system"} {
		t.Run("Refuses_"+expression, func(t *testing.T) {
			t.Parallel()
			r := setup(t)
			m := r.message("a")
			m.RetryDelay = expression
			require.Equal(t, 400, r.refusal(m))
		})
	}
}

func item13RetryAfter(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, header, value string
		status              int
		want                time.Duration
	}{
		{name: "Seconds", header: "Retry-After", value: "90", want: 90 * time.Second},
		{name: "Date", header: "Retry-After", value: start.Add(time.Hour).Format(http.TimeFormat), want: time.Hour},
		{name: "PastDateIsNow", header: "Retry-After", value: start.Add(-time.Hour).Format(http.TimeFormat), want: 0},
		{name: "Duration", header: "Retry-After", value: "6m5s", want: 6*time.Minute + 5*time.Second},
		{name: "Milliseconds", header: "Retry-After", value: "250ms", want: 250 * time.Millisecond},
		{name: "ZeroIsNow", header: "Retry-After", value: "0", want: 0},
		{name: "MoreThanADayIsIgnored", header: "Retry-After", value: "86401", want: 3 * time.Second},
		{name: "GarbageIsIgnored", header: "Retry-After", value: "soon", want: 3 * time.Second},
		{name: "NegativeIsIgnored", header: "Retry-After", value: "-5s", want: 3 * time.Second},
		{name: "RateLimitReset", header: "X-RateLimit-Reset", value: "7", want: 7 * time.Second},
		{name: "RateLimitResetRequests", header: "X-RateLimit-Reset-Requests", value: "8", want: 8 * time.Second},
		{name: "RateLimitResetTokens", header: "X-RateLimit-Reset-Tokens", value: "9s", want: 9 * time.Second},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := setup(t)
			r.dest.answers(func(w http.ResponseWriter, req *http.Request) {
				if req.Header.Get(qstash.HeaderRetried) == "0" {
					w.Header().Set(c.header, c.value)
					w.WriteHeader(http.StatusTooManyRequests)
				}
			})
			m := r.message("a")
			m.Retries, m.RetryDelay = 1, "3000"
			r.publish(m)
			r.run(48 * time.Hour)
			require.Equal(t, []time.Duration{0, c.want}, r.attempts())
			require.Len(t, r.emulator.Record().Of(emulator.Delivered), 1)
		})
	}
	t.Run("MeansNothingOnSuccess", func(t *testing.T) {
		t.Parallel()
		r := setup(t)
		r.dest.answers(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Retry-After", "1") })
		m := r.message("a")
		m.Retries = 3
		r.publish(m)
		r.run(time.Hour)
		require.Len(t, r.dest.received(), 1)
	})
}

func item14NonRetryable(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, header string
		status, want int
	}{
		{name: "WithTheHeader", status: 489, header: "true", want: 1},
		{name: "WithoutTheHeader", status: 489, want: 3},
		{name: "HeaderSaysFalse", status: 489, header: "false", want: 3},
		{name: "HeaderOnAnotherStatus", status: 400, header: "true", want: 3},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := setup(t)
			r.dest.answers(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set(qstash.HeaderNonRetryable, c.header)
				w.WriteHeader(c.status)
			})
			m := r.message("a")
			m.Retries, m.RetryDelay = 2, "1000"
			r.publish(m)
			r.run(time.Minute)
			require.Len(t, r.dest.received(), c.want)
			dead, _ := r.deadLetters("")
			require.Len(t, dead, 1)
			require.EqualValues(t, c.status, dead[0]["responseStatus"])
		})
	}
}

func item15RedirectsAndClientErrors(t *testing.T) {
	t.Parallel()
	for _, status := range []int{301, 302, 307, 400, 401, 404, 500} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			t.Parallel()
			r := setup(t)
			r.dest.answers(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(status)
			})
			m := r.message("a")
			m.Retries, m.RetryDelay = 2, "1000"
			r.publish(m)
			r.run(time.Minute)
			require.Len(t, r.dest.received(), 3)
			require.Empty(t, r.dest.at("/elsewhere"))
		})
	}
}

func item16Timeout(t *testing.T) {
	t.Parallel()
	r := setup(t)
	arrived := make(chan struct{}, 1)
	r.dest.answers(func(_ http.ResponseWriter, req *http.Request) {
		if req.Header.Get(qstash.HeaderRetried) == "0" {
			arrived <- struct{}{}
			<-req.Context().Done()
		}
	})
	m := r.message("a")
	m.Timeout, m.Retries, m.RetryDelay = 5*time.Second, 1, "1000"
	r.publish(m)
	<-arrived
	r.clock.Advance(4 * time.Second)
	require.Empty(t, r.emulator.Record().Of(emulator.Answered), "there is a second left")
	r.clock.Advance(time.Second)
	r.run(time.Minute)

	answered := r.emulator.Record().Of(emulator.Answered)
	require.Len(t, answered, 2)
	require.Equal(t, "timeout of the attempt", answered[0].Err)
	require.Equal(t, 5*time.Second, answered[0].Time.Sub(start))
	require.Equal(t, 200, answered[1].Status)
	require.Equal(t, 6*time.Second, answered[1].Time.Sub(start))

	for _, raw := range []string{"5", "soon", "-1s"} {
		status, _ := r.rawPublish(map[string]string{"Upstash-Timeout": raw})
		require.Equal(t, 400, status)
	}
}
