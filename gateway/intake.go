package gateway

import (
	"net/http"
	"time"

	"google.golang.org/grpc/codes"

	"paceline.internal/platform/rpc"
)

// maxCallbacks is how many callbacks of one vendor are worked on at once: far more than a healthy upstream ever holds up,
// and at most 64 MiB of bodies. It is per vendor, so that a storm of alarms never keeps a STOP out.
const maxCallbacks = 1024

// intakePause is when a vendor that was turned away may come again.
const intakePause = 2 * time.Second

// intake bounds the callbacks of one vendor. A place is taken once the body is there and its signature was found to be the
// vendor's, so that nobody else can take one. There is no queue: one would only hold connections until their callers have given
// up, while the vendors keep what was refused and bring it again.
type intake chan struct{}

func newIntake() intake { return make(intake, maxCallbacks) }

// enter takes a place, which leave gives back. When there is none, full is the answer.
func (in intake) enter() (leave func(), full *rpc.Error) {
	select {
	case in <- struct{}{}:
		return func() { <-in }, nil
	default:
		full = refuse(codes.ResourceExhausted, reasonFull, "too many callbacks are being worked on; come again")
		full.RetryAfter = intakePause
		return nil, full
	}
}

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

// claimed hands on the body of a request that brings what could be a signature. Without one the answer is known before the body
// is there.
func claimed(signed func(http.Header) bool, limit int64, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !signed(r.Header) {
			r = unread(r, limit)
		}
		next(w, r)
	}
}
