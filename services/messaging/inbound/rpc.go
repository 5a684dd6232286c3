package inbound

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/consent/ledger"
	"paceline.internal/services/messaging/edge"
	"paceline.internal/services/messaging/send"
)

// RPC serves what people write.
type RPC struct {
	*Service

	Ledger *ledger.Store
}

// ListInbound lists what people wrote to an organisation's sender, as Twilio has it.
func (s *RPC) ListInbound(ctx context.Context, r *messagingv1.ListInboundRequest) (*messagingv1.ListInboundResponse, error) {
	span, err := readSpan(r)
	if err != nil {
		return nil, err
	}
	page, err := s.Service.ListInbound(ctx, span)
	return writeListed(page, r.GetRecordedToo()), err
}

func readSpan(r *messagingv1.ListInboundRequest) (Span, error) {
	orgID, err := edge.ReadID("org_id", r.GetOrgId())
	if err != nil {
		return Span{}, err
	}
	since, err := edge.ReadTime("since", r.GetSince())
	if err != nil {
		return Span{}, err
	}
	until, err := edge.ReadTime("until", r.GetUntil())
	return Span{OrgID: orgID, Since: since, Until: until, Page: r.GetPageToken()}, err
}

// writeListed gives of a recorded message only that it is recorded: the caller does not need its words again, unless it says so.
func writeListed(page ListedPage, recordedToo bool) *messagingv1.ListInboundResponse {
	answer := &messagingv1.ListInboundResponse{NextPageToken: page.Next}
	for _, m := range page.Messages {
		listed := &messagingv1.InboundText{TwilioSid: m.SID, SentAt: timestamppb.New(m.SentAt), Recorded: m.Recorded}
		if !m.Recorded || recordedToo {
			listed.From, listed.To, listed.MessagingServiceSid, listed.Body = m.From, m.To, m.ServiceSID, m.Body
			listed.Segments, listed.Media, listed.AccountSid = edge.Int32(m.Segments), edge.Int32(m.Media), m.Account
		}
		answer.Texts = append(answer.Texts, listed)
	}
	return answer
}

func readInbound(ctx context.Context, r *messagingv1.RecordInboundRequest) (Inbound, error) {
	profileID, err := edge.ReadOptionalID("profile_id", r.GetProfileId())
	if err != nil {
		return Inbound{}, err
	}
	orgID, err := edge.ReadOptionalID("org_id", r.GetOrgId())
	if err != nil {
		return Inbound{}, err
	}
	owner, err := edge.ReadOptionalID("owner_org_id", r.GetOwnerOrgId())
	if err != nil {
		return Inbound{}, err
	}
	from, err := edge.ReadProfilePhone("from", r.GetFrom()) // also one that its country no longer assigns
	if err != nil {
		return Inbound{}, err
	}
	caller, _ := rpc.PrincipalFrom(ctx)
	var received time.Time
	if r.GetReceivedAt() != nil {
		if received, err = edge.ReadTime("received_at", r.GetReceivedAt()); err != nil {
			return Inbound{}, err
		}
	}
	if err := errors.Join(checkListed("listed_before", r.GetListedBefore()), checkListed("listed_after", r.GetListedAfter())); err != nil {
		return Inbound{}, err
	}
	return Inbound{
		OrgID: orgID, ReceivedAt: received, SID: r.GetTwilioSid(), ProfileID: profileID, From: from, To: r.GetTo(),
		ServiceSID: r.GetMessagingServiceSid(), Body: r.GetBody(), Segments: int(r.GetSegments()), OptOutType: r.GetOptOutType(),
		DatedByCarrier: r.GetDatedByCarrier(), Locale: r.GetLocale(), Account: r.GetAccountSid(), Owner: owner,
		Ahead: caller.Subject == rpc.Gateway, Before: r.GetListedBefore(), After: r.GetListedAfter(),
		Distressed: r.GetDistressed(),
	}, nil
}

const (
	mostListed = 500
	longestSID = 64
)

// checkListed bounds the SIDs that the caller lists.
func checkListed(field string, sids []string) error {
	if len(sids) > mostListed || slices.ContainsFunc(sids, func(sid string) bool { return len(sid) > longestSID }) {
		return edge.Invalid(field, fmt.Sprintf("has at most %d SIDs of at most %d characters", mostListed, longestSID))
	}
	return nil
}

// RecordInbound stores a message of a person and applies its consent keywords.
func (s *RPC) RecordInbound(ctx context.Context, r *messagingv1.RecordInboundRequest) (*messagingv1.RecordInboundResponse, error) {
	in, err := readInbound(ctx, r)
	if err != nil {
		return nil, err
	}
	m, err := s.Service.RecordInbound(ctx, in)
	if err != nil {
		return nil, err
	}
	answer := &messagingv1.RecordInboundResponse{
		Message: send.WriteMessage(m), ConsentEffect: writeEffect(m.Effect(r.GetUnderstandsPreferences())), OrgId: m.OrgID.String(),
		LiftsHold: m.LiftsHold,
	}
	if r.GetUnderstandsPreferences() {
		answer.Reminders, answer.Tips = writeSwitch(m.Preferences.Reminders), writeSwitch(m.Preferences.Tips)
	}
	if m.ConsentEffect == consent.OptOut {
		state, err := s.Ledger.State(ctx, m.OrgID, m.From)
		answer.ConsentState = string(state)
		return answer, err
	}
	return answer, nil
}

// writeEffect returns the value of the proto that has the effect's name.
func writeEffect(e consent.Effect) messagingv1.ConsentEffect {
	return messagingv1.ConsentEffect(messagingv1.ConsentEffect_value["CONSENT_EFFECT_"+strings.ToUpper(e.String())])
}

// writeSwitch returns the value of the proto that has the switch's name; none for what is unsaid.
func writeSwitch(s consent.Switch) messagingv1.Switch {
	return messagingv1.Switch(messagingv1.Switch_value["SWITCH_"+strings.ToUpper(s.String())])
}
