package route

import (
	"context"
	"maps"
	"net/http"
	"time"

	"google.golang.org/grpc/codes"

	"paceline.internal/platform/config"
	"paceline.internal/platform/rpc"
)

// Callback is one route that a vendor calls. Every callback is this one pipeline: the body, its signature, the limiter, and then the
// work: decode, one RPC, and the answer that makes the vendor do the right thing. T holds the parts that the signature covers.
type Callback[T any] struct {
	Timeout  time.Duration // of the whole pipeline, less than the vendor waits
	Limit    int64         // the most bytes that a body may have
	Limiter  *Limiter
	Priority int // among those that wait in the limiter; the lower goes first
	// Signed reports whether the request brings a possible signature. Without one the request is refused before its body has arrived.
	Signed func(http.Header) bool
	// Unread answers a body that cannot be read; nil answers with the error as it is.
	Unread func(status int, why *rpc.Error) Answer
	// Verify returns the parts that the vendor has signed, or the refusal. Nothing of the body is used before that.
	Verify func(r *http.Request, body []byte) (T, *Answer)
	// Due returns the time that orders those of one priority in the limiter; nil leaves them in the order in which they came.
	Due  func(signed T) time.Time
	Work func(ctx context.Context, signed T) Answer
	// Answered gets the answer, also after a panic, and the value of Verify, zero when that was not reached; may be nil.
	Answered func(r *http.Request, signed T, given Answer)
	// Backoff leaves the next try to the vendor's own schedule: no answer has a Retry-After, which would replace it.
	Backoff bool
}

// Serve runs the pipeline.
func (c Callback[T]) Serve(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), c.Timeout)
	defer cancel()
	var signed T
	given := Answer{Status: http.StatusInternalServerError, Err: Public(nil)} // of a panic
	if c.Answered != nil {
		defer func() { c.Answered(r, signed, given) }()
	}
	if given = c.answer(ctx, w, r, &signed); c.Backoff {
		given = given.withoutRetryAfter()
	}
	given.Write(ctx, w)
}

func (c Callback[T]) answer(ctx context.Context, w http.ResponseWriter, r *http.Request, signed *T) Answer {
	if !c.Signed(r.Header) {
		r = withoutBody(r, c.Limit)
	}
	body, err := ReadUpTo(w, r, c.Limit)
	if err != nil {
		status, why := Unreadable(err)
		if c.Unread != nil {
			return c.Unread(status, why)
		}
		return Answer{Status: status, Err: why}
	}
	var refused *Answer
	if *signed, refused = c.Verify(r, body); refused != nil {
		return *refused
	}
	var due time.Time
	if c.Due != nil {
		due = c.Due(*signed)
	}
	if !c.Limiter.Acquire(ctx, c.Timeout/waitShare, c.Priority, due) {
		full := Refuse(codes.ResourceExhausted, ReasonFull, "too many callbacks in flight; retry later")
		full.RetryAfter = FullRetryAfter
		return Answer{Status: http.StatusTooManyRequests, Err: full}
	}
	defer c.Limiter.Release()
	return c.Work(ctx, *signed)
}

// Answer is the answer to a vendor: a body, or an error.
type Answer struct {
	Status      int
	ContentType string
	Body        []byte
	Err         *rpc.Error        // instead of the body
	Header      map[string]string // in addition to those of every answer
}

// Write sends the answer.
func (a Answer) Write(ctx context.Context, w http.ResponseWriter) {
	for name, value := range a.Header {
		w.Header().Set(name, value)
	}
	if a.Err != nil {
		WriteError(ctx, w, a.Status, a.Err)
		return
	}
	Write(w, a.Status, a.ContentType, a.Body)
}

func (a Answer) withoutRetryAfter() Answer {
	if a.Err != nil {
		e := *a.Err
		e.RetryAfter, a.Err = 0, &e
	}
	a.Header = maps.Clone(a.Header)
	delete(a.Header, "Retry-After")
	return a
}

// Malformed answers a signed request that cannot be decoded.
func Malformed(err error) Answer {
	return Answer{Status: http.StatusBadRequest, Err: Refuse(codes.InvalidArgument, ReasonInvalid, err.Error())}
}

// Failed answers a vendor after a call that failed: 503 where the same call can succeed a little later, else 500.
func Failed(err error) Answer {
	a := Answer{Status: http.StatusInternalServerError, Err: Public(err)}
	if Transient(a.Err.Code) {
		a.Status = http.StatusServiceUnavailable
	}
	return a
}

// Has reports whether a header is present.
func Has(name string) func(http.Header) bool {
	return func(header http.Header) bool { return header.Get(name) != "" }
}

// PublicURL returns the URL that the vendor calls, which signatures are made over.
func PublicURL(origin config.Origin, r *http.Request) string {
	url := origin.String() + r.URL.EscapedPath()
	if r.URL.RawQuery != "" {
		url += "?" + r.URL.RawQuery
	}
	return url
}
