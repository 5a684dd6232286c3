// Package messaging is onboarding's typed client of the messaging service.
package messaging

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/engagement"
	"paceline.internal/services/onboarding/inbound"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/runs"
	"paceline.internal/services/onboarding/session"
	"paceline.internal/services/onboarding/tickets"
)

// Services lists the services that the client calls.
var Services = []string{messagingv1.MessagingService_ServiceDesc.ServiceName, messagingv1.SenderService_ServiceDesc.ServiceName}

// Client speaks to messaging over one connection, which sets a deadline on every call.
type Client struct {
	rpc     messagingv1.MessagingServiceClient
	senders messagingv1.SenderServiceClient
	now     func() time.Time
}

// New returns a client on an open connection, for a caller with this clock.
func New(conn grpc.ClientConnInterface, now func() time.Time) *Client {
	return &Client{rpc: messagingv1.NewMessagingServiceClient(conn), senders: messagingv1.NewSenderServiceClient(conn), now: now}
}

var outcomes = map[messagingv1.Outcome]conversation.Outcome{
	messagingv1.Outcome_OUTCOME_ACCEPTED:         conversation.Accepted,
	messagingv1.Outcome_OUTCOME_ALREADY_ACCEPTED: conversation.AlreadyAccepted,
	messagingv1.Outcome_OUTCOME_IN_FLIGHT:        conversation.InFlight,
	messagingv1.Outcome_OUTCOME_UNKNOWN:          conversation.Unknown,
	messagingv1.Outcome_OUTCOME_THROTTLED:        conversation.Throttled,
	messagingv1.Outcome_OUTCOME_REJECTED:         conversation.Rejected,
	messagingv1.Outcome_OUTCOME_OPTED_OUT:        conversation.OptedOut,
	messagingv1.Outcome_OUTCOME_PARKED:           conversation.Undecided,
	messagingv1.Outcome_OUTCOME_GIVEN_UP:         conversation.GivenUp,
	messagingv1.Outcome_OUTCOME_HELD:             conversation.Held,
	messagingv1.Outcome_OUTCOME_REMINDERS_OFF:    conversation.RemindersOff,
}

// understood are the outcomes that messaging answers only to a caller that says so.
var understood = []messagingv1.Outcome{messagingv1.Outcome_OUTCOME_HELD, messagingv1.Outcome_OUTCOME_REMINDERS_OFF}

var policies = map[session.UnknownSends]messagingv1.UnknownPolicy{
	session.ConfirmAbsentThenResend: messagingv1.UnknownPolicy_UNKNOWN_POLICY_CONFIRM_ABSENT_THEN_RESEND,
	session.NeverDuplicate:          messagingv1.UnknownPolicy_UNKNOWN_POLICY_NEVER_DUPLICATE,
}

// Send hands over one message. people.ErrUnavailable when messaging cannot be reached; every other outcome that is
// recorded there is in the answer, a reused key included.
func (c *Client) Send(ctx context.Context, t conversation.Message) (conversation.Sent, error) {
	asked := c.now()
	answer, err := c.rpc.Send(ctx, &messagingv1.SendRequest{
		OrgId: t.OrgID, ProfileId: t.ProfileID, To: t.To, Body: t.Body, IdempotencyKey: t.Key, CorrelationId: t.CorrelationID,
		UnknownPolicy: policies[t.Unknown], MessageClass: class(t), Purpose: t.Purpose, Understands: understood,
		HoldVersion: t.HoldVersion, Consent: consentRecord(t.Consent),
	})
	if reasonOf(err) == messagingv1.Reason_REASON_IDEMPOTENCY_KEY_REUSED {
		return conversation.Sent{Outcome: conversation.KeyReused}, nil
	}
	if full, _ := rpc.ErrorFrom(err); reasonOf(err) == messagingv1.Reason_REASON_SEND_CAPPED {
		return conversation.Sent{Outcome: conversation.Capped, RetryAfter: full.RetryAfter, Explanation: full.Message}, nil
	}
	if t.Reserved && status.Code(err) == codes.InvalidArgument { // the release before does not know the class
		t.Reserved = false
		return c.Send(ctx, t)
	}
	if err != nil {
		return conversation.Sent{}, translate(err)
	}
	outcome, ok := outcomes[answer.GetOutcome()]
	if !ok {
		return conversation.Sent{}, fmt.Errorf("messaging: outcome %s is unknown", answer.GetOutcome())
	}
	m := answer.GetMessage()
	sent := conversation.Sent{
		Outcome: outcome, MessageID: m.GetMessageId(), ProviderID: m.GetTwilioSid(),
		RetryAfter: answer.GetRetryAfter().AsDuration(), Code: int(m.GetErrorCode()), Explanation: answer.GetExplanation(),
	}
	if at := m.GetCreatedAt(); at != nil {
		sent.CreatedAt = at.AsTime()
	}
	if m.GetAcceptedAt() != nil {
		sent.AcceptedAt, sent.AskedAt = onOurClock(answer, asked, c.now())
	}
	return sent, nil
}

func class(m conversation.Message) messagingv1.MessageClass {
	if m.Reserved {
		return messagingv1.MessageClass_MESSAGE_CLASS_RESERVED
	}
	if m.Outreach {
		return messagingv1.MessageClass_MESSAGE_CLASS_OUTREACH
	}
	return messagingv1.MessageClass_MESSAGE_CLASS_CONVERSATION
}

var asked = map[messagingv1.Switch]conversation.Switch{
	messagingv1.Switch_SWITCH_UNSPECIFIED: conversation.Unsaid, messagingv1.Switch_SWITCH_OFF: conversation.Off,
	messagingv1.Switch_SWITCH_ON: conversation.On,
}

var switches = map[bool]messagingv1.Switch{true: messagingv1.Switch_SWITCH_OFF, false: messagingv1.Switch_SWITCH_ON}

// SetReminders records what was said about a person's reminders, and returns what is in force; people.ErrUnavailable.
func (c *Client) SetReminders(ctx context.Context, orgID, phone string, r engagement.RemindersSaid) (engagement.RemindersSaid, error) {
	answer, err := c.rpc.SetReminders(ctx, &messagingv1.SetRemindersRequest{
		OrgId: orgID, Phone: phone, Reminders: switches[r.Off], Source: r.Source, SaidAt: timestamppb.New(r.Said),
	})
	if status.Code(err) == codes.Unimplemented { // the release before; its upgrade mends it
		return engagement.RemindersSaid{}, fmt.Errorf("%w: this release of messaging keeps no reminders", people.ErrUnavailable)
	}
	if err != nil {
		return engagement.RemindersSaid{}, translate(err)
	}
	return engagement.RemindersSaid{
		Off: answer.GetReminders() == messagingv1.Switch_SWITCH_OFF, Source: answer.GetSource(), Said: answer.GetSaidAt().AsTime(),
	}, nil
}

// consentRecord is nil for a message that comes without one.
func consentRecord(c people.ConsentRecord) *messagingv1.ConsentRecord {
	if c == (people.ConsentRecord{}) {
		return nil
	}
	return &messagingv1.ConsentRecord{Source: c.Source, WordsShown: c.WordsShown, CollectedAt: timestamppb.New(c.CollectedAt)}
}

// onOurClock returns when Twilio took a message and since when a reply may answer it, by the clock of the call, which began and ended then.
// Messaging reports how long ago both were, when it answered, which was at some time of the call: so the acceptance counts from the
// call's end and the question from its beginning. A release of messaging that does not say it is believed its own clock.
func onOurClock(answer *messagingv1.SendResponse, began, ended time.Time) (accepted, asked time.Time) {
	m := answer.GetMessage()
	accepted, asked = m.GetAcceptedAt().AsTime(), m.GetAcceptedAt().AsTime()
	if at := m.GetCreatedAt(); at != nil {
		asked = at.AsTime()
	}
	if ago := answer.GetAcceptedAgo(); ago != nil {
		accepted = ended.Add(-max(0, ago.AsDuration()))
	}
	if ago := answer.GetAskedAgo(); ago != nil {
		asked = began.Add(-max(0, ago.AsDuration()))
	}
	if answer.GetOutcome() == messagingv1.Outcome_OUTCOME_ACCEPTED { // all of it was within the call
		asked = began
		if answer.GetAcceptedAgo() != nil && accepted.Before(began) {
			accepted = began
		}
	}
	return accepted, asked
}

// final are the statuses after which no receipt changes anything.
var final = []string{"delivered", "undelivered", "failed"}

// Receipt returns how far the carrier is with the message of a key. conversation.ErrMessageMissing when the organisation has no such
// message or the carrier has not taken it, people.ErrUnavailable when messaging cannot be reached.
func (c *Client) Receipt(ctx context.Context, orgID, key string) (conversation.Receipt, error) {
	ctx = rpc.WithPrincipal(ctx, rpc.Principal{Subject: "onboarding", Role: rpc.RoleService, OrgID: orgID})
	answer, err := c.rpc.ListMessages(ctx, &messagingv1.ListMessagesRequest{IdempotencyKey: key, PageSize: 1})
	if err != nil {
		return conversation.Receipt{}, translate(err)
	}
	if len(answer.GetMessages()) == 0 || answer.GetMessages()[0].GetAcceptedAt() == nil {
		return conversation.Receipt{}, conversation.ErrMessageMissing
	}
	m := answer.GetMessages()[0]
	return conversation.Receipt{AcceptedAt: m.GetAcceptedAt().AsTime(), Final: slices.Contains(final, m.GetStatus())}, nil
}

// Fate returns the outcome of the message of a key, without asking for it to be sent; people.ErrUnavailable.
func (c *Client) Fate(ctx context.Context, orgID, key string) (engagement.Fate, error) {
	ctx = rpc.WithPrincipal(ctx, rpc.Principal{Subject: "onboarding", Role: rpc.RoleService, OrgID: orgID})
	answer, err := c.rpc.ListMessages(ctx, &messagingv1.ListMessagesRequest{IdempotencyKey: key, PageSize: 1})
	if err != nil {
		return engagement.Fate{}, translate(err)
	}
	if len(answer.GetMessages()) == 0 {
		return engagement.Fate{}, nil
	}
	m := answer.GetMessages()[0]
	f := engagement.Fate{MessageID: m.GetMessageId(), InDoubt: slices.Contains(inDoubt, m.GetStatus()), Parked: m.GetStatus() == "parked"}
	if at := m.GetAcceptedAt(); at != nil {
		f.AcceptedAt = at.AsTime()
	}
	return f, nil
}

// LastSent is the key of the newest message to a person that may have reached them, between two instants; empty for none.
// people.ErrUnavailable.
func (c *Client) LastSent(ctx context.Context, orgID, profileID string, since, until time.Time) (string, error) {
	ctx = rpc.WithPrincipal(ctx, rpc.Principal{Subject: "onboarding", Role: rpc.RoleService, OrgID: orgID})
	answer, err := c.rpc.ListMessages(ctx, &messagingv1.ListMessagesRequest{ProfileId: profileID, PageSize: lastLooked})
	if err != nil {
		return "", translate(err)
	}
	for _, m := range answer.GetMessages() { // the newest first
		at, reached := m.GetCreatedAt().AsTime(), m.GetAcceptedAt() != nil || slices.Contains(inDoubt, m.GetStatus())
		if m.GetDirection() == "outbound" && reached && at.After(since) && at.Before(until) {
			return m.GetIdempotencyKey(), nil
		}
	}
	return "", nil
}

// lastLooked is among how many messages, to and from a person, the last one to them is looked for.
const lastLooked = 20

// inDoubt are the statuses of a message that the carrier may have, and of which messaging finds out whether it has.
var inDoubt = []string{"sending", "unknown"}

var effects = map[messagingv1.ConsentEffect]conversation.Effect{
	messagingv1.ConsentEffect_CONSENT_EFFECT_NONE:      conversation.EffectNone,
	messagingv1.ConsentEffect_CONSENT_EFFECT_OPT_OUT:   conversation.EffectOptOut,
	messagingv1.ConsentEffect_CONSENT_EFFECT_OPT_IN:    conversation.EffectOptIn,
	messagingv1.ConsentEffect_CONSENT_EFFECT_HELP:      conversation.EffectHelp,
	messagingv1.ConsentEffect_CONSENT_EFFECT_OVERTAKEN: conversation.EffectOvertaken,
	messagingv1.ConsentEffect_CONSENT_EFFECT_DOUBTFUL:  conversation.EffectAmbiguous,
}

// optedIn is a consent_state.
const optedIn = "opted_in"

// Record stores a message of a person, who may not be known, and applies its consent keywords.
// inbound.ErrUnknownSender when no organisation owns the number, inbound.ErrInvalidMessage when messaging cannot read it,
// people.ErrUnavailable when it cannot be reached.
func (c *Client) Record(
	ctx context.Context, m inbound.Message, from conversation.View, received time.Time,
) (inbound.Recorded, error) {
	orgID := ""
	if m.Channel != "" {
		orgID = m.OrgID
	}
	answer, err := c.rpc.RecordInbound(ctx, &messagingv1.RecordInboundRequest{
		OrgId:     orgID,
		TwilioSid: m.SID, From: m.From, To: m.To, MessagingServiceSid: m.MessagingServiceSID, Body: m.Body,
		Segments: bounded(m.Segments), Media: bounded(m.Media), OptOutType: m.OptOutType, ProfileId: from.Session.ProfileID,
		ReceivedAt: timestamppb.New(received), DatedByCarrier: m.Late(), UnderstandsPreferences: true, Locale: from.Locale,
		AccountSid: m.Account, OwnerOrgId: m.Owner, ListedBefore: m.Before, ListedAfter: m.After,
		Distressed: from.Session.ProfileID != "" && tickets.Distressed(m.Body, from.Distress),
	})
	switch reasonOf(err) {
	case messagingv1.Reason_REASON_UNKNOWN_SENDER:
		return inbound.Recorded{}, inbound.ErrUnknownSender
	case messagingv1.Reason_REASON_INVALID:
		return inbound.Recorded{}, fmt.Errorf("%w: %s", inbound.ErrInvalidMessage, status.Convert(err).Message())
	default:
	}
	if err != nil {
		return inbound.Recorded{}, translate(err)
	}
	effect, ok := effects[answer.GetConsentEffect()]
	if !ok {
		return inbound.Recorded{}, fmt.Errorf("messaging: consent effect %s is unknown", answer.GetConsentEffect())
	}
	return inbound.Recorded{
		Preferences: conversation.Preferences{Reminders: asked[answer.GetReminders()], Tips: asked[answer.GetTips()]},
		LiftsHold:   answer.GetLiftsHold(),
		MessageID:   answer.GetMessage().GetMessageId(), OrgID: answer.GetOrgId(), Effect: effect,
		InForce: effect == conversation.EffectOptOut && answer.GetConsentState() != optedIn, // an older messaging does not say; in doubt it is
	}, nil
}

// bounded keeps a count within what any message can have.
func bounded(n int) int32 { return int32(min(max(n, 0), 100)) }

// CheckSender is nil when the organisation can message the phone, people.ErrNoSender when it has no sender,
// people.ErrSuspended when it is suspended, people.ErrOptedOut when the person has opted out, and people.ErrAwaitsOperator when their
// words may be an opt-out.
func (c *Client) CheckSender(ctx context.Context, orgID, phone string) (unrecorded bool, err error) {
	answer, err := c.rpc.CheckSender(ctx, &messagingv1.CheckSenderRequest{OrgId: orgID, To: phone})
	if reasonOf(err) == messagingv1.Reason_REASON_ORGANISATION_WITHOUT_SENDER {
		return false, people.ErrNoSender
	}
	switch {
	case answer.GetSuspended():
		return answer.GetUnrecorded(), people.ErrSuspended
	case answer.GetOptedOut():
		return false, people.ErrOptedOut
	case answer.GetUnjudgedMessageId() != "":
		return answer.GetUnrecorded(), people.ErrAwaitsOperator
	}
	return answer.GetUnrecorded(), translate(err)
}

// ReserveSends takes the turns of the first openings of a run that have one now, and says how long until there may be another;
// people.ErrUnavailable, people.ErrNoSender.
func (c *Client) ReserveSends(
	ctx context.Context, orgID string, segments []int, begun []runs.Begun,
) (n int, wait time.Duration, err error) {
	in := &messagingv1.ReserveSendsRequest{OrgId: orgID}
	for _, s := range segments {
		in.Segments = append(in.Segments, int32(s)) //nolint:gosec // of a text
	}
	for _, b := range begun {
		in.Begun = append(in.Begun, &messagingv1.BegunConversation{ProfileId: b.ProfileID, KeyPrefix: session.Key(b.ProfileID, b.SessionID, "")})
	}
	answer, err := c.rpc.ReserveSends(ctx, in)
	switch {
	case status.Code(err) == codes.Unimplemented: // the release before; its upgrade mends it
		return 0, 0, fmt.Errorf("%w: this release of messaging reserves no turns", people.ErrUnavailable)
	case reasonOf(err) == messagingv1.Reason_REASON_ORGANISATION_WITHOUT_SENDER:
		return 0, 0, people.ErrNoSender
	}
	if refused := answer.GetRefused(); refused != nil {
		return 0, 0, &runs.RefusedError{
			Code: int(refused.GetErrorCode()), Messages: int(refused.GetMessages()), Explanation: refused.GetExplanation(),
		}
	}
	return int(answer.GetReserved()), answer.GetRetryAfter().AsDuration(), translate(err)
}

// Unfinished returns the open work for a person in messaging. people.ErrUnavailable when it cannot be reached, or is of a release
// that cannot say.
func (c *Client) Unfinished(ctx context.Context, orgID, profileID, phone string) (people.Unfinished, error) {
	found, err := c.rpc.GetUnfinished(ctx, &messagingv1.GetUnfinishedRequest{OrgId: orgID, ProfileId: profileID, Phone: phone})
	if status.Code(err) == codes.Unimplemented {
		return people.Unfinished{}, people.ErrUnavailable
	}
	return people.Unfinished{
		MessageID: found.GetMessageId(), MessageStatus: found.GetMessageStatus(), TextID: found.GetTextId(),
	}, translate(err)
}

// ForwardHold has messaging keep every message from a phone, or send them again; conversation.ErrKeepsNoHolds when it is of a release
// that does not know how, people.ErrUnavailable when it cannot be reached or a message is still on its way.
func (c *Client) ForwardHold(ctx context.Context, orgID, phone string, held bool, version int64) error {
	_, err := c.rpc.SetHold(ctx, &messagingv1.SetHoldRequest{OrgId: orgID, Phone: phone, Held: held, Version: version})
	if status.Code(err) == codes.Unimplemented {
		return people.ErrKeepsNoHolds
	}
	return translate(err)
}

// JudgeWords ends the hold by words of a person that may be an opt-out. A messaging service of a release that keeps no such hold has none
// to end. people.ErrUnavailable.
func (c *Client) JudgeWords(ctx context.Context, orgID, phone string) error {
	_, err := c.rpc.JudgeWords(ctx, &messagingv1.JudgeWordsRequest{OrgId: orgID, Phone: phone})
	if status.Code(err) == codes.Unimplemented {
		return nil
	}
	return translate(err)
}

// reasonOf is the reason that messaging gave with an error.
func reasonOf(err error) messagingv1.Reason {
	reason, _ := rpc.Reason(err)
	return messagingv1.Reason(messagingv1.Reason_value[reason])
}

// translate turns what a retry can mend into people.ErrUnavailable.
func translate(err error) error {
	switch status.Code(err) {
	case codes.OK:
		return nil
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.ResourceExhausted, codes.Aborted:
		return fmt.Errorf("%w: %w", people.ErrUnavailable, err)
	default:
		return err
	}
}

// Timeout bounds every call: a call to Twilio, and settling what came of it.
const Timeout = 15 * time.Second
