package qstash

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	api "paceline.internal/platform/qstash"
)

// defaultRetries is for a message that does not set its own.
const defaultRetries = 3

// settings are the headers that a message and each of its callbacks have alike.
type settings struct {
	method     string
	retries    int
	retryDelay retryDelay
	timeout    time.Duration
	forward    http.Header
}

// readSettings reads the headers that begin with prefix: "Upstash-" for the message itself.
func readSettings(h http.Header, prefix string) (settings, error) {
	s := settings{method: http.MethodPost, retries: defaultRetries, timeout: maxTimeout, forward: http.Header{}}
	get := func(name string) string { return h.Get(prefix + strings.TrimPrefix(name, "Upstash-")) }

	if raw := get(api.HeaderMethod); raw != "" {
		s.method = strings.ToUpper(raw)
		if !slices.Contains([]string{"GET", "POST", "PUT", "PATCH", "DELETE"}, s.method) {
			return s, badRequest("invalid method")
		}
	}
	if raw := get(api.HeaderRetries); raw != "" {
		retries, err := strconv.Atoi(raw)
		if err != nil || retries < 0 {
			return s, badRequest("invalid retries")
		}
		s.retries = retries
	}
	if raw := get(api.HeaderTimeout); raw != "" {
		timeout, ok := parseDuration(raw)
		if !ok {
			return s, badRequest("invalid timeout")
		}
		if timeout > 0 {
			s.timeout = min(timeout, maxTimeout)
		}
	}
	var err error
	if s.retryDelay, err = parseRetryDelay(get(api.HeaderRetryDelay)); err != nil {
		return s, badRequest("invalid retry delay: %s", err)
	}
	for name, values := range h {
		if forwarded, ok := strings.CutPrefix(name, http.CanonicalHeaderKey(prefix+"Forward-")); ok && forwarded != "" {
			s.forward[http.CanonicalHeaderKey(forwarded)] = slices.Clone(values)
		}
	}
	return s, nil
}

// notBefore is the time that the headers ask for: Not-Before in unix seconds, else Delay, else now.
func notBefore(h http.Header, now time.Time) (time.Time, error) {
	// QStash refuses a delayed callback at insertion (changelog of March 2025).
	if h.Get("Upstash-Callback-Delay") != "" || h.Get("Upstash-Failure-Callback-Delay") != "" {
		return now, badRequest("a callback cannot be delayed")
	}
	due := now
	if raw := h.Get(api.HeaderDelay); raw != "" {
		delay, ok := parseDuration(raw)
		if !ok {
			return now, badRequest("invalid delay")
		}
		due = now.Add(delay)
	}
	if raw := h.Get(api.HeaderNotBefore); raw != "" {
		unix, err := strconv.ParseInt(raw, 10, 64)
		if err != nil || unix < 0 {
			return now, badRequest("invalid notBefore")
		}
		due = time.Unix(unix, 0)
	}
	if due.Sub(now) > maxDelay {
		return now, badRequest("maximum delay of the plan exceeded")
	}
	if due.Before(now) {
		return now, nil
	}
	return due.UTC(), nil
}

var (
	durationForm = regexp.MustCompile(`^([0-9]{1,9}[smhd])+$`)
	durationPart = regexp.MustCompile(`[0-9]+[smhd]`)
)

// parseDuration reads whole numbers of s, m, h and d, such as "8s" or "1d10h30m".
func parseDuration(raw string) (time.Duration, bool) {
	const longest = 100 * 365 * 24 * time.Hour // far beyond every plan, and far from an overflow
	unit := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}
	if !durationForm.MatchString(raw) {
		return 0, false
	}
	var sum time.Duration
	for _, part := range durationPart.FindAllString(raw, -1) {
		last := len(part) - 1
		n, err := strconv.Atoi(part[:last])
		if err != nil || time.Duration(n) > longest/unit[part[last]] {
			return 0, false
		}
		if sum += time.Duration(n) * unit[part[last]]; sum > longest {
			return 0, false
		}
	}
	return sum, true
}
