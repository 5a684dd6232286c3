package qstash

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
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

// Policy is how hard QStash tries.
type Policy struct {
	// Retries is the number of attempts after the first, 0 to 20.
	Retries int
	// RetryDelay is QStash's expression for the pause before a retry, in milliseconds; see Message.RetryDelay.
	RetryDelay string
	// Timeout bounds one attempt.
	Timeout time.Duration
}

// The policy of ADR-0048: six attempts, 10, 20, 40, 80 and 160 s apart.
const (
	PolicyRetries    = 5
	PolicyRetryDelay = "10000 * pow(2, retried)"
	// PolicyTimeout is longer than the longest work that is waited for: one call to the carrier and its bookkeeping.
	PolicyTimeout = 30 * time.Second

	// maxRetries is far beyond any sensible policy; QStash refuses more than its plan has.
	maxRetries = 20
)

// DefaultPolicy is the policy of ADR-0048.
func DefaultPolicy() Policy {
	return Policy{Retries: PolicyRetries, RetryDelay: PolicyRetryDelay, Timeout: PolicyTimeout}
}

func (p Policy) check() error {
	if p.Retries < 0 || p.Retries > maxRetries || strings.TrimSpace(p.RetryDelay) == "" || p.Timeout < time.Second {
		return fmt.Errorf("%w: a policy needs 0 to %d retries, a retry delay, and a timeout of a second or more", ErrInvalid, maxRetries)
	}
	return nil
}

// PublisherConfig is what every job of a process has in common. Every field but Policy and TracerProvider is required.
type PublisherConfig struct {
	Client *Client
	// Origin is the bare origin that QStash reaches us by.
	Origin string
	// FailurePath is called once when all attempts of a job have failed; see DecodeFailure.
	FailurePath string
	// Labels are those that a job may carry. One that is not among them is a mistake, and would be missed by every filter.
	Labels []string
	// Policy is what a job gets that asks for nothing else; the zero value means DefaultPolicy.
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
	failed string // the URL of FailurePath
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
	case len(cfg.Labels) == 0 || slices.ContainsFunc(cfg.Labels, func(label string) bool { return !plainID(label) }):
		return nil, errors.New("qstash: the publisher needs labels of [A-Za-z0-9._-]")
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
	cfg.Origin, cfg.Labels, cfg.HashKey = origin, slices.Clone(cfg.Labels), slices.Clone(cfg.HashKey)
	failed, err := destination(origin, cfg.FailurePath)
	if err = errors.Join(err, cfg.Policy.check()); err != nil {
		return nil, err
	}
	return &Publisher{cfg: cfg, failed: failed, tracer: cfg.TracerProvider.Tracer("paceline.internal/platform/qstash")}, nil
}

// Publish hands a job to QStash. Receipt.Deduplicated says that the operation had been published in the last ten minutes
// and that nothing new was accepted. It returns an error wrapping ErrInvalid, and publishes nothing, for a job that it
// refuses, and the errors of Client.Publish.
func (p *Publisher) Publish(ctx context.Context, job Job) (Receipt, error) {
	message, err := p.message(job)
	if err != nil {
		return Receipt{}, err
	}
	described := []attribute.KeyValue{
		attribute.String("qstash.label", message.Label),
		attribute.String("qstash.path", job.Path),
		attribute.Int("qstash.max_retries", message.Retries),
		attribute.String("qstash.dedup_id", message.ForwardHeaders[HeaderDedupHash]),
	}
	ctx, span := p.tracer.Start(ctx, "qstash.publish", trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(described...))
	defer span.End()
	message.trace(ctx)
	receipt, err := p.cfg.Client.Publish(ctx, message)
	if err != nil {
		span.SetStatus(codes.Error, failure(err)) // not the text: QStash may quote the id that it refuses
		return Receipt{}, err
	}
	p.report(ctx, span, message, receipt)
	return receipt, nil
}

// message is the job under the policy.
func (p *Publisher) message(job Job) (Message, error) {
	if !slices.Contains(p.cfg.Labels, job.Label) {
		return Message{}, fmt.Errorf("%w: the label is none of %s", ErrInvalid, strings.Join(p.cfg.Labels, ", "))
	}
	if job.DedupID.id == "" {
		return Message{}, fmt.Errorf("%w: the deduplication id is missing", ErrInvalid)
	}
	target, err := destination(p.cfg.Origin, job.Path)
	if err != nil {
		return Message{}, err
	}
	policy := p.policyOf(job)
	if err := policy.check(); err != nil {
		return Message{}, err
	}
	described := map[string]string{
		HeaderMaxRetries: strconv.Itoa(policy.Retries), HeaderDedupHash: job.DedupID.hash(p.cfg.HashKey),
	}
	if !job.Due.IsZero() {
		described[HeaderDue] = job.Due.UTC().Format(dueFormat)
	}
	return Message{
		Destination: target, Body: job.Body, ContentType: "application/json", Delay: max(0, job.Due.Sub(p.cfg.Now())),
		Retries: policy.Retries, RetryDelay: policy.RetryDelay, Timeout: policy.Timeout,
		DeduplicationID: job.DedupID.id, Label: job.Label, ForwardHeaders: described,
		FailureCallback: p.failed, FailureCallbackHeaders: p.callbackHeaders(described),
	}, nil
}

// dueFormat has the milliseconds that Postgres' microseconds would only make look exact.
const dueFormat = "2006-01-02T15:04:05.000Z07:00"

// trace has the deliveries of the message, and that of its failure, in the trace of ctx, if there is one.
func (m Message) trace(ctx context.Context) {
	if parent := telemetry.Traceparent(ctx); parent != "" {
		m.ForwardHeaders[telemetry.TraceparentField] = parent
		m.FailureCallbackHeaders["Forward-"+telemetry.TraceparentField] = parent
	}
}

// callbackHeaders give the failure callback the publisher's own policy: that a job asks for fewer attempts is no reason
// not to be told that they have failed.
func (p *Publisher) callbackHeaders(described map[string]string) map[string]string {
	own := p.cfg.Policy
	headers := map[string]string{
		"Retries": strconv.Itoa(own.Retries), "Retry-Delay": own.RetryDelay, "Timeout": wholeSeconds(own.Timeout),
	}
	described = maps.Clone(described)
	described[HeaderMaxRetries] = strconv.Itoa(own.Retries)
	for name, value := range described {
		headers["Forward-"+name] = value
	}
	return headers
}

func (p *Publisher) policyOf(job Job) Policy {
	policy := p.cfg.Policy
	if job.Retries != nil {
		policy.Retries = *job.Retries
	}
	if job.RetryDelay != "" {
		policy.RetryDelay = job.RetryDelay
	}
	if job.Timeout != 0 {
		policy.Timeout = job.Timeout
	}
	return policy
}

// report tells of a publish that QStash has taken: on the span, and in one line.
func (p *Publisher) report(ctx context.Context, span trace.Span, m Message, receipt Receipt) {
	span.SetAttributes(
		attribute.String("qstash.message_id", receipt.MessageID),
		attribute.Bool("qstash.deduplicated", receipt.Deduplicated),
	)
	span.AddEvent("qstash.publish.scheduled", trace.WithAttributes(
		attribute.String("qstash.message_id", receipt.MessageID),
		attribute.Int64("qstash.delay_ms", m.Delay.Milliseconds()),
	))
	p.cfg.Log.LogAttrs(ctx, slog.LevelInfo, "qstash.publish.scheduled",
		slog.String("label", m.Label), slog.String("path", strings.TrimPrefix(m.Destination, p.cfg.Origin)),
		slog.String("qstash_message_id", receipt.MessageID), slog.String("dedup_id", m.ForwardHeaders[HeaderDedupHash]),
		slog.Bool("deduplicated", receipt.Deduplicated), slog.Int64("delay_ms", m.Delay.Milliseconds()), slog.Int("retries", m.Retries),
	)
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
