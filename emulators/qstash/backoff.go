package qstash

import (
	"math"
	"net/http"
	"strconv"
	"time"
)

// longestPause is the cap of the default backoff, and the longest wait that a destination may ask for.
const longestPause = 24 * time.Hour

// pauseBefore returns how long the next attempt waits: what the answer asks for, else the message's own expression, else
// the default backoff. See https://upstash.com/docs/qstash/features/retry.
func pauseBefore(m *message, out outcome, now time.Time) time.Duration {
	if pause, asked := askedPause(out.header, now); asked {
		return pause
	}
	if pause, ok := m.retryDelay.pause(m.retried); ok {
		return pause
	}
	return defaultPause(m.retried + 1)
}

// defaultPause is min(86400, e^(2.5n)) whole seconds before the n-th retry: 12 s, 2m28s, 30m8s, 6h7m6s, 24h.
func defaultPause(n int) time.Duration {
	return time.Duration(min(longestPause.Seconds(), math.Floor(math.Exp(2.5*float64(n))))) * time.Second
}

// askedPause reads the headers by which a destination says when to come back. More than a day is ignored.
func askedPause(h http.Header, now time.Time) (time.Duration, bool) {
	for _, name := range []string{
		"Retry-After", "X-RateLimit-Reset", "X-RateLimit-Reset-Requests", "X-RateLimit-Reset-Tokens",
	} {
		pause, ok := parsePause(h.Get(name), now)
		if ok && pause <= longestPause {
			return max(0, pause), true
		}
	}
	return 0, false
}

// parsePause reads seconds, a date of RFC 1123 or a Go duration such as 6m5s.
func parsePause(raw string, now time.Time) (time.Duration, bool) {
	if seconds, err := strconv.ParseUint(raw, 10, 32); err == nil {
		return time.Duration(seconds) * time.Second, true
	}
	if date, err := http.ParseTime(raw); err == nil {
		return date.Sub(now), true
	}
	pause, err := time.ParseDuration(raw)
	return pause, err == nil && pause >= 0
}
