// Package twilio answers the callbacks of Twilio: their signature, their form and their two routes.
package twilio

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/gateway/route"
	"paceline.internal/platform/config"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

const (
	// PathInbound takes the messages of people.
	PathInbound = "/api/webhooks/twilio/inbound"
	// PathStatus takes the delivery receipts of our messages.
	PathStatus = "/api/webhooks/twilio/status"
	// Timeout is under the 4 s that Twilio waits for us (rt=4000 in the URL that we give it), so that it gets
	// our 503 and retries instead of hanging up.
	Timeout = 3500 * time.Millisecond
	// aheadTimeout is the time that is left for messaging to record what onboarding does not take. Onboarding works on a message for 3 s
	// before it answers.
	aheadTimeout = 400 * time.Millisecond
	// emptyTwiML answers a webhook without sending the person anything.
	emptyTwiML = "<Response/>"
)

// Callbacks answers Twilio: a person's message, and the delivery receipt of one of our messages.
type Callbacks struct {
	signatures signatures // of the environment's account
	accounts   *accounts
	onboarding onboardingv1.OnboardingServiceClient
	messaging  messagingv1.MessagingServiceClient
	moved      func(ctx context.Context, orgID string) bool
	limiter    *route.Limiter
	now        func() time.Time
	origin     config.Origin // that Twilio calls; the Host header is the caller's and is not used
}

// Config has what the callbacks are made of. Every field is needed.
type Config struct {
	AuthTokens config.Secret // of the environment's account
	Origin     config.Origin
	Onboarding onboardingv1.OnboardingServiceClient
	Messaging  messagingv1.MessagingServiceClient
	Senders    messagingv1.SenderServiceClient // knows the other accounts
	Admit      func(context.Context) error     // refuses a question about an unknown account that is one too many of its network
	// Moved reports whether an organisation lives in another deployment, or is on its way: Twilio repeats its callbacks until they reach that.
	Moved func(ctx context.Context, orgID string) bool
	Now   func() time.Time
}

// New returns the callbacks. Half of those that are held are worked on and half wait, so that a person's message passes the receipts that
// came before it.
func New(cfg Config) (*Callbacks, error) {
	s, err := newSignatures(cfg.AuthTokens)
	return &Callbacks{
		signatures: s, accounts: newAccounts(cfg.Senders, cfg.Admit, cfg.Now), origin: cfg.Origin, onboarding: cfg.Onboarding,
		messaging: cfg.Messaging, moved: cfg.Moved,
		now:     cfg.Now,
		limiter: route.NewLimiter(route.MaxCallbacks/2, route.MaxCallbacks/2),
	}, err
}

// Routes returns the handler of each path.
func (c *Callbacks) Routes() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{PathInbound: c.inbound().Serve, PathStatus: c.receipt().Serve}
}

// parameters are signed by Twilio: the query of the URL that it calls, and the form that it posts, or the JSON in its place.
type parameters struct {
	query         string
	form          url.Values
	of            account // that signed them; of that of the environment nothing need be known
	byEnvironment bool    // the environment's token signed them
	signed        func(signatures) bool
}

// foreign is the account that signed, if it is not that of the environment.
func (p parameters) foreign() string {
	if p.of.environment {
		return ""
	}
	return p.of.sid
}

// callback returns the pipeline of one callback.
func (c *Callbacks) callback(work func(ctx context.Context, p parameters) route.Answer) route.Callback[parameters] {
	return route.Callback[parameters]{
		Timeout: Timeout, Limit: route.MaxBody, Limiter: c.limiter, Signed: route.Has(headerSignature), Verify: c.verify, Work: work,
	}
}

// inbound passes on a person's message. It is answered once the message is stored and a STOP in it is committed.
func (c *Callbacks) inbound() route.Callback[parameters] {
	return c.callback(func(ctx context.Context, p parameters) route.Answer {
		request, err := decodeInbound(p.form)
		if err != nil {
			return route.Malformed(err)
		}
		event := route.EventFrom(ctx)
		event.Add(slog.String("twilio_sid", request.GetTwilioSid()))
		if refused := c.book(ctx, p, request); refused != nil {
			return *refused
		}
		arrived := c.now()
		response, err := c.receive(ctx, request)
		switch {
		case err == nil:
			event.Add(slog.Bool("duplicate", response.GetDuplicate()))
		case !final(err):
			ahead := c.recordAhead(ctx, request, arrived)
			event.Add(slog.Bool("recorded_ahead", ahead == nil))
			if ahead != nil {
				event.Add(slog.String("not_recorded_ahead", status.Code(ahead).String()))
			}
		}
		return answer(ctx, err)
	})
}

// errNobodys acknowledges a message to a number that no organisation has, in an account that several share: there is nobody to tell but the
// log.
var errNobodys = route.Refuse(codes.NotFound, messagingv1.Reason_REASON_UNKNOWN_SENDER.String(),
	"no organisation has stored the number that this was sent to").GRPCStatus().Err()

// book finds the organisation that a message belongs to, within the account that signed it, and refuses what no token of that organisation
// signed. A message of the environment's account that nobody has belongs to the environment's organisation, and one of another account to
// its only organisation; where several share the account, to nobody.
func (c *Callbacks) book(ctx context.Context, p parameters, m *onboardingv1.ReceiveMessageRequest) *route.Answer {
	m.AccountSid = p.foreign()
	find := func() (orgID string, owned, signed bool) {
		orgID, owned = p.of.owner(m.GetTo(), m.GetMessagingServiceSid())
		return orgID, owned, owned && p.of.signers(p.byEnvironment, p.signed)[orgID]
	}
	orgID, owned, signed := find()
	if !signed && p.of.known {
		renewed, err := c.accounts.of(ctx, p.of.sid, again) // the number or the token may be newer than what is remembered
		if err == nil && renewed.known {
			p.of = renewed
		}
		orgID, owned, signed = find()
	}
	switch {
	case owned && c.moved(ctx, orgID):
		return elsewhere(ctx)
	case signed:
		m.OrgId = orgID
		return nil
	case owned:
		return forged(ctx, "the token is none of the organisation that has the number")
	case p.foreign() == "" && !p.of.shared():
		return nil
	}
	route.EventFrom(ctx).Add(slog.Bool("unknown_number", true), slog.String("account_sid", p.of.sid))
	if m.OrgId = p.of.only(); m.GetOrgId() == "" {
		return new(answer(ctx, errNobodys))
	}
	return nil
}

// receive has onboarding take a message.
func (c *Callbacks) receive(ctx context.Context, m *onboardingv1.ReceiveMessageRequest) (*onboardingv1.ReceiveMessageResponse, error) {
	deadline, bounded := ctx.Deadline()
	if bounded { // the request may have waited for its turn
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-aheadTimeout))
		defer cancel()
	}
	return c.onboarding.ReceiveMessage(ctx, m)
}

// recordAhead has messaging record a message that onboarding could not take, so that a STOP in it is in force at once. Onboarding gets the
// message when Twilio repeats it, or finds it in Twilio's list.
func (c *Callbacks) recordAhead(ctx context.Context, m *onboardingv1.ReceiveMessageRequest, arrived time.Time) error {
	_, err := c.messaging.RecordInbound(ctx, &messagingv1.RecordInboundRequest{
		TwilioSid: m.GetTwilioSid(), From: m.GetFrom(), To: m.GetTo(), MessagingServiceSid: m.GetMessagingServiceSid(), Body: m.GetBody(),
		Segments: m.GetSegments(), Media: m.GetMedia(), OptOutType: m.GetOptOutType(), ReceivedAt: timestamppb.New(arrived),
		AccountSid: m.GetAccountSid(),
	})
	return err
}

// receipt passes on the status of one of our messages. It only reports, and Twilio is asked for a receipt that is lost.
func (c *Callbacks) receipt() route.Callback[parameters] {
	receipt := c.callback(func(ctx context.Context, p parameters) route.Answer {
		request, err := decodeReceipt(p)
		if err != nil {
			return route.Malformed(err)
		}
		request.AccountSid = p.foreign()
		request.SignedByOrgIds = slices.Sorted(maps.Keys(p.of.signers(p.byEnvironment, p.signed)))
		event := route.EventFrom(ctx)
		event.Add(slog.String("twilio_sid", request.GetTwilioSid()), slog.String("message_id", request.GetMessageId()),
			slog.String("message_status", request.GetStatus()))
		response, err := c.messaging.RecordStatus(ctx, request)
		if err == nil && !response.GetMatched() && p.of.known { // a sender or a token may be newer than what is remembered
			renewed, lookErr := c.accounts.of(ctx, p.of.sid, again)
			signed := slices.Sorted(maps.Keys(renewed.signers(p.byEnvironment, p.signed)))
			if lookErr == nil && renewed.known && !slices.Equal(signed, request.GetSignedByOrgIds()) {
				request.SignedByOrgIds = signed
				response, err = c.messaging.RecordStatus(ctx, request)
			}
		}
		if err == nil {
			event.Add(slog.Bool("matched", response.GetMatched()))
			gone := func(orgID string) bool { return c.moved(ctx, orgID) }
			if !response.GetMatched() && slices.ContainsFunc(request.GetSignedByOrgIds(), gone) {
				return *elsewhere(ctx)
			}
		}
		return answer(ctx, err)
	})
	receipt.Priority = 1 // after every message
	return receipt
}

// headerSignature is from https://www.twilio.com/docs/usage/webhooks/webhooks-security.
const headerSignature = "X-Twilio-Signature"

// maxParameters is several times what a callback of Twilio has. Ten thousand, which fit into a body, cost 28 ms and 3 MiB before the
// signature is known to be wrong.
const maxParameters = 256

// answer acknowledges, or refuses so that Twilio tries again where that can help (rp=all in the URL that we give
// it). A call that can never succeed is acknowledged: Twilio would only repeat it, and the log line has the reason.
func answer(ctx context.Context, err error) route.Answer {
	event := route.EventFrom(ctx)
	event.Cause(err)
	switch {
	case err == nil:
	case final(err):
		event.Level = slog.LevelWarn
		event.Fail(route.Public(err))
	default:
		return route.Failed(err)
	}
	return route.Answer{Status: http.StatusOK, ContentType: "text/xml", Body: []byte(emptyTwiML)}
}

// elsewhere has Twilio repeat a callback of an organisation that is not here.
func elsewhere(ctx context.Context) *route.Answer {
	route.EventFrom(ctx).Add(slog.String("cause", "the organisation moves to another deployment, or lives there"))
	return &route.Answer{Status: http.StatusServiceUnavailable, Err: route.Refuse(codes.Unavailable, route.ReasonUnavailable,
		"the organisation moves to another deployment, or lives there")}
}

// final reports whether a call that failed would fail again.
func final(err error) bool {
	switch status.Code(err) {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.FailedPrecondition:
		return true
	default:
		return false
	}
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
		request.Raw[route.Storable(name)] = route.Storable(strings.Join(values, ","))
	}
	return request, errors.Join(q.err, f.err)
}

// fields reads the parameters of a form and keeps the first error. A parameter that we use
// and that is there twice is an error: it is not known which value counts.
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
		return route.Storable(values[0])
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
