package send

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"paceline.internal/platform/letters"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/edge"
	"paceline.internal/services/messaging/sms"
)

// longestShown bounds the words that a person was shown, in characters.
const longestShown = 1000

// readGiven reads how the recipient of a message agreed; zero when the caller does not say.
func readGiven(r *messagingv1.ConsentRecord) (consent.Given, error) {
	if r == nil {
		return consent.Given{}, nil
	}
	shown := strings.TrimSpace(letters.Compose(r.GetWordsShown()))
	if edge.EvidenceLine.MatchString(shown) {
		return consent.Given{}, edge.Invalid("consent.words_shown", "must have no line that begins like a line of evidence")
	}
	if shown == "" || utf8.RuneCountInString(shown) > longestShown || strings.ContainsRune(shown, 0) {
		return consent.Given{}, edge.Invalid("consent.words_shown", fmt.Sprintf("must have 1 to %d characters", longestShown))
	}
	source, err := edge.ReadLine("consent.source", r.GetSource(), edge.LongestMethod)
	if err != nil {
		return consent.Given{}, err
	}
	if !r.GetCollectedAt().IsValid() {
		return consent.Given{}, edge.Invalid("consent.collected_at", "must be a time")
	}
	return consent.Given{Source: source, WordsShown: shown, CollectedAt: r.GetCollectedAt().AsTime()}, nil
}

// ReadPolicy reads what may be done about an unknown outcome.
func ReadPolicy(p messagingv1.UnknownPolicy) (UnknownPolicy, error) {
	switch p {
	case messagingv1.UnknownPolicy_UNKNOWN_POLICY_UNSPECIFIED, messagingv1.UnknownPolicy_UNKNOWN_POLICY_CONFIRM_ABSENT_THEN_RESEND:
		return ConfirmAbsentThenResend, nil
	case messagingv1.UnknownPolicy_UNKNOWN_POLICY_NEVER_DUPLICATE:
		return NeverDuplicate, nil
	}
	return "", edge.Invalid("unknown_policy", "is not one of ours")
}

func readResolution(v edge.View, r *messagingv1.ResolveMessageRequest) (ResolveRequest, error) {
	id, err := edge.ReadID("message_id", r.GetMessageId())
	if err != nil {
		return ResolveRequest{}, err
	}
	kinds := map[messagingv1.Resolution]ResolutionKind{
		messagingv1.Resolution_RESOLUTION_SENT:     Sent,
		messagingv1.Resolution_RESOLUTION_NOT_SENT: NotSent,
		messagingv1.Resolution_RESOLUTION_GIVE_UP:  GiveUp,
	}
	return ResolveRequest{
		OrgID: v.OrgID, MessageID: id, Kind: kinds[r.GetResolution()], SID: r.GetTwilioSid(), Attempt: int(r.GetAttempt()),
		Reason: letters.Compose(r.GetReason()),
	}, nil
}

// readReceipt is lenient about our id: it comes back in a URL, and a receipt must be kept also without it.
func readReceipt(r *messagingv1.RecordStatusRequest, now time.Time) Receipt {
	id, err := uuid.Parse(r.GetMessageId())
	if err != nil {
		id = uuid.Nil
	}
	var signed []uuid.UUID
	for _, text := range r.GetSignedByOrgIds() { // one that cannot be read has no message
		org, _ := uuid.Parse(text)
		signed = append(signed, org)
	}
	return Receipt{
		MessageID: id, SID: r.GetTwilioSid(), Status: r.GetStatus(), ErrorCode: int(r.GetErrorCode()), Raw: r.GetRaw(), At: now,
		Account: r.GetAccountSid(), SignedBy: signed,
	}
}

func readQuery(v edge.View, r *messagingv1.ListMessagesRequest) (Query, error) {
	asked, err := edge.ReadOptionalID("profile_id", r.GetProfileId())
	if err != nil {
		return Query{}, err
	}
	profileID, err := v.Narrow(asked)
	if err != nil {
		return Query{}, err
	}
	q := Query{OrgID: v.OrgID, ProfileID: profileID}
	if q.Limit, q.Before, err = edge.ReadPage(r, r.GetPageSize()); err != nil {
		return Query{}, err
	}
	if r.GetStatus() != "" {
		if q.Status, err = sms.ParseStatus(r.GetStatus()); err != nil {
			return Query{}, edge.Invalid("status", fmt.Sprintf("must be one of %v", sms.Statuses()))
		}
	}
	if q.Key, err = edge.ReadKey(r.GetIdempotencyKey()); err != nil {
		return Query{}, err
	}
	if q.Words = letters.Compose(r.GetWords()); q.Words == "" {
		return q, nil
	}
	if utf8.RuneCountInString(q.Words) > maxWords {
		return Query{}, edge.Invalid("words", fmt.Sprintf("must be at most %d characters", maxWords))
	}
	if q.ProfileID != uuid.Nil || q.Key != "" || q.Status != "" {
		return Query{}, edge.Invalid("words", "cannot be combined with another filter")
	}
	return q, nil
}

// maxWords limits what messages can be searched for, in characters.
const maxWords = 100
