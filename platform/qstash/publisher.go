package qstash

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"paceline.internal/platform/telemetry"
)

// Policy tells QStash how hard to try.
type Policy struct {
	// Retries is the number of attempts after the first, 0 to 20.
	Retries int
	// RetryDelay is QStash's expression for the pause before a retry, in milliseconds, over the variable retried, which is 0 before the
	// first retry.
	RetryDelay string
	// Timeout bounds one attempt, rounded up to the second.
	Timeout time.Duration
}

// The default policy: six attempts, 10, 20, 40, 80 and 160 s apart.
const (
	PolicyRetries    = 5
	PolicyRetryDelay = "10000 * pow(2, retried)"
	// PolicyTimeout is longer than the longest work that is waited for: one call to the carrier and its bookkeeping.
	PolicyTimeout = 30 * time.Second

	// maxRetries is far beyond any sensible policy; QStash refuses more than its plan has.
	maxRetries = 20
)

// DefaultPolicy returns the policy that holds where a caller gives none.
func DefaultPolicy() Policy {
	return Policy{Retries: PolicyRetries, RetryDelay: PolicyRetryDelay, Timeout: PolicyTimeout}
}

func (p Policy) check() error {
	if p.Retries < 0 || p.Retries > maxRetries || strings.TrimSpace(p.RetryDelay) == "" || p.Timeout < time.Second {
		return fmt.Errorf("%w: a policy needs 0 to %d retries, a retry delay, and a timeout of a second or more", ErrInvalid, maxRetries)
	}
	return nil
}

// PublisherConfig holds the settings that every job of a process has in common. Every field but Policy and TracerProvider is required.
type PublisherConfig struct {
	Client *Client
	// Origin is the bare origin that QStash reaches us by.
	Origin string
	// Routes lists the routes that a job may take. One that is not among them is a mistake: we answer nothing there.
	Routes []Route
	// Policy is used for a job that asks for nothing else; the zero value means DefaultPolicy.
	Policy Policy
	// HashKey keys the hash that stands for a deduplication id in logs, spans and deliveries: 32 bytes or more.
	HashKey []byte

	Log *slog.Logger
	Now func() time.Time
	// TracerProvider makes the span of a publish; nil makes none.
	TracerProvider trace.TracerProvider
}

// Publisher is the one way to QStash: retries, deduplication, failure callback, label and telemetry are decided here,
// for every caller. It is safe for concurrent use.
type Publisher struct {
	cfg    PublisherConfig
	tracer trace.Tracer
}

// minHashKey is the size of SHA-256: a shorter key would be the weakest part of the hash.
const minHashKey = 32

// NewPublisher checks the configuration: what is missing or would lead elsewhere stops the process, not the first alarm.
func NewPublisher(cfg PublisherConfig) (*Publisher, error) {
	switch {
	case cfg.Client == nil:
		return nil, errors.New("qstash: the publisher needs a client")
	case cfg.Log == nil || cfg.Now == nil:
		return nil, errors.New("qstash: the publisher needs a log and a clock")
	case cfg.Origin == "":
		return nil, errors.New("qstash: the publisher needs the origin that QStash reaches us by")
	case len(cfg.HashKey) < minHashKey:
		return nil, fmt.Errorf("qstash: the key of the deduplication hash has under %d bytes", minHashKey)
	case len(cfg.Routes) == 0:
		return nil, errors.New("qstash: the publisher needs a route")
	}
	origin, err := parseOrigin(cfg.Origin)
	if err != nil {
		return nil, fmt.Errorf("the publisher's own origin: %w", err)
	}
	if cfg.Policy == (Policy{}) {
		cfg.Policy = DefaultPolicy()
	}
	if cfg.TracerProvider == nil {
		cfg.TracerProvider = noop.NewTracerProvider()
	}
	cfg.Origin, cfg.Routes, cfg.HashKey = origin, slices.Clone(cfg.Routes), slices.Clone(cfg.HashKey)
	err = cfg.Policy.check()
	for _, route := range cfg.Routes {
		err = errors.Join(err, route.check(origin))
	}
	if err != nil {
		return nil, err
	}
	return &Publisher{cfg: cfg, tracer: cfg.TracerProvider.Tracer("paceline.internal/platform/qstash")}, nil
}

// Publish hands a job to QStash. Receipt.Deduplicated says that the operation had been published in the last ten minutes
// and that nothing new was accepted. It returns an error wrapping ErrInvalid, and publishes nothing, for a job that it
// refuses, and an *Error for an answer that is no success.
func (p *Publisher) Publish(ctx context.Context, job Job) (Receipt, error) {
	if job.Policy == (Policy{}) {
		job.Policy = p.cfg.Policy
	}
	if err := p.check(job); err != nil {
		return Receipt{}, err
	}
	hash, delay := job.DedupID.hash(p.cfg.HashKey), max(0, job.Due.Sub(p.cfg.Now()))
	ctx, span := p.tracer.Start(ctx, "qstash.publish", trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(
		attribute.String("qstash.label", job.Route.Label),
		attribute.String("qstash.path", job.Route.Path),
		attribute.Int("qstash.max_retries", job.Policy.Retries),
		attribute.String("qstash.dedup_id", hash),
	))
	defer span.End()
	receipt, err := p.cfg.Client.publish(ctx, p.cfg.Origin+job.Route.Path, p.header(ctx, job, hash, delay), job.Body)
	if err != nil {
		span.SetStatus(codes.Error, failure(err)) // not the text: QStash may quote the id that it refuses
		return Receipt{}, err
	}
	id := attribute.String("qstash.message_id", receipt.MessageID)
	span.SetAttributes(id, attribute.Bool("qstash.deduplicated", receipt.Deduplicated))
	span.AddEvent("qstash.publish.scheduled", trace.WithAttributes(id, attribute.Int64("qstash.delay_ms", delay.Milliseconds())))
	p.cfg.Log.LogAttrs(ctx, slog.LevelInfo, "qstash.publish.scheduled",
		slog.String("label", job.Route.Label), slog.String("path", job.Route.Path),
		slog.String("qstash_message_id", receipt.MessageID), slog.String("dedup_id", hash),
		slog.Bool("deduplicated", receipt.Deduplicated), slog.Int64("delay_ms", delay.Milliseconds()), slog.Int("retries", job.Policy.Retries),
	)
	return receipt, nil
}

func (p *Publisher) check(job Job) error {
	switch {
	case !slices.Contains(p.cfg.Routes, job.Route):
		return fmt.Errorf("%w: the route is none of the publisher's", ErrInvalid)
	case job.DedupID.id == "":
		return fmt.Errorf("%w: the deduplication id is missing", ErrInvalid)
	}
	return job.Policy.check()
}

// dueFormat has the milliseconds that Postgres' microseconds would only make look exact.
const dueFormat = "2006-01-02T15:04:05.000Z07:00"

// header is the job as the headers of a publish request. Its deliveries, and that of its failure, are in the trace of ctx, if there is one.
func (p *Publisher) header(ctx context.Context, job Job, hash string, delay time.Duration) http.Header {
	h := http.Header{}
	set := func(name, value string) {
		if value != "" {
			h.Set(name, value)
		}
	}
	set("Content-Type", "application/json")
	set(HeaderDeduplicationID, job.DedupID.id)
	set(HeaderLabel, job.Route.Label)
	set(HeaderFailureCallback, p.cfg.Origin+job.Route.FailurePath)
	if delay > 0 {
		set(HeaderDelay, wholeSeconds(delay)) // from when QStash accepts
	}
	due := ""
	if !job.Due.IsZero() {
		due = job.Due.UTC().Format(dueFormat)
	}
	// The failure callback is a separate message, with the publisher's own policy: that a job asks for fewer attempts is no reason not to
	// be told that they have failed.
	for prefix, policy := range map[string]Policy{"Upstash-": job.Policy, HeaderFailureCallbackPrefix: p.cfg.Policy} {
		retries := strconv.Itoa(policy.Retries)
		set(prefix+"Retries", retries)
		set(prefix+"Retry-Delay", policy.RetryDelay)
		set(prefix+"Timeout", wholeSeconds(policy.Timeout))
		set(prefix+"Forward-"+HeaderMaxRetries, retries)
		set(prefix+"Forward-"+HeaderDedupHash, hash)
		set(prefix+"Forward-"+HeaderDue, due)
		set(prefix+"Forward-"+telemetry.TraceparentField, telemetry.Traceparent(ctx))
	}
	return h
}

// wholeSeconds rounds up, for QStash knows no less than a second: never early.
func wholeSeconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10) + "s"
}

// failure names the kind of a failed publish.
func failure(err error) string {
	if refused, ok := errors.AsType[*Error](err); ok {
		return "status " + strconv.Itoa(refused.Status)
	}
	if errors.Is(err, errUnreadable) {
		return "unreadable answer"
	}
	return "no answer"
}
