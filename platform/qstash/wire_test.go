package qstash_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httputil"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"paceline.internal/platform/qstash"
)

// published is one alarm on the wire. QStash, the emulator and the deliveries that are under way during an upgrade go by it.
const published = `POST /v2/publish/https://paceline.example/api/onboarding/step HTTP/1.1
Host: qstash.upstash.io
User-Agent: Go-http-client/1.1
Content-Length: 2
Authorization: Bearer secret-token
Content-Type: application/json
Upstash-Deduplication-Id: onboarding-01900000-0000-7000-8000-0000000000b1-onboarding_message_2-1
Upstash-Delay: 8s
Upstash-Failure-Callback: https://paceline.example/api/onboarding/step/failed
Upstash-Failure-Callback-Forward-Paceline-Dedup-Hash: HASH
Upstash-Failure-Callback-Forward-Paceline-Due: 2026-03-04T12:00:07.001Z
Upstash-Failure-Callback-Forward-Paceline-Max-Retries: 5
Upstash-Failure-Callback-Forward-Traceparent: 00-0a000000000000000000000000000000-0b00000000000000-01
Upstash-Failure-Callback-Retries: 5
Upstash-Failure-Callback-Retry-Delay: 10000 * pow(2, retried)
Upstash-Failure-Callback-Timeout: 30s
Upstash-Forward-Paceline-Dedup-Hash: HASH
Upstash-Forward-Paceline-Due: 2026-03-04T12:00:07.001Z
Upstash-Forward-Paceline-Max-Retries: 5
Upstash-Forward-Traceparent: 00-0a000000000000000000000000000000-0b00000000000000-01
Upstash-Label: onboarding-step
Upstash-Retries: 5
Upstash-Retry-Delay: 10000 * pow(2, retried)
Upstash-Timeout: 30s
Accept-Encoding: gzip

{}`

type carriedBy func(*http.Request) (*http.Response, error)

func (f carriedBy) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answered() *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(`{"messageId":"msg_1"}`))}
}

func TestPublishedRequest(t *testing.T) {
	t.Parallel()
	var dumped []byte
	client, err := qstash.New(qstash.Config{Token: token, HTTPClient: &http.Client{Transport: carriedBy(func(r *http.Request) (*http.Response, error) {
		var err error
		dumped, err = httputil.DumpRequestOut(r, true)
		return answered(), err
	})}})
	require.NoError(t, err)
	publisher, err := qstash.NewPublisher(publisherConfig(client))
	require.NoError(t, err)
	ctx := trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{10}, SpanID: trace.SpanID{11}, TraceFlags: trace.FlagsSampled,
	}))
	j := job(t)
	j.Due = j.Due.Add(time.Millisecond - time.Second) // the delay is rounded up
	_, err = publisher.Publish(ctx, j)
	require.NoError(t, err)
	require.Equal(t, strings.ReplaceAll(published, "HASH", hashed()), strings.ReplaceAll(string(dumped), "\r\n", "\n"))
}
