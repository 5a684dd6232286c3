package server

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"paceline.internal/platform/letters"
	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/inbox"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sms"
)

const (
	defaultPage = 50
	largestPage = 500
	// longestReason bounds an operator's note, in characters.
	longestReason = send.MaxReason
	// The longest fields of evidence and of a consent record, in characters.
	longestMethod    = 100
	longestReference = 200
	longestShown     = 1000
	// clockSkew is how far another clock may be ahead of ours.
	clockSkew = time.Minute
)

// evidenceLine matches how the ledger writes evidence: each item on a line of its own below the words. A caller's words must not match it.
var evidenceLine = regexp.MustCompile(`(?m)^\s*(?:method|reference|source|collected_at):`)

// invalid complains about a field by name, never by value.
func invalid(field, problem string) error {
	return fmt.Errorf("%w: %s %s", send.ErrInvalid, field, problem)
}

func readID(field, text string) (uuid.UUID, error) {
	id, err := uuid.Parse(text)
	if err != nil || id == uuid.Nil {
		return uuid.Nil, invalid(field, "must be a UUID")
	}
	return id, nil
}

// readOptionalID is uuid.Nil for an empty field.
func readOptionalID(field, text string) (uuid.UUID, error) {
	if text == "" {
		return uuid.Nil, nil
	}
	return readID(field, text)
}

// readPhone reads a number to look something up by, or to note what a person said: what was stored can be read back.
func readPhone(field, text string) (sms.Phone, error) {
	phone, err := sms.ReadPhone(text)
	if err != nil {
		return sms.Phone{}, fmt.Errorf("%s: %w", field, err)
	}
	return phone, nil
}

// purposeForm is what a purpose looks like.
var purposeForm = regexp.MustCompile(`^[a-z_]{0,40}$`)

func readSend(r *messagingv1.SendRequest) (request send.Request, err error) {
	request = send.Request{
		Key: r.GetIdempotencyKey(), CorrelationID: r.GetCorrelationId(), HoldVersion: r.GetHoldVersion(), Purpose: r.GetPurpose(),
	}
	if request.OrgID, err = readID("org_id", r.GetOrgId()); err != nil {
		return send.Request{}, err
	}
	if request.ProfileID, err = readOptionalID("profile_id", r.GetProfileId()); err != nil {
		return send.Request{}, err
	}
	// It is a profile's, which the library has read when the profile was made. To have it read the number again took 20 to 40 us of every
	// step; what its country no longer assigns, Twilio refuses.
	if request.To, err = sms.StoredPhone(r.GetTo()); err != nil {
		return send.Request{}, fmt.Errorf("to: %w", err)
	}
	if request.Body, err = sms.NewBody(r.GetBody()); err != nil {
		return send.Request{}, fmt.Errorf("body: %w", err)
	}
	if request.UnknownPolicy, err = readPolicy(r.GetUnknownPolicy()); err != nil {
		return send.Request{}, err
	}
	if request.Consent, err = readGiven(r.GetConsent()); err != nil {
		return send.Request{}, err
	}
	if !purposeForm.MatchString(request.Purpose) {
		return send.Request{}, invalid("purpose", "must have at most 40 characters of a to z and _")
	}
	switch r.GetMessageClass() {
	case messagingv1.MessageClass_MESSAGE_CLASS_UNSPECIFIED, messagingv1.MessageClass_MESSAGE_CLASS_CONVERSATION:
	case messagingv1.MessageClass_MESSAGE_CLASS_OUTREACH:
		request.Outreach = true
	default:
		return send.Request{}, invalid("message_class", "is not one of ours")
	}
	return request, nil
}

func readReminders(r *messagingv1.SetRemindersRequest, now time.Time) (said inbox.Reminders, err error) {
	said = inbox.Reminders{Source: inbox.RemindersSource(r.GetSource()), SaidAt: now, At: now}
	if said.OrgID, err = readID("org_id", r.GetOrgId()); err != nil {
		return inbox.Reminders{}, err
	}
	if said.Phone, err = sms.StoredPhone(r.GetPhone()); err != nil { // as of a hold
		return inbox.Reminders{}, fmt.Errorf("phone: %w", err)
	}
	switch r.GetReminders() {
	case messagingv1.Switch_SWITCH_OFF:
		said.Off = true
	case messagingv1.Switch_SWITCH_ON:
	case messagingv1.Switch_SWITCH_UNSPECIFIED:
		fallthrough
	default:
		return inbox.Reminders{}, invalid("reminders", "must be OFF or ON")
	}
	if said.Source != inbox.SaidByPerson && said.Source != inbox.SaidByOperator {
		return inbox.Reminders{}, invalid("source", "must be person or operator")
	}
	if at := r.GetSaidAt(); at != nil {
		said.SaidAt = at.AsTime()
		if !at.IsValid() || said.SaidAt.After(now.Add(clockSkew)) { // a wish from the future would be in the way of every later one
			return inbox.Reminders{}, invalid("said_at", "must be a time that is not in the future")
		}
	}
	return said, nil
}

func readHold(r *messagingv1.SetHoldRequest, now time.Time) (inbox.Hold, error) {
	orgID, err := readID("org_id", r.GetOrgId())
	if err != nil {
		return inbox.Hold{}, err
	}
	phone, err := sms.StoredPhone(r.GetPhone()) // it is a profile's; one that is no number any more can be held all the same
	if err != nil {
		return inbox.Hold{}, fmt.Errorf("phone: %w", err)
	}
	if r.GetVersion() < 1 {
		return inbox.Hold{}, invalid("version", "must be at least 1")
	}
	return inbox.Hold{OrgID: orgID, Phone: phone, Held: r.GetHeld(), Version: r.GetVersion(), At: now}, nil
}

// readGiven reads how the recipient of a message agreed; zero when the caller does not say.
func readGiven(r *messagingv1.ConsentRecord) (consent.Given, error) {
	if r == nil {
		return consent.Given{}, nil
	}
	shown := strings.TrimSpace(letters.Compose(r.GetWordsShown()))
	if evidenceLine.MatchString(shown) {
		return consent.Given{}, invalid("consent.words_shown", "must have no line that begins like a line of evidence")
	}
	if shown == "" || utf8.RuneCountInString(shown) > longestShown || strings.ContainsRune(shown, 0) {
		return consent.Given{}, invalid("consent.words_shown", fmt.Sprintf("must have 1 to %d characters", longestShown))
	}
	source, err := readLine("consent.source", r.GetSource(), longestMethod)
	if err != nil {
		return consent.Given{}, err
	}
	if !r.GetCollectedAt().IsValid() {
		return consent.Given{}, invalid("consent.collected_at", "must be a time")
	}
	return consent.Given{Source: source, WordsShown: shown, CollectedAt: r.GetCollectedAt().AsTime()}, nil
}

// readLine reads a field that the ledger keeps on a line of its own.
func readLine(field, text string, longest int) (string, error) {
	line := strings.TrimSpace(letters.Compose(text))
	breaks := func(r rune) bool { return unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp, unicode.Cf) }
	visible := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
	if !strings.ContainsFunc(line, visible) || utf8.RuneCountInString(line) > longest || strings.ContainsFunc(line, breaks) {
		return "", invalid(field, fmt.Sprintf("must have 1 to %d characters on one line", longest))
	}
	return line, nil
}

// readEvidence reads on what grounds an operator opts a person in.
func readEvidence(r *messagingv1.Evidence, now time.Time) (*consent.Evidence, error) {
	method, err := readLine("evidence.method", r.GetMethod(), longestMethod)
	if err != nil {
		return nil, err
	}
	reference, err := readLine("evidence.reference", r.GetReference(), longestReference)
	if err != nil {
		return nil, err
	}
	collected := r.GetCollectedAt()
	if !collected.IsValid() || collected.AsTime().After(now.Add(clockSkew)) {
		return nil, invalid("evidence.collected_at", "must be when the person said so, in RFC 3339 such as 2026-11-20T12:00:00Z, and not "+
			"in the future")
	}
	return &consent.Evidence{Method: method, CollectedAt: collected.AsTime(), Reference: reference}, nil
}

func readPolicy(p messagingv1.UnknownPolicy) (send.UnknownPolicy, error) {
	switch p {
	case messagingv1.UnknownPolicy_UNKNOWN_POLICY_UNSPECIFIED, messagingv1.UnknownPolicy_UNKNOWN_POLICY_CONFIRM_ABSENT_THEN_RESEND:
		return send.ConfirmAbsentThenResend, nil
	case messagingv1.UnknownPolicy_UNKNOWN_POLICY_NEVER_DUPLICATE:
		return send.NeverDuplicate, nil
	}
	return "", invalid("unknown_policy", "is not one of ours")
}

func readResolution(v view, r *messagingv1.ResolveMessageRequest) (send.ResolveRequest, error) {
	id, err := readID("message_id", r.GetMessageId())
	if err != nil {
		return send.ResolveRequest{}, err
	}
	kinds := map[messagingv1.Resolution]send.ResolutionKind{
		messagingv1.Resolution_RESOLUTION_SENT:     send.Sent,
		messagingv1.Resolution_RESOLUTION_NOT_SENT: send.NotSent,
		messagingv1.Resolution_RESOLUTION_GIVE_UP:  send.GiveUp,
	}
	return send.ResolveRequest{
		OrgID: v.orgID, MessageID: id, Kind: kinds[r.GetResolution()], SID: r.GetTwilioSid(), Attempt: int(r.GetAttempt()),
		Reason: letters.Compose(r.GetReason()),
	}, nil
}

// readReceipt is lenient about our id: it comes back in a URL, and a receipt must be kept whatever has become of that.
func readReceipt(r *messagingv1.RecordStatusRequest, now time.Time) send.Receipt {
	id, err := uuid.Parse(r.GetMessageId())
	if err != nil {
		id = uuid.Nil
	}
	return send.Receipt{
		MessageID: id, SID: r.GetTwilioSid(), Status: r.GetStatus(), ErrorCode: int(r.GetErrorCode()), Raw: r.GetRaw(), At: now,
	}
}

func readInbound(r *messagingv1.RecordInboundRequest) (inbox.Inbound, error) {
	profileID, err := readOptionalID("profile_id", r.GetProfileId())
	if err != nil {
		return inbox.Inbound{}, err
	}
	orgID, err := readOptionalID("org_id", r.GetOrgId())
	if err != nil {
		return inbox.Inbound{}, err
	}
	from, err := sms.StoredPhone(r.GetFrom())
	if err != nil {
		return inbox.Inbound{}, fmt.Errorf("from: %w", err)
	}
	var received time.Time
	if r.GetReceivedAt() != nil {
		if err := r.GetReceivedAt().CheckValid(); err != nil {
			return inbox.Inbound{}, fmt.Errorf("%w: received_at: %w", send.ErrInvalid, err)
		}
		received = r.GetReceivedAt().AsTime()
	}
	return inbox.Inbound{
		OrgID: orgID, ReceivedAt: received, SID: r.GetTwilioSid(), ProfileID: profileID, From: from, To: r.GetTo(),
		ServiceSID: r.GetMessagingServiceSid(), Body: r.GetBody(), Segments: int(r.GetSegments()), OptOutType: r.GetOptOutType(),
		DatedByCarrier: r.GetDatedByCarrier(), Locale: r.GetLocale(),
	}, nil
}

func readNote(v view, sender send.Sender, r *messagingv1.SetConsentRequest, now time.Time) (inbox.Note, error) {
	phone, err := readPhone("phone", r.GetPhone())
	if err != nil {
		return inbox.Note{}, err
	}
	state, err := consent.ParseState(r.GetState())
	if err != nil {
		return inbox.Note{}, invalid("state", "must be opted_in or opted_out")
	}
	reason := strings.TrimSpace(letters.Compose(r.GetReason()))
	if reason == "" || utf8.RuneCountInString(reason) > longestReason || strings.ContainsRune(reason, 0) {
		return inbox.Note{}, invalid("reason", fmt.Sprintf("must have 1 to %d characters", longestReason))
	}
	if evidenceLine.MatchString(reason) {
		return inbox.Note{}, invalid("reason", "must have no line that begins like a line of evidence")
	}
	note := inbox.Note{OrgID: v.orgID, Phone: phone, State: state, Reason: reason, At: now}
	if from, err := sender.Of(v.orgID); err == nil { // an organisation without a sender may keep a ledger too
		note.Sender = from
	}
	switch {
	case r.GetEvidence() == nil: // the store knows whether it is needed
	case state != consent.OptedIn:
		return inbox.Note{}, invalid("evidence", "is for opted_in only; give the reason of an opt-out in reason")
	default:
		note.Evidence, err = readEvidence(r.GetEvidence(), now)
	}
	return note, err
}

func readQuery(v view, r *messagingv1.ListMessagesRequest) (send.Query, error) {
	asked, err := readOptionalID("profile_id", r.GetProfileId())
	if err != nil {
		return send.Query{}, err
	}
	profileID, err := v.narrow(asked)
	if err != nil {
		return send.Query{}, err
	}
	q := send.Query{
		OrgID: v.orgID, ProfileID: profileID, Key: r.GetIdempotencyKey(), Limit: int(r.GetPageSize()),
	}
	switch {
	case q.Limit == 0:
		q.Limit = defaultPage
	case q.Limit < 0 || q.Limit > largestPage:
		return send.Query{}, invalid("page_size", fmt.Sprintf("must be 1 to %d", largestPage))
	}
	if r.GetStatus() != "" {
		if q.Status, err = sms.ParseStatus(r.GetStatus()); err != nil {
			return send.Query{}, invalid("status", fmt.Sprintf("must be one of %v", sms.Statuses()))
		}
	}
	if strings.ContainsRune(q.Key, 0) {
		return send.Query{}, invalid("idempotency_key", "holds a character that no key has")
	}
	q.Before, err = readPlace(r)
	return q, err
}

// readPlace is the id behind which a list goes on, newest first.
func readPlace(r rpc.List) (uuid.UUID, error) {
	place, err := rpc.PageFrom(r)
	if err != nil || place == "" {
		return uuid.Max, err
	}
	id, err := uuid.FromBytes([]byte(place))
	if err != nil {
		return uuid.Nil, rpc.ForeignPage()
	}
	return id, nil
}

func writePlace(r rpc.List, last uuid.UUID) string { return rpc.NextPage(r, string(last[:])) }

// readLedgerPage reads the page of a ledger; its token is the number of the last line of the page before.
func readLedgerPage(r *messagingv1.GetConsentRequest) (inbox.LedgerPage, error) {
	page := inbox.LedgerPage{Limit: int(r.GetPageSize())}
	switch {
	case page.Limit == 0:
		page.Limit = inbox.LargestLedgerPage
	case page.Limit < 0 || page.Limit > inbox.LargestLedgerPage:
		return inbox.LedgerPage{}, invalid("page_size", fmt.Sprintf("must be 1 to %d", inbox.LargestLedgerPage))
	}
	place, err := rpc.PageFrom(r)
	if err != nil || place == "" {
		return page, err
	}
	if page.After, err = strconv.ParseInt(place, 10, 64); err != nil || page.After < 0 {
		return inbox.LedgerPage{}, rpc.ForeignPage()
	}
	return page, nil
}

func writeLedgerPlace(r *messagingv1.GetConsentRequest, l inbox.Ledger) string {
	if !l.More {
		return ""
	}
	return rpc.NextPage(r, strconv.FormatInt(l.Events[len(l.Events)-1].Seq, 10))
}
