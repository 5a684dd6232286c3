package server

import (
	"math"
	"slices"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/audit"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/inbox"
	"paceline.internal/services/messaging/send"
)

// writeOutcome shows an outcome that is younger than the callers there may be only to one that understands it.
func writeOutcome(o send.Outcome, understands []messagingv1.Outcome) messagingv1.Outcome {
	understood := func(o, instead messagingv1.Outcome) messagingv1.Outcome {
		if slices.Contains(understands, o) {
			return o
		}
		return instead
	}
	switch o {
	case send.Accepted:
		return messagingv1.Outcome_OUTCOME_ACCEPTED
	case send.AlreadyAccepted:
		return messagingv1.Outcome_OUTCOME_ALREADY_ACCEPTED
	case send.InFlight:
		return messagingv1.Outcome_OUTCOME_IN_FLIGHT
	case send.Unknown:
		return messagingv1.Outcome_OUTCOME_UNKNOWN
	case send.Throttled, send.Paced, send.Capped: // the last one is an error before it comes here
		return messagingv1.Outcome_OUTCOME_THROTTLED
	case send.Rejected:
		return messagingv1.Outcome_OUTCOME_REJECTED
	case send.OptedOut:
		return messagingv1.Outcome_OUTCOME_OPTED_OUT
	case send.Parked:
		return messagingv1.Outcome_OUTCOME_PARKED
	case send.GivenUp:
		return messagingv1.Outcome_OUTCOME_GIVEN_UP
	case send.Held:
		return understood(messagingv1.Outcome_OUTCOME_HELD, messagingv1.Outcome_OUTCOME_THROTTLED)
	case send.RemindersOff:
		return understood(messagingv1.Outcome_OUTCOME_REMINDERS_OFF, messagingv1.Outcome_OUTCOME_OPTED_OUT)
	}
	return messagingv1.Outcome_OUTCOME_UNSPECIFIED
}

func writeEffect(e consent.Effect) messagingv1.ConsentEffect {
	switch e {
	case consent.None:
		return messagingv1.ConsentEffect_CONSENT_EFFECT_NONE
	case consent.OptOut:
		return messagingv1.ConsentEffect_CONSENT_EFFECT_OPT_OUT
	case consent.OptIn:
		return messagingv1.ConsentEffect_CONSENT_EFFECT_OPT_IN
	case consent.Help:
		return messagingv1.ConsentEffect_CONSENT_EFFECT_HELP
	case consent.Overtaken:
		return messagingv1.ConsentEffect_CONSENT_EFFECT_OVERTAKEN
	case consent.Ambiguous:
		return messagingv1.ConsentEffect_CONSENT_EFFECT_DOUBTFUL
	}
	return messagingv1.ConsentEffect_CONSENT_EFFECT_UNSPECIFIED
}

func writeSwitch(s consent.Switch) messagingv1.Switch {
	switch s {
	case consent.Off:
		return messagingv1.Switch_SWITCH_OFF
	case consent.On:
		return messagingv1.Switch_SWITCH_ON
	case consent.Unsaid:
	}
	return messagingv1.Switch_SWITCH_UNSPECIFIED
}

func writeMessage(m send.Message) *messagingv1.Message {
	answer := &messagingv1.Message{
		MessageId: m.ID.String(), ProfileId: writeID(m.ProfileID), Direction: string(m.Direction), From: m.From, To: m.To, Body: m.Body,
		Status: string(m.Status), TwilioSid: m.SID, IdempotencyKey: m.Key, Segments: int32Of(m.Segments),
		CreatedAt: timestamppb.New(m.CreatedAt), AcceptedAt: writeTime(m.AcceptedAt),
		NeedsPerson: m.NeedsPerson(),
	}
	if m.ErrorCode != 0 {
		answer.ErrorCode = new(int32Of(m.ErrorCode))
	}
	return answer
}

func writeEvidence(e send.Evidence) *messagingv1.GetEvidenceResponse {
	answer := &messagingv1.GetEvidenceResponse{
		Message: writeMessage(e.Message), NextLookAt: writeTime(e.Message.NextCheckAt), Attempt: int32Of(e.Message.Attempts),
	}
	for _, item := range e.Items {
		look := &messagingv1.Look{At: timestamppb.New(item.At), Finding: string(item.Kind), Detail: item.Detail}
		for _, c := range item.Candidates {
			look.Candidates = append(look.Candidates, &messagingv1.Candidate{
				TwilioSid: c.SID, Status: c.Status, CreatedAt: timestamppb.New(c.CreatedAt),
			})
		}
		answer.Looks = append(answer.Looks, look)
	}
	for _, r := range e.Receipts {
		receipt := &messagingv1.Receipt{At: timestamppb.New(r.At), TwilioSid: r.SID, Status: r.Status}
		if r.ErrorCode != 0 {
			receipt.ErrorCode = new(int32Of(r.ErrorCode))
		}
		answer.Receipts = append(answer.Receipts, receipt)
	}
	return answer
}

// writePage cuts the one message too many that says that there is a next page.
func writePage(r *messagingv1.ListMessagesRequest, found []send.Message, size int) *messagingv1.ListMessagesResponse {
	answer := &messagingv1.ListMessagesResponse{}
	if len(found) > size {
		found = found[:size]
		answer.NextPageToken = writePlace(r, found[size-1].ID)
	}
	for _, m := range found {
		answer.Messages = append(answer.Messages, writeMessage(m))
	}
	return answer
}

func writeConsent(l inbox.Ledger) *messagingv1.Consent {
	return &messagingv1.Consent{
		Phone: l.Phone.String(), State: string(l.State), UpdatedAt: timestamppb.New(l.UpdatedAt), BlockedByCarrier: l.CarrierBlocks,
	}
}

func writeChain(l inbox.Ledger) *messagingv1.ConsentChain {
	chain := &messagingv1.ConsentChain{
		OrgId: l.OrgID.String(), Length: int32Of(int(l.Chain.Length)), Head: l.Chain.Head, Verified: l.Broken == nil,
	}
	if l.Broken != nil {
		chain.BrokenAt, chain.Problem = int32Of(int(l.Broken.Seq)), l.Broken.Why
	}
	return chain
}

func writeEvents(l inbox.Ledger) []*messagingv1.ConsentEvent {
	events := make([]*messagingv1.ConsentEvent, len(l.Events))
	for i, e := range l.Events {
		events[i] = &messagingv1.ConsentEvent{
			At: timestamppb.New(e.At), State: string(e.State), Source: string(e.Source), Words: e.Words, Sender: e.Sender,
			MessageId: writeID(e.MessageID), Seq: int32Of(int(e.Seq)), KeywordPack: e.KeywordPack, RulesVersion: e.Rules,
			ConfirmedBy: string(e.ConfirmedBy), Confirmation: e.Confirmation, ConfirmationOutcome: e.Confirmed,
			PrevHash: e.PrevHash, Hash: e.Hash, Actor: audit.Read(e.Actor),
		}
	}
	return events
}

func writeID(id uuid.UUID) string {
	if id == uuid.Nil {
		return ""
	}
	return id.String()
}

func writeTime(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// int32Of is for counts and codes, which are far smaller.
func int32Of(n int) int32 { return int32(min(max(n, math.MinInt32), math.MaxInt32)) }
