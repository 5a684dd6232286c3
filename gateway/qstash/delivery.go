package qstash

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"paceline.internal/gateway/route"
	"paceline.internal/platform/qstash"
	"paceline.internal/platform/telemetry"
)

// delivery describes one request of QStash: its headers, and then its outcome. It decides nothing but which alarm goes first when many
// wait.
type delivery struct {
	messageID  string            // empty when QStash names none
	attempt    int               // from 1
	maxRetries int               // how many attempts may follow the first
	due        time.Time         // zero when it is not known
	dedupHash  string            // the keyed hash of the deduplication id; empty when it is not known
	published  trace.SpanContext // in the trace of the conversation; invalid when it is not known
	genuine    bool              // known to come from QStash
	body       []byte            // nil unless it is genuine
	duplicate  bool
	sessionID  string
	stepID     string
}

// readDelivery reads the headers that QStash itself sets.
func readDelivery(header http.Header) *delivery {
	return &delivery{
		messageID:  strings.TrimSpace(strings.ToValidUTF8(header.Get(qstash.HeaderMessageID), "")),
		attempt:    attemptOf(header.Get(qstash.HeaderRetried)),
		maxRetries: qstash.PolicyRetries, // for an alarm that was published by hand, or before its publisher said so
	}
}

// verified takes the headers that our publisher forwards, once the request is known to come from QStash. They are not
// covered by the signature, so the format of each is checked.
func (d *delivery) verified(header http.Header) {
	d.genuine = true
	d.published = trace.SpanContextFromContext(telemetry.Propagator().Extract(context.Background(), propagation.HeaderCarrier(header)))
	if n, err := strconv.ParseUint(header.Get(qstash.HeaderMaxRetries), 10, 16); err == nil {
		d.maxRetries = int(n)
	}
	d.due, _ = time.Parse(time.RFC3339, header.Get(qstash.HeaderDue)) // else the zero time
	if hash := header.Get(qstash.HeaderDedupHash); len(hash) == 16 && strings.Trim(hash, "0123456789abcdef") == "" {
		d.dedupHash = hash
	}
}

// final reports whether QStash makes no attempt after this one, with any answer.
func (d *delivery) final() bool { return d.genuine && d.attempt > d.maxRetries }

// describe puts the delivery on the span and on the log line of the request.
func (d *delivery) describe(ctx context.Context, given route.Answer) {
	attrs := []attribute.KeyValue{
		attribute.String("qstash.message_id", route.Clip(d.messageID)),
		attribute.Int("qstash.attempt", d.attempt),
		attribute.Bool("qstash.final_attempt", d.final()),
		attribute.Bool("qstash.dlq", given.Status == qstash.StatusNonRetryable),
		attribute.Bool("qstash.duplicate", d.duplicate),
	}
	if d.genuine {
		attrs = append(attrs, attribute.Int("qstash.max_retries", d.maxRetries), attribute.String("qstash.dedup_id", d.dedupHash))
	}
	trace.SpanFromContext(ctx).SetAttributes(attrs...)
	event := route.EventFrom(ctx)
	event.Add(slog.String("qstash_message_id", route.Clip(d.messageID)), slog.Int("qstash_attempt", d.attempt),
		slog.Bool("qstash_final_attempt", d.final()))
	if d.stepID != "" {
		event.Add(slog.String("session_id", d.sessionID), slog.String("step_id", d.stepID))
	}
}

// reportFinalFailure writes the one line of a delivery that failed for good: there is no attempt after this one, or we forbid it. A
// 489 before the signature was checked counts, because QStash obeys it; verified separates it from a forgery's.
func (d *delivery) reportFinalFailure(ctx context.Context, log *slog.Logger, event string, given route.Answer) {
	if given.Status/100 == 2 || !d.final() && given.Status != qstash.StatusNonRetryable {
		return
	}
	if d.genuine && d.messageID == "" { // the doctor's, which signs as QStash does; QStash names each of its messages
		return
	}
	log.LogAttrs(ctx, slog.LevelError, event, //nolint:sloglint // one of two constants, by the route
		slog.String("session_id", d.sessionID), slog.String("step_id", d.stepID), slog.String("qstash_message_id", route.Clip(d.messageID)),
		slog.String("dedup_id", d.dedupHash), slog.Int("attempt", d.attempt), slog.Int("max_retries", d.maxRetries),
		slog.Int("status", given.Status), slog.String("reason", given.Err.Reason), slog.Bool("verified", d.genuine),
	)
}

// attemptOf returns the number of the attempt, from 1, by the number of retries before it. A retry count that is no number means the first.
func attemptOf(retried string) int {
	n, err := strconv.ParseUint(retried, 10, 31)
	if err != nil {
		return 1
	}
	return int(n) + 1
}

// signatureMark distinguishes two signatures in a log: 8 digits of its SHA-256. A signature itself is never logged, since
// a reader of the log could present it for five minutes.
func signatureMark(signature string) string {
	sum := sha256.Sum256([]byte(signature))
	return hex.EncodeToString(sum[:])[:8]
}
