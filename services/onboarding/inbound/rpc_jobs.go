package inbound

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/audit"
	"paceline.internal/platform/queue"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/request"
)

// JobsRPC serves WebhookJobService.
type JobsRPC struct {
	onboardingv1.UnimplementedWebhookJobServiceServer

	OrgID   string // of events that a service brings without their organisation
	Inbound *Service
	Store   *Store
	Notify  func() // notifies the loops of a job that was stored or is due again
	Now     func() time.Time
}

// sources of events.
var sources = []string{
	conversation.SourceTwilio, conversation.SourceKapso, conversation.SourceShopify, conversation.SourceInternal,
}

// statuses that jobs can be listed by.
var statuses = []string{
	queue.StatusPending, queue.StatusProcessing, queue.StatusCompleted, queue.StatusFailed, queue.StatusCancelled,
}

const (
	maxJobKey      = 255     // as index entries go, far below what Postgres takes
	maxJobPayload  = 2 << 20 // beyond the largest that the gateway takes, 1 MiB of Shopify, when it is written out
	maxJobAttempts = 25
	maxJobDelay    = 366 * 24 * time.Hour
)

// EnqueueWebhookJob stores an event.
func (s *JobsRPC) EnqueueWebhookJob(
	ctx context.Context, in *onboardingv1.EnqueueWebhookJobRequest,
) (*onboardingv1.EnqueueWebhookJobResponse, error) {
	job, err := s.newJob(ctx, in)
	if err != nil {
		return nil, err
	}
	stored, err := s.Inbound.Store.Enqueue(ctx, job)
	if err != nil {
		return nil, err
	}
	if !stored.Duplicate {
		s.Notify()
	}
	if job.EventType == conversation.EventWhatsApp { // of a duplicate, too: it makes good what failed the first time
		came := queue.Job{OrgID: job.OrgID, EventType: job.EventType, Payload: job.Payload, CreatedAt: stored.CreatedAt}
		if err := s.Inbound.Apply(ctx, came); err != nil {
			return nil, err
		}
	}
	return &onboardingv1.EnqueueWebhookJobResponse{
		JobId: stored.ID, Duplicate: stored.Duplicate, CreatedAt: timestamppb.New(stored.CreatedAt),
	}, nil
}

func (s *JobsRPC) newJob(ctx context.Context, in *onboardingv1.EnqueueWebhookJobRequest) (queue.New, error) {
	var none queue.New
	if !slices.Contains(sources, in.GetSource()) {
		return none, request.Invalid("source must be twilio, kapso, shopify or internal")
	}
	if err := cmp.Or(
		visible("event_type", in.GetEventType(), 1),
		visible("idempotency_key", in.GetIdempotencyKey(), 1),
		visible("subject", in.GetSubject(), 0),
	); err != nil {
		return none, err
	}
	if n := in.GetMaxAttempts(); n < 0 || n > maxJobAttempts {
		return none, request.Invalid("max_attempts must be 0 to %d", maxJobAttempts)
	}
	if err := credible(ctx, in); err != nil {
		return none, err
	}
	orgID, err := s.owner(ctx, in.GetOrgId())
	if err != nil {
		return none, err
	}
	payload, err := event(in)
	if err != nil {
		return none, err
	}
	now := s.Now()
	due, err := dueAt(in, now)
	if err != nil {
		return none, err
	}
	if in.GetSubject() != "" && due.After(now) { // it would hold up whatever is behind it
		return none, request.Invalid("a job with a subject keeps its order and cannot be put off: leave out subject, or at and delay")
	}
	job := conversation.NewJob(orgID, in.GetSource(), in.GetEventType(), in.GetIdempotencyKey(), in.GetSubject(), payload, now)
	job.DueAt, job.MaxAttempts = due, int(in.GetMaxAttempts())
	return job, nil
}

// othersKey are the keys of the vendors' events and of the jobs that this service stores itself. Keys are unique in an organisation,
// whatever the source, so an operator's job under one of them would keep a message of a person out of the queue.
var othersKey = regexp.MustCompile(`^(?:kapso|shopify|twilio|opening:|opened:|waits:|waited:|held:|resumed:|(?:SM|MM)[0-9a-fA-F]{32}$)`)

// credible refuses an event that only its vendor or this service itself can report: what Kapso or Twilio says is believed because
// the gateway has checked the signature, and a message of a person may change their consent.
func credible(ctx context.Context, in *onboardingv1.EnqueueWebhookJobRequest) error {
	caller, _ := rpc.PrincipalFrom(ctx)
	internal := in.GetSource() == conversation.SourceInternal && strings.HasPrefix(in.GetEventType(), conversation.SourceInternal+".")
	key := in.GetIdempotencyKey()
	switch {
	case caller.Role == rpc.RoleService:
		vendor := in.GetSource()
		if vendor != conversation.SourceInternal && vendor != conversation.SourceTwilio && !strings.HasPrefix(key, vendor) {
			return request.Invalid("the idempotency_key of an event of %s must begin with %s", vendor, vendor)
		}
	case !internal:
		return request.Invalid("an operator may enqueue the source internal, with an event_type that begins with internal.")
	case othersKey.MatchString(key):
		return request.Invalid("idempotency_key looks like the key of a vendor's event or of a job of our own: put internal: in front of it")
	}
	return nil
}

// visible refuses what is no name: too long, too short, or with characters that cannot be seen.
func visible(field, value string, least int) error {
	foreign := strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r > '~' })
	if len(value) < least || len(value) > maxJobKey || foreign {
		return request.Invalid("%s must be %d to %d visible ASCII characters", field, least, maxJobKey)
	}
	return nil
}

// owner returns the organisation of an event. Only a service may name it.
func (s *JobsRPC) owner(ctx context.Context, named string) (string, error) {
	if named != "" {
		if err := request.ID("org_id", named); err != nil {
			return "", err
		}
	}
	caller, _ := rpc.PrincipalFrom(ctx)
	if caller.Role == rpc.RoleService {
		return cmp.Or(named, s.OrgID), nil
	}
	if named != "" && named != caller.OrgID {
		return "", request.ErrNotTheirs
	}
	return caller.OrgID, nil
}

// event is the payload, which is a JSON object however it comes.
func event(in *onboardingv1.EnqueueWebhookJobRequest) (json.RawMessage, error) {
	var payload []byte
	switch e := in.GetEvent().(type) {
	case *onboardingv1.EnqueueWebhookJobRequest_Payload:
		var err error
		if payload, err = e.Payload.MarshalJSON(); err != nil {
			return nil, request.Invalid("payload must be a JSON object")
		}
	case *onboardingv1.EnqueueWebhookJobRequest_PayloadJson:
		payload = e.PayloadJson
	default:
		return nil, request.Invalid("payload or payload_json must be set")
	}
	if len(payload) > maxJobPayload {
		return nil, request.Invalid("the payload must have at most %d bytes", maxJobPayload)
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(payload, &object); err != nil || object == nil {
		return nil, request.Invalid("the payload must be a JSON object")
	}
	return payload, nil
}

func dueAt(in *onboardingv1.EnqueueWebhookJobRequest, now time.Time) (time.Time, error) {
	due := now
	switch {
	case in.GetAt() != nil && in.GetDelay() != nil:
		return due, request.Invalid("at and delay exclude each other")
	case in.GetAt() != nil && request.Time("at", in.GetAt()) != nil, in.GetDelay() != nil && !in.GetDelay().IsValid():
		return due, request.Invalid("at or delay is out of range")
	case in.GetAt() != nil:
		due = in.GetAt().AsTime()
	case in.GetDelay() != nil:
		due = now.Add(in.GetDelay().AsDuration())
	}
	if due.Before(now) {
		due = now // what should have been done already is done now, in the order in which it came
	}
	if due.Sub(now) > maxJobDelay {
		return due, request.Invalid("a job may be due at most a year from now")
	}
	return due, nil
}

// ListWebhookJobs lists jobs of the caller's organisation.
func (s *JobsRPC) ListWebhookJobs(
	ctx context.Context, in *onboardingv1.ListWebhookJobsRequest,
) (*onboardingv1.ListWebhookJobsResponse, error) {
	if in.GetStatus() != "" && !slices.Contains(statuses, in.GetStatus()) {
		return nil, request.Invalid("status must be pending, processing, completed, failed or cancelled")
	}
	if err := visible("event_type", in.GetEventType(), 0); err != nil {
		return nil, err
	}
	wanted, before, err := request.Page(in)
	if err != nil {
		return nil, err
	}
	found, err := s.Store.jobs.List(ctx, queue.Filter{
		OrgID: request.Org(ctx), Status: in.GetStatus(), EventType: in.GetEventType(), Before: before,
		Limit: wanted + 1, // one more shows whether there is a next page
	})
	if err != nil {
		return nil, err
	}
	out := &onboardingv1.ListWebhookJobsResponse{}
	if len(found) > wanted {
		found = found[:wanted]
		out.NextPageToken = rpc.NextPage(in, found[wanted-1].ID)
	}
	for _, r := range found {
		out.Jobs = append(out.Jobs, webhookJob(r))
	}
	return out, nil
}

// GetWebhookJob reads one job with its payload.
func (s *JobsRPC) GetWebhookJob(
	ctx context.Context, in *onboardingv1.GetWebhookJobRequest,
) (*onboardingv1.GetWebhookJobResponse, error) {
	if err := request.ID("job_id", in.GetJobId()); err != nil {
		return nil, err
	}
	r, err := s.Store.jobs.Get(ctx, request.Org(ctx), in.GetJobId())
	if err != nil {
		return nil, answerJob(err)
	}
	out := webhookJob(r)
	out.Payload = &structpb.Struct{}
	if err := out.GetPayload().UnmarshalJSON(r.Payload); err != nil {
		return nil, err // every payload is an object: this one was stored past this service
	}
	return &onboardingv1.GetWebhookJobResponse{Job: out}, nil
}

// RetryWebhookJob makes a failed job due again.
func (s *JobsRPC) RetryWebhookJob(
	ctx context.Context, in *onboardingv1.RetryWebhookJobRequest,
) (*onboardingv1.RetryWebhookJobResponse, error) {
	if err := request.ID("job_id", in.GetJobId()); err != nil {
		return nil, err
	}
	r, err := s.Store.RetryJob(ctx, request.Org(ctx), in.GetJobId(), s.Now())
	if err != nil {
		return nil, answerJob(err)
	}
	s.Notify()
	return &onboardingv1.RetryWebhookJobResponse{Job: webhookJob(r)}, nil
}

// CancelWebhookJob ends a pending or a failed job.
func (s *JobsRPC) CancelWebhookJob(
	ctx context.Context, in *onboardingv1.CancelWebhookJobRequest,
) (*onboardingv1.CancelWebhookJobResponse, error) {
	if err := request.ID("job_id", in.GetJobId()); err != nil {
		return nil, err
	}
	r, err := s.Inbound.Cancel(ctx, request.Org(ctx), in.GetJobId())
	if err != nil {
		return nil, answerJob(err)
	}
	s.Notify() // another job of its subject may have waited for this one
	return &onboardingv1.CancelWebhookJobResponse{Job: webhookJob(r)}, nil
}

// answerJob translates the errors of what an operator asks about a job.
func answerJob(err error) error {
	if status, ok := errors.AsType[*queue.StatusError](err); ok {
		return request.Refuse(codes.FailedPrecondition, onboardingv1.Reason_REASON_WEBHOOK_JOB_STATUS, status.Error(), 0)
	}
	return err
}

func webhookJob(r queue.Row) *onboardingv1.WebhookJob {
	return &onboardingv1.WebhookJob{
		JobId: r.ID, IdempotencyKey: r.Key, Source: r.Extra[0], EventType: r.EventType, Subject: r.Subject,
		Status: r.Status, Attempts: int32(r.Attempts), MaxAttempts: int32(r.MaxAttempts), //nolint:gosec // both are integers of Postgres
		DueAt:       request.StampOf(r.DueAt),
		ProcessedAt: request.StampOf(r.ProcessedAt), ErrorMessage: r.ErrorMessage, CreatedAt: timestamppb.New(r.CreatedAt),
		UpdatedAt: timestamppb.New(r.UpdatedAt), Actor: audit.Read(r.Actor),
	}
}
