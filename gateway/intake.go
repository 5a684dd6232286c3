package gateway

import (
	"net/http"
	"time"

	"google.golang.org/grpc/codes"
)

// maxCallbacks is how many callbacks of one vendor are worked on at once: far more than a healthy upstream ever holds up,
// and at most 64 MiB of bodies. It is per vendor, so that a storm of alarms never keeps a STOP out.
const maxCallbacks = 1024

// intakePause is when a vendor that was turned away may come again.
const intakePause = 2 * time.Second

// has reports whether a header is there.
func has(name string) func(http.Header) bool {
	return func(header http.Header) bool { return header.Get(name) != "" }
}

// unread is a request whose body is not waited for: it is refused without. One that says itself that it is too long is refused for that.
func unread(r *http.Request, limit int64) *http.Request {
	r = r.Clone(r.Context())
	r.Body = http.NoBody
	if r.ContentLength <= limit {
		r.ContentLength = 0
	}
	return r
}

// intake bounds the callbacks of one vendor. A place is taken before the body is read, and there is no queue: one would
// only hold connections until their callers have given up, while both vendors keep what was refused and bring it again.
type intake chan struct{}

func newIntake() intake { return make(intake, maxCallbacks) }

// bounded serves while there is a place, and answers 429 when there is none. What has no signature at all gets none: whoever posts it
// slowly would keep the vendor out.
func (in intake) bounded(signed func(http.Header) bool, limit int64, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !signed(r.Header) {
			next(w, unread(r, limit))
			return
		}
		select {
		case in <- struct{}{}:
			defer func() { <-in }()
			next(w, r)
		default:
			full := refuse(codes.ResourceExhausted, reasonFull, "too many callbacks are being worked on; come again")
			full.RetryAfter = intakePause
			writeError(r.Context(), w, http.StatusTooManyRequests, full)
		}
	}
}
