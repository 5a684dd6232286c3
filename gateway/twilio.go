package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twilio/twilio-go/client"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"paceline.internal/platform/config"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

const (
	pathInbound = "/api/webhooks/twilio/inbound"
	pathStatus  = "/api/webhooks/twilio/status"
	// twilioTimeout is under the 4 s that Twilio waits for us (rt=4000 in the URL that we give it), so that it gets
	// our 503 and retries instead of hanging up.
	twilioTimeout = 3500 * time.Millisecond
	// emptyTwiML answers a webhook without sending the person anything.
	emptyTwiML = "<Response/>"
)

// carrier answers Twilio: a person's message, and the delivery receipt of one of ours.
type carrier struct {
	signatures twilioSignatures
	onboarding onboardingv1.OnboardingServiceClient
	messaging  messagingv1.MessagingServiceClient
	places     *places
	origin     config.Origin // what Twilio calls; the Host header is the caller's and is not used
}

// parameters are what Twilio has signed: the query of the URL that it calls, and the form that it posts, or the JSON in its place.
type parameters struct {
	query string
	form  url.Values
}

// callback is the pipeline of one of Twilio's callbacks.
func (c carrier) callback(work func(ctx context.Context, p parameters) answer) callback[parameters] {
	return callback[parameters]{
		timeout: twilioTimeout, limit: maxBody, places: c.places, signed: has(headerTwilioSignature), verify: c.verify, work: work,
	}
}

// inbound passes on a person's message. It is answered once the message is stored and a STOP in it is committed.
func (c carrier) inbound() callback[parameters] {
	return c.callback(func(ctx context.Context, p parameters) answer {
		request, err := decodeInbound(p.form)
		if err != nil {
			return malformed(err)
		}
		eventFrom(ctx).add(slog.String("twilio_sid", request.GetTwilioSid()))
		response, err := c.onboarding.ReceiveMessage(ctx, request)
		if err == nil {
			eventFrom(ctx).add(slog.Bool("duplicate", response.GetDuplicate()))
		}
		return answerTwilio(ctx, err)
	})
}

// receipt passes on what became of one of our messages.
func (c carrier) receipt() callback[parameters] {
	receipt := c.callback(func(ctx context.Context, p parameters) answer {
		request, err := decodeReceipt(p)
		if err != nil {
			return malformed(err)
		}
		eventFrom(ctx).add(slog.String("twilio_sid", request.GetTwilioSid()), slog.String("message_id", request.GetMessageId()),
			slog.String("message_status", request.GetStatus()))
		response, err := c.messaging.RecordStatus(ctx, request)
		if err == nil {
			eventFrom(ctx).add(slog.Bool("matched", response.GetMatched()))
		}
		return answerTwilio(ctx, err)
	})
	receipt.rank = 1 // after every message
	return receipt
}

// headerTwilioSignature is from https://www.twilio.com/docs/usage/webhooks/webhooks-security.
const headerTwilioSignature = "X-Twilio-Signature"

// maxParameters is several times what a callback of Twilio has. Ten thousand, which fit into a body, cost 28 ms and 3 MiB before the
// signature is known to be wrong.
const maxParameters = 256

// verify returns the parameters once they are known to be signed by Twilio. A form must be read before its signature can be
// checked, so one that cannot be read is a 400. JSON is signed by its hash (verifyJSON).
func (c carrier) verify(r *http.Request, body []byte) (parameters, *answer) {
	forged := func(cause string) (parameters, *answer) {
		eventFrom(r.Context()).add(slog.String("cause", cause))
		return parameters{}, &answer{status: http.StatusForbidden, err: refuse(codes.PermissionDenied, reasonPermissionDenied,
			"this is not signed by Twilio with our auth token, for this URL and these parameters")}
	}
	signature := r.Header.Get(headerTwilioSignature)
	if signature == "" {
		return forged("the signature is missing")
	}
	if isJSON(r.Header.Get("Content-Type")) {
		p, err := c.verifyJSON(r, body, signature)
		switch {
		case errors.Is(err, errForged):
			return forged(err.Error())
		case err != nil:
			return parameters{}, new(malformed(err))
		}
		return p, nil
	}
	if bytes.Count(body, []byte("&")) >= maxParameters { // before it is parsed: that and the signature cost by the parameter
		return forged("it has more parameters than Twilio sends")
	}
	form, err := decodeForm(r.Header.Get("Content-Type"), body)
	if err != nil {
		return parameters{}, new(malformed(errors.New("the body is no urlencoded form")))
	}
	if !c.signatures.valid(publicURL(c.origin, r), form, signature) {
		return forged(errForged.Error())
	}
	return parameters{r.URL.RawQuery, form}, nil
}

// answerTwilio acknowledges, or refuses so that Twilio tries again where that can help (rp=all in the URL that we give
// it). What can never succeed is acknowledged: Twilio would only repeat it, and the log line says what it was.
func answerTwilio(ctx context.Context, err error) answer {
	event := eventFrom(ctx)
	event.cause(err)
	switch code := status.Code(err); {
	case code == codes.OK:
	case code == codes.InvalidArgument, code == codes.NotFound, code == codes.AlreadyExists, code == codes.FailedPrecondition:
		event.level = slog.LevelWarn
		event.fail(public(err))
	case transient(code):
		return answer{status: http.StatusServiceUnavailable, err: public(err)}
	default:
		return answer{status: http.StatusInternalServerError, err: public(err)}
	}
	return answer{status: http.StatusOK, contentType: "text/xml", body: []byte(emptyTwiML)}
}

// twilioSignatures checks X-Twilio-Signature with Twilio's own validator.
type twilioSignatures struct{ validators []client.RequestValidator }

// newTwilioSignatures accepts several tokens, separated by commas. It refuses an empty one, with which any stranger could sign.
func newTwilioSignatures(authTokens config.Secret) (twilioSignatures, error) {
	tokens, err := authTokens.Keys()
	if err != nil {
		return twilioSignatures{}, fmt.Errorf("twilio: the auth token %w", err)
	}
	if len(tokens) == 0 {
		return twilioSignatures{}, errors.New("twilio: the auth token is empty")
	}
	var s twilioSignatures
	for _, token := range tokens {
		s.validators = append(s.validators, client.NewRequestValidator(token))
	}
	return s, nil
}

// valid reports whether signature was made for this URL and form, by one of the tokens. What is signed is the URL and then every
// name with each of its values, in the order of the names and of the values, each value once, as Twilio's SDKs do it.
// The validator gets all of that as the name of one parameter: it
// appends parameters one by one, copying what is there already, so a stranger's form of ten thousand would cost a third of a
// second.
func (s twilioSignatures) valid(fullURL string, form url.Values, signature string) bool {
	var signed strings.Builder
	for _, name := range slices.Sorted(maps.Keys(form)) {
		values := form[name]
		if len(values) > 1 {
			values = slices.Compact(slices.Sorted(slices.Values(values)))
		}
		for _, value := range values {
			signed.WriteString(name)
			signed.WriteString(value)
		}
	}
	found := false
	for i := range s.validators {
		found = s.validators[i].Validate(fullURL, map[string]string{signed.String(): ""}, signature) || found
	}
	return found
}

// decodeForm reads a urlencoded form, and nothing else.
func decodeForm(contentType string, body []byte) (url.Values, error) {
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil || mediaType != "application/x-www-form-urlencoded" {
		return nil, errors.New("not a urlencoded form")
	}
	return url.ParseQuery(string(body))
}

// decodeInbound reads an inbound message. Parameters that we do not know are ignored; those that we use must be well-formed.
func decodeInbound(form url.Values) (*onboardingv1.ReceiveMessageRequest, error) {
	f := fields{form: form}
	request := &onboardingv1.ReceiveMessageRequest{
		TwilioSid:           f.required("MessageSid"),
		From:                f.required("From"),
		To:                  f.required("To"),
		MessagingServiceSid: f.text("MessagingServiceSid"),
		Body:                f.text("Body"),
		Segments:            f.number("NumSegments"),
		Media:               f.number("NumMedia"),
		OptOutType:          f.text("OptOutType"),
	}
	return request, f.err
}

// decodeReceipt reads a delivery receipt. Our message id is in the query of the callback URL and may be absent:
// such a receipt is kept too.
func decodeReceipt(p parameters) (*messagingv1.RecordStatusRequest, error) {
	query, err := url.ParseQuery(p.query)
	if err != nil {
		return nil, errors.New("the query cannot be read")
	}
	q, f := fields{form: query}, fields{form: p.form}
	request := &messagingv1.RecordStatusRequest{
		MessageId: q.text("message_id"),
		TwilioSid: f.required("MessageSid"),
		Status:    f.required("MessageStatus"),
		ErrorCode: f.number("ErrorCode"),
		Raw:       make(map[string]string, len(p.form)),
	}
	for name, values := range p.form {
		request.Raw[storable(name)] = storable(strings.Join(values, ","))
	}
	return request, errors.Join(q.err, f.err)
}

// fields reads the parameters of a form and keeps the first thing that is wrong with them. A parameter that we use
// and that is there twice is wrong: it is not known which value counts.
type fields struct {
	form url.Values
	err  error
}

func (f *fields) text(name string) string {
	values := f.form[name]
	switch len(values) {
	case 0:
		return ""
	case 1:
		return storable(values[0])
	default:
		f.wrong(name, "is there more than once")
		return ""
	}
}

func (f *fields) required(name string) string {
	value := f.text(name)
	if value == "" {
		f.wrong(name, "is missing")
	}
	return value
}

func (f *fields) number(name string) int32 {
	text := f.text(name)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		f.wrong(name, "is no whole number")
	}
	return int32(n)
}

func (f *fields) wrong(name, what string) {
	if f.err == nil {
		f.err = errors.New("the parameter " + name + " " + what)
	}
}

// storable is the text as gRPC and Postgres can store it: a carrier's broken encoding must not lose a person's STOP.
func storable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}
