package gateway

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"paceline.internal/platform/config"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

const (
	// pathWebhooks comes before the name of a source.
	pathWebhooks = "/api/webhooks/"
	// webhookTimeout is under the five seconds that Shopify waits for an answer, so that it gets our 503 and retries; Kapso
	// waits ten. (shopify.dev, HTTPS delivery; docs.kapso.ai, Webhooks overview.)
	webhookTimeout = 4 * time.Second
)

// reasonSourceOff is the reason of the webhooks' own error.
const reasonSourceOff = "REASON_SOURCE_NOT_CONFIGURED"

// Results of one event, in the answer to a webhook.
const (
	resultProcessed    = "processed"     // stored; its handler runs later
	resultDuplicate    = "duplicate"     // had been stored before; nothing is done twice
	resultIgnored      = "ignored"       // nothing to do: an echo of what was sent from our side, or an old message of an import
	resultUnknownPhone = "unknown_phone" // for a number that is not ours, or from a person without a number
)

// webhook is one event of a vendor as a service takes it, or why it is not passed on.
type webhook struct {
	eventType string // such as kapso.message.received
	// request is a *ReceiveMessageRequest for what a person wrote, a *RecordStatusRequest for what became of a message of ours, and
	// an *EnqueueWebhookJobRequest for everything else; nil when result says why there is none.
	request proto.Message
	result  string
}

// source is one vendor: how it signs, and what its events are called here.
type source struct {
	name   string
	keys   webhookKeys // none: the vendor is not used, and its route is not found
	limit  int64       // the most that a body may have
	places *places
	// signature is the MAC that the request brings.
	signature func(http.Header) ([]byte, error)
	// read decodes a body that the vendor has signed. The headers are not covered by the signature.
	read func(http.Header, []byte) ([]webhook, error)
}

// webhooks answers the vendors whose events are messages, receipts and jobs. Onboarding decides whose they are: the
// organisation of the one configured channel.
type webhooks struct {
	onboarding onboardingv1.OnboardingServiceClient
	messaging  messagingv1.MessagingServiceClient
	jobs       onboardingv1.WebhookJobServiceClient
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

// enqueue stores an event as a job: once per key, which is the same on every delivery of the event, and worked in the order of those
// with its subject.
func enqueue(source, eventType, key, subject string, payload []byte) *onboardingv1.EnqueueWebhookJobRequest {
	return &onboardingv1.EnqueueWebhookJobRequest{
		Source: source, EventType: eventType, IdempotencyKey: key, Subject: subject,
		Event: &onboardingv1.EnqueueWebhookJobRequest_PayloadJson{PayloadJson: payload},
	}
}

// posted is what a vendor has signed, and the headers, which it has not.
type posted struct {
	header http.Header
	body   []byte
}

// of answers one vendor: 404 when it has no secret, 413 for a body over its limit, 401 unless the raw bytes are signed, 429
// when too many are worked on, 400 for what cannot be read, 503 when it cannot be stored now, and 202 once every event is stored.
// Both vendors send again what is not answered with a 2xx, and a repeat of what was stored changes nothing.
func (h webhooks) of(s source) http.HandlerFunc {
	if len(s.keys) == 0 {
		return func(w http.ResponseWriter, r *http.Request) {
			writeError(r.Context(), w, http.StatusNotFound, refuse(codes.NotFound, reasonSourceOff, "this source is not configured here"))
		}
	}
	return callback[posted]{
		timeout: webhookTimeout, limit: s.limit, places: s.places,
		signed: func(header http.Header) bool {
			_, err := s.signature(header)
			return err == nil
		},
		verify: s.verify,
		work: func(ctx context.Context, p posted) answer {
			hooks, err := s.read(p.header, p.body)
			if err != nil {
				return malformed(err)
			}
			return h.pass(ctx, hooks)
		},
	}.serve
}

// verify is the refusal of what the vendor has not signed.
func (s source) verify(r *http.Request, body []byte) (posted, *answer) {
	mac, err := s.signature(r.Header)
	if err == nil && !s.keys.signed(body, mac) {
		err = errors.New("the signature is invalid")
	}
	if err != nil {
		eventFrom(r.Context()).add(slog.String("cause", err.Error()))
		return posted{}, &answer{status: http.StatusUnauthorized, err: refuse(codes.Unauthenticated, reasonUnauthenticated,
			"this is not signed by "+s.name+" with our secret")}
	}
	return posted{r.Header, body}, nil
}

// pass hands the events on one after the other, in the vendor's order. It stops at the first that cannot be stored: the vendor
// repeats the whole delivery, and those before are then duplicates.
func (h webhooks) pass(ctx context.Context, hooks []webhook) answer {
	given := accepted{Results: make([]answered, 0, len(hooks))}
	for _, hook := range hooks {
		one := answered{Event: hook.eventType, Result: hook.result}
		if hook.request != nil {
			duplicate, jobID, err := h.call(ctx, hook.request)
			if err != nil {
				eventFrom(ctx).add(slog.String("event_type", hook.eventType))
				return answerWebhook(ctx, err)
			}
			if one.Result, one.JobID = resultProcessed, jobID; duplicate {
				one.Result = resultDuplicate
			}
		}
		given.Results = append(given.Results, one)
	}
	given.Status = given.word()
	given.describe(ctx)
	body, err := json.Marshal(given)
	if err != nil { // cannot happen: strings of ours only
		return answer{status: http.StatusInternalServerError, err: public(err)}
	}
	return answer{status: http.StatusAccepted, contentType: "application/json", body: body}
}

// call makes the one RPC of an event.
func (h webhooks) call(ctx context.Context, request proto.Message) (duplicate bool, jobID string, err error) {
	switch in := request.(type) {
	case *onboardingv1.ReceiveMessageRequest:
		received, err := h.onboarding.ReceiveMessage(ctx, in)
		if status.Code(err) == codes.InvalidArgument {
			return h.call(ctx, queuedText(in))
		}
		return received.GetDuplicate(), received.GetJobId(), err
	case *messagingv1.RecordStatusRequest:
		_, err := h.messaging.RecordStatus(ctx, in)
		return false, "", err
	case *onboardingv1.EnqueueWebhookJobRequest:
		kept, err := h.jobs.EnqueueWebhookJob(ctx, in)
		return kept.GetDuplicate(), kept.GetJobId(), err
	default:
		return false, "", fmt.Errorf("no service takes a %T", in)
	}
}

// word is the result that all events share, else processed.
func (a accepted) word() string {
	if len(a.Results) > 0 && !slices.ContainsFunc(a.Results, func(one answered) bool { return one.Result != a.Results[0].Result }) {
		return a.Results[0].Result
	}
	return resultProcessed
}

// describe puts the events on the line of the request. A message's own id is not there: WhatsApp's holds the phone number.
func (a accepted) describe(ctx context.Context) {
	counts := map[string]int{}
	for _, one := range a.Results {
		counts[one.Result]++
	}
	event := eventFrom(ctx)
	event.add(slog.String("result", a.Status), slog.Int("events", len(a.Results)))
	for _, result := range []string{resultDuplicate, resultIgnored, resultUnknownPhone} {
		if counts[result] > 0 {
			event.add(slog.Int(result, counts[result]))
		}
	}
	if len(a.Results) > 0 {
		event.add(slog.String("event_type", a.Results[0].Event), slog.String("job_id", a.Results[0].JobID))
	}
	if counts[resultUnknownPhone] > 0 { // this line is the only record of it
		event.level = max(event.level, slog.LevelWarn)
	}
}

// answerWebhook is for an event that was not stored. A key that was used with another payload is a 409: a 2xx would drop
// the event without a trace at the vendor, while a failed delivery is listed in its dashboard. It causes no loop:
// both vendors give up after a few attempts.
func answerWebhook(ctx context.Context, err error) answer {
	eventFrom(ctx).cause(err)
	refused := public(err)
	switch code := status.Code(err); {
	case code == codes.AlreadyExists:
		eventFrom(ctx).level = slog.LevelError
		return answer{status: http.StatusConflict, err: refused}
	case code == codes.InvalidArgument:
		return answer{status: http.StatusBadRequest, err: refused}
	case transient(code):
		refused.RetryAfter = max(refused.RetryAfter, fullRetryAfter)
		return answer{status: http.StatusServiceUnavailable, err: refused}
	default:
		return answer{status: http.StatusInternalServerError, err: refused}
	}
}

// webhookKeys are the secrets that a vendor may sign with: more than one while they are changed, or when each of its webhooks
// has a secret of its own.
type webhookKeys [][]byte

// newWebhookKeys reads secrets that are separated by commas. None is a vendor that is not used; an empty one among them is
// refused, because any stranger could sign with it.
func newWebhookKeys(secrets config.Secret) (webhookKeys, error) {
	parted, err := secrets.Keys()
	if err != nil {
		return nil, err
	}
	var keys webhookKeys
	for _, secret := range parted {
		keys = append(keys, []byte(secret))
	}
	return keys, nil
}

// signed reports whether mac is the HMAC-SHA256 of the raw body under one of the keys. Every key is tried in constant time.
func (k webhookKeys) signed(body, mac []byte) bool {
	found := false
	for _, key := range k {
		sum := hmac.New(sha256.New, key)
		sum.Write(body)
		found = hmac.Equal(sum.Sum(nil), mac) || found
	}
	return found
}

// eventName is the format of an event's name. It is stored, logged and compared, so it is plain and short.
var eventName = regexp.MustCompile(`^[a-z][a-z0-9_]*([./][a-z0-9_]+)*$`)

const (
	maxEventName = 100
	maxEventID   = 150 // with a name and the separators at most the 255 of a key
	maxDepth     = 100 // of JSON, well within what Postgres can store
)

// checkEventName refuses what is not an event's name.
func checkEventName(name string) error {
	if len(name) > maxEventName || !eventName.MatchString(name) {
		return errors.New("the event type is missing or malformed")
	}
	return nil
}

// checkEventID refuses what cannot be part of a key.
func checkEventID(what, id string) error {
	if id == "" {
		return fmt.Errorf("%s is missing", what)
	}
	if len(id) > maxEventID || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("%s is malformed", what)
	}
	return nil
}

var errNoObject = errors.New("the body is no JSON object")

// keptObject is a JSON object as Postgres can store it: no character and no number that jsonb refuses, no depth that its parser
// does. The vendor has signed it and cannot be made to send another, so a broken character must not lose the event.
func keptObject(body []byte) (json.RawMessage, error) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var object map[string]any
	if err := decoder.Decode(&object); err != nil || object == nil {
		return nil, errNoObject
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errNoObject
	}
	kept, err := keptValue(object, 0)
	if err != nil {
		return nil, err
	}
	return encode(kept)
}

// encode is json.Marshal without its escapes for HTML, which turn each < into six bytes and take a body over the limits of the services.
func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

func keptValue(value any, depth int) (any, error) {
	if depth > maxDepth {
		return nil, errors.New("the body is nested too deeply")
	}
	switch v := value.(type) {
	case string:
		return storable(v), nil
	case json.Number:
		if _, err := v.Float64(); err != nil {
			return nil, errors.New("the body holds a number out of range")
		}
	case []any:
		for i, one := range v {
			kept, err := keptValue(one, depth+1)
			if err != nil {
				return nil, err
			}
			v[i] = kept
		}
	case map[string]any:
		object := make(map[string]any, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) { // two names may become one, and a repeat has to become the same
			kept, err := keptValue(v[name], depth+1)
			if err != nil {
				return nil, err
			}
			object[storable(name)] = kept
		}
		return object, nil
	}
	return value, nil
}
