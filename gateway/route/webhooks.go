package route

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

const (
	// PathWebhooks comes before the name of a source.
	PathWebhooks = "/api/webhooks/"
	// WebhookTimeout is under the five seconds that Shopify waits for an answer, so that it gets our 503 and retries; Kapso
	// waits ten. (shopify.dev, HTTPS delivery; docs.kapso.ai, Webhooks overview.)
	WebhookTimeout = 4 * time.Second
)

// ReasonSourceOff is the reason of a webhook that is not configured.
const ReasonSourceOff = "REASON_SOURCE_NOT_CONFIGURED"

// Results of one event, in the answer to a webhook.
const (
	ResultProcessed    = "processed"     // stored; its handler runs later
	ResultDuplicate    = "duplicate"     // had been stored before; nothing is done twice
	ResultIgnored      = "ignored"       // nothing to do: an echo of a message from our side, or an old message of an import
	ResultUnknownPhone = "unknown_phone" // for a number that is not ours, or from a person without a number
	ResultUnknownShop  = "unknown_shop"  // of a shop that is not ours
)

// Webhook is one event of a vendor as a service takes it, or the reason for not passing it on.
type Webhook struct {
	EventType string // such as kapso.message.received
	OrgID     string // empty for that of DEFAULT_ORG_ID
	// Request is a *ReceiveMessageRequest for a person's message, a *RecordStatusRequest for a receipt of one of our messages, and
	// an *EnqueueWebhookJobRequest for everything else; nil when Result says why there is none.
	Request proto.Message
	Result  string
}

// Source is one vendor: how it signs, and how its events are read.
type Source struct {
	Name    string
	Keys    Keys  // none: the vendor is not used, and its route is not found
	Limit   int64 // the most bytes that a body may have
	Limiter *Limiter
	// Signature is the header with the MAC of the body, and MAC decodes it.
	Signature string
	MAC       func(text string) ([]byte, error)
	// Read decodes a body that the vendor has signed. The headers are not covered by the signature.
	Read func(http.Header, []byte) ([]Webhook, error)
}

// Webhooks answers the vendors that send messages, receipts and jobs. An event that names no organisation is of DEFAULT_ORG_ID, which
// onboarding knows.
type Webhooks struct {
	Onboarding onboardingv1.OnboardingServiceClient
	Messaging  messagingv1.MessagingServiceClient
	Jobs       onboardingv1.WebhookJobServiceClient
	// DefaultOrgID decides which secrets may sign an event that names no organisation.
	DefaultOrgID string
}

// answered is one event in the answer.
type answered struct {
	Event  string `json:"event"`
	Result string `json:"result"`
	JobID  string `json:"job_id,omitempty"`
}

// accepted is the answer: one result for all events together, and one for each.
type accepted struct {
	Status  string     `json:"status"`
	Results []answered `json:"results"`
}

// posted holds a signed body, the keys that signed it, and the headers, which are not signed.
type posted struct {
	header  http.Header
	body    []byte
	signers Keys
}

// Of answers one vendor: 404 when it has no secret, 413 for a body over its limit, 401 unless the raw bytes are signed with a secret
// that may sign for the organisation of each event, 429 when too many are in flight, 400 when they cannot be read, 503 when they cannot
// be stored now, and 202 once every event is stored. Both vendors send again after any other answer than a 2xx, and a repeat of a
// stored event changes nothing.
func (h Webhooks) Of(s Source) http.HandlerFunc {
	if len(s.Keys) == 0 {
		return func(w http.ResponseWriter, r *http.Request) {
			WriteError(r.Context(), w, http.StatusNotFound, Refuse(codes.NotFound, ReasonSourceOff, "this source is not configured here"))
		}
	}
	return Callback[posted]{
		Timeout: WebhookTimeout, Limit: s.Limit, Limiter: s.Limiter,
		Signed: func(header http.Header) bool {
			_, err := s.mac(header)
			return err == nil
		},
		Verify: s.verify,
		Work: func(ctx context.Context, p posted) Answer {
			hooks, err := s.Read(p.header, p.body)
			if err != nil {
				return Malformed(err)
			}
			for _, hook := range hooks {
				if hook.Request != nil && !p.signers.signFor(cmp.Or(hook.OrgID, h.DefaultOrgID)) {
					return *s.unsigned(ctx, "the secret is of another organisation")
				}
			}
			return h.pass(ctx, hooks)
		},
	}.Serve
}

func (s Source) mac(header http.Header) ([]byte, error) {
	text := header.Get(s.Signature)
	if text == "" {
		return nil, errors.New("the signature is missing")
	}
	mac, err := s.MAC(text)
	if err != nil {
		return nil, errors.New("the signature cannot be decoded")
	}
	return mac, nil
}

// verify refuses a body that the vendor has not signed.
func (s Source) verify(r *http.Request, body []byte) (posted, *Answer) {
	mac, err := s.mac(r.Header)
	if err != nil {
		return posted{}, s.unsigned(r.Context(), err.Error())
	}
	signers := s.Keys.signers(body, mac)
	if len(signers) == 0 {
		return posted{}, s.unsigned(r.Context(), "the signature is invalid")
	}
	return posted{header: r.Header, body: body, signers: signers}, nil
}

func (s Source) unsigned(ctx context.Context, cause string) *Answer {
	EventFrom(ctx).Add(slog.String("cause", cause))
	return &Answer{Status: http.StatusUnauthorized, Err: Refuse(codes.Unauthenticated, ReasonUnauthenticated,
		"this is not signed by "+s.Name+" with our secret")}
}

// pass hands the events on one after the other, in the vendor's order. It stops at the first that cannot be stored: the vendor
// repeats the whole delivery, and those before are then duplicates.
func (h Webhooks) pass(ctx context.Context, hooks []Webhook) Answer {
	given := accepted{Results: make([]answered, 0, len(hooks))}
	for _, hook := range hooks {
		one := answered{Event: hook.EventType, Result: hook.Result}
		if hook.Request != nil {
			duplicate, jobID, err := h.call(ctx, hook.Request)
			if err != nil {
				EventFrom(ctx).Add(slog.String("event_type", hook.EventType))
				return notStored(ctx, err)
			}
			if one.Result, one.JobID = ResultProcessed, jobID; duplicate {
				one.Result = ResultDuplicate
			}
		}
		given.Results = append(given.Results, one)
	}
	given.Status = given.word()
	given.describe(ctx)
	body, err := json.Marshal(given)
	if err != nil { // cannot happen: our strings only
		return Failed(err)
	}
	return Answer{Status: http.StatusAccepted, ContentType: "application/json", Body: body}
}

// call makes the one RPC of an event.
func (h Webhooks) call(ctx context.Context, request proto.Message) (duplicate bool, jobID string, err error) {
	switch in := request.(type) {
	case *onboardingv1.ReceiveMessageRequest:
		received, err := h.Onboarding.ReceiveMessage(ctx, in)
		return received.GetDuplicate(), received.GetJobId(), err
	case *messagingv1.RecordStatusRequest:
		_, err := h.Messaging.RecordStatus(ctx, in)
		return false, "", err
	case *onboardingv1.EnqueueWebhookJobRequest:
		kept, err := h.Jobs.EnqueueWebhookJob(ctx, in)
		return kept.GetDuplicate(), kept.GetJobId(), err
	default:
		return false, "", fmt.Errorf("no service takes a %T", in)
	}
}

// word returns the result that all events share, else processed.
func (a accepted) word() string {
	if len(a.Results) > 0 && !slices.ContainsFunc(a.Results, func(one answered) bool { return one.Result != a.Results[0].Result }) {
		return a.Results[0].Result
	}
	return ResultProcessed
}

// describe puts the events on the line of the request. A message's id is not there: WhatsApp's holds the phone number.
func (a accepted) describe(ctx context.Context) {
	counts := map[string]int{}
	for _, one := range a.Results {
		counts[one.Result]++
	}
	event := EventFrom(ctx)
	event.Add(slog.String("result", a.Status), slog.Int("events", len(a.Results)))
	for _, result := range []string{ResultDuplicate, ResultIgnored, ResultUnknownPhone, ResultUnknownShop} {
		if counts[result] > 0 {
			event.Add(slog.Int(result, counts[result]))
		}
	}
	if len(a.Results) > 0 {
		event.Add(slog.String("event_type", a.Results[0].Event), slog.String("job_id", a.Results[0].JobID))
	}
	if counts[ResultUnknownPhone]+counts[ResultUnknownShop] > 0 { // this line is the only record of it
		event.Level = max(event.Level, slog.LevelWarn)
	}
}

// notStored answers an event that was not stored. A key that was used with another payload is a 409: a 2xx would drop
// the event without a trace at the vendor, while a failed delivery is listed in its dashboard. It causes no loop:
// both vendors give up after a few attempts.
func notStored(ctx context.Context, err error) Answer {
	EventFrom(ctx).Cause(err)
	failed := Failed(err)
	switch status.Code(err) { //nolint:exhaustive // the rest is as Failed has it
	case codes.AlreadyExists:
		EventFrom(ctx).Level = slog.LevelError
		failed.Status = http.StatusConflict
	case codes.InvalidArgument:
		failed.Status = http.StatusBadRequest
	}
	if failed.Status == http.StatusServiceUnavailable {
		failed.Err.RetryAfter = max(failed.Err.RetryAfter, FullRetryAfter)
	}
	return failed
}
