package twilio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
)

// maxAnswer bounds what is read of an answer about one message. A message of 1600 characters comes back in less than 16 KiB.
const maxAnswer = 64 << 10

// exchange is the one HTTP request of one call. Under twilio-go it takes the place of the transport: it adds the
// caller's context, turns the request to the configured origin, and remembers what twilio-go forgets, which is the
// status and headers of an error and whether the request can have reached Twilio at all.
type exchange struct {
	ctx       context.Context //nolint:containedctx // it lives as long as its call, and twilio-go has no other way in
	origin    *url.URL
	transport http.RoundTripper
	limit     int64 // bytes that are read of the answer

	progress atomic.Int32 // a progress; the transport's hooks may run in its own goroutines
	status   int
	header   http.Header
}

// progress is the stage that a request has reached, as far as it matters for what the other side may have seen.
type progress = int32

const (
	kept       progress = iota // not given to the transport
	given                      // given to a transport that has shown no sign of honouring hooks
	connecting                 // waiting for a connection: nothing can have been written
	connected                  // has a connection: any part may have been written, even after the call has returned
)

// result is the outcome of an exchange that is over.
type result struct {
	unsent bool // certain: no byte of the request left this process
	status int  // 0 without an answer
	header http.Header
}

func (x *exchange) result() result {
	p := x.progress.Load()
	return result{unsent: p == kept || p == connecting, status: x.status, header: x.header}
}

// RoundTrip performs the exchange. The answer is read here, bounded and to its end, because twilio-go leaves the
// body of an error open and so would lose the connection.
func (x *exchange) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := x.ctx.Err(); err != nil {
		return nil, err
	}
	x.progress.Store(given)
	// GotConn and not WroteRequest: the transport writes in its own goroutine, which may go on after a cancelled
	// call has returned. Once there is a connection, it is too late to be certain.
	ctx := httptrace.WithClientTrace(x.ctx, &httptrace.ClientTrace{
		GetConn: func(string) { x.progress.CompareAndSwap(given, connecting) },
		GotConn: func(httptrace.GotConnInfo) { x.progress.Store(connected) },
	})
	req = req.Clone(ctx)
	req.URL.Scheme, req.URL.Host, req.Host = x.origin.Scheme, x.origin.Host, ""
	resp, err := x.transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	x.status, x.header = resp.StatusCode, resp.Header
	body, err := readAll(resp.Body, x.limit)
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

var errTooLong = errors.New("the answer is too long")

func readAll(body io.ReadCloser, limit int64) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(body, limit+1))
	if err == nil && int64(len(content)) > limit {
		err = errTooLong
	}
	if err = errors.Join(err, body.Close()); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	return content, nil
}
