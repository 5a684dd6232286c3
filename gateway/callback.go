package gateway

import (
	"context"
	"io"
	"maps"
	"net/http"
	"time"

	"google.golang.org/grpc/codes"

	"paceline.internal/platform/config"
	"paceline.internal/platform/rpc"
)

// callback is one route that a vendor calls. Every callback is this one pipeline: the body, its signature, a place, and then the
// work: decode, one RPC, and the answer that makes the vendor do the right thing. T is what the signature
// covers.
type callback[T any] struct {
	timeout time.Duration // of the whole pipeline, less than the vendor waits
	limit   int64         // the most that a body may have
	places  *places
	rank    int // among those that wait for a place; the lower goes first
	// signed reports whether the request brings what could be a signature. Without one the request is refused before its body has arrived.
	signed func(http.Header) bool
	// unread is the answer to a body that cannot be read; nil for the error as it is.
	unread func(status int, why *rpc.Error) answer
	// verify returns what the vendor has signed, or the refusal. Nothing of the body is used before that.
	verify func(r *http.Request, body []byte) (T, *answer)
	// due is when it should have been done, by which those of a rank are ordered that wait; nil for the order in which they came.
	due  func(said T) time.Time
	work func(ctx context.Context, said T) answer
	// answered gets the answer, also after a panic, and what verify returned, the zero value when it was not reached; may be nil.
	answered func(r *http.Request, said T, given answer)
	// backoff leaves the next try to the vendor's own schedule: no answer has a Retry-After, which would replace it.
	backoff bool
}

// serve is the pipeline.
func (c callback[T]) serve(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), c.timeout)
	defer cancel()
	var said T
	given := answer{status: http.StatusInternalServerError, err: public(nil)} // of a panic
	if c.answered != nil {
		defer func() { c.answered(r, said, given) }()
	}
	if given = c.answer(ctx, w, r, &said); c.backoff {
		given = given.withoutRetryAfter()
	}
	given.write(ctx, w)
}

func (c callback[T]) answer(ctx context.Context, w http.ResponseWriter, r *http.Request, said *T) answer {
	if !c.signed(r.Header) {
		r = withoutBody(r, c.limit)
	}
	body, err := readUpTo(w, r, c.limit)
	if err != nil {
		status, why := unreadable(err)
		if c.unread != nil {
			return c.unread(status, why)
		}
		return answer{status: status, err: why}
	}
	var refused *answer
	if *said, refused = c.verify(r, body); refused != nil {
		return *refused
	}
	var due time.Time
	if c.due != nil {
		due = c.due(*said)
	}
	if !c.places.enter(ctx, c.timeout/waitShare, c.rank, due) {
		full := refuse(codes.ResourceExhausted, reasonFull, "too many callbacks are being worked on; come again")
		full.RetryAfter = fullRetryAfter
		return answer{status: http.StatusTooManyRequests, err: full}
	}
	defer c.places.leave()
	return c.work(ctx, *said)
}

// answer is what a vendor gets: a body, or an error.
type answer struct {
	status      int
	contentType string
	body        []byte
	err         *rpc.Error        // instead of the body
	header      map[string]string // in addition to those of every answer
}

func (a answer) write(ctx context.Context, w http.ResponseWriter) {
	for name, value := range a.header {
		w.Header().Set(name, value)
	}
	if a.err != nil {
		writeError(ctx, w, a.status, a.err)
		return
	}
	write(w, a.status, a.contentType, a.body)
}

func (a answer) withoutRetryAfter() answer {
	if a.err != nil {
		e := *a.err
		e.RetryAfter, a.err = 0, &e
	}
	a.header = maps.Clone(a.header)
	delete(a.header, "Retry-After")
	return a
}

// malformed is the answer to a signed request that cannot be decoded.
func malformed(err error) answer {
	return answer{status: http.StatusBadRequest, err: refuse(codes.InvalidArgument, reasonInvalid, err.Error())}
}

// has reports whether a header is present.
func has(name string) func(http.Header) bool {
	return func(header http.Header) bool { return header.Get(name) != "" }
}

// withoutBody is a request that is refused without waiting for its body. One whose Content-Length is too long is refused for
// that.
func withoutBody(r *http.Request, limit int64) *http.Request {
	r = r.Clone(r.Context())
	r.Body = http.NoBody
	if r.ContentLength <= limit {
		r.ContentLength = 0
	}
	return r
}

// maxBody is the most that any request may carry but Shopify's, which has a limit of its own.
const maxBody = 64 << 10

// readUpTo reads the whole body, or fails with *http.MaxBytesError, without reading anything when the length is given. A
// body that is shorter than it should be, because it broke off or was read from before, is an error.
func readUpTo(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err == nil && r.ContentLength > int64(len(body)) {
		return nil, io.ErrUnexpectedEOF
	}
	return body, err
}

// publicURL is the URL that the vendor calls, which signatures are made over.
func publicURL(origin config.Origin, r *http.Request) string {
	url := origin.String() + r.URL.EscapedPath()
	if r.URL.RawQuery != "" {
		url += "?" + r.URL.RawQuery
	}
	return url
}
