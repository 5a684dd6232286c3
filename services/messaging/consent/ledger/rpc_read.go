package ledger

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/audit"
	"paceline.internal/platform/letters"
	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/edge"
)

// longestReference bounds the reference of a piece of evidence, in characters.
const longestReference = 200

func readReminders(r *messagingv1.SetRemindersRequest, now time.Time) (said Reminders, err error) {
	said = Reminders{Source: RemindersSource(r.GetSource()), SaidAt: now, At: now}
	if said.OrgID, err = edge.ReadID("org_id", r.GetOrgId()); err != nil {
		return Reminders{}, err
	}
	if said.Phone, err = edge.ReadProfilePhone("phone", r.GetPhone()); err != nil {
		return Reminders{}, err
	}
	switch r.GetReminders() {
	case messagingv1.Switch_SWITCH_OFF:
		said.Off = true
	case messagingv1.Switch_SWITCH_ON:
	case messagingv1.Switch_SWITCH_UNSPECIFIED:
		fallthrough
	default:
		return Reminders{}, edge.Invalid("reminders", "must be OFF or ON")
	}
	if said.Source != SaidByPerson && said.Source != SaidByOperator {
		return Reminders{}, edge.Invalid("source", "must be person or operator")
	}
	if at := r.GetSaidAt(); at != nil {
		said.SaidAt = at.AsTime()
		if !at.IsValid() || said.SaidAt.After(now.Add(edge.ClockSkew)) { // a wish from the future would be in the way of every later one
			return Reminders{}, edge.Invalid("said_at", "must be a time that is not in the future")
		}
	}
	return said, nil
}

func readHold(r *messagingv1.SetHoldRequest, now time.Time) (Hold, error) {
	orgID, err := edge.ReadID("org_id", r.GetOrgId())
	if err != nil {
		return Hold{}, err
	}
	phone, err := edge.ReadProfilePhone("phone", r.GetPhone())
	if err != nil {
		return Hold{}, err
	}
	if r.GetVersion() < 1 {
		return Hold{}, edge.Invalid("version", "must be at least 1")
	}
	return Hold{OrgID: orgID, Phone: phone, Held: r.GetHeld(), Version: r.GetVersion(), At: now}, nil
}

// readEvidence reads on what grounds an operator opts a person in.
func readEvidence(r *messagingv1.Evidence, now time.Time) (*consent.Evidence, error) {
	method, err := edge.ReadLine("evidence.method", r.GetMethod(), edge.LongestMethod)
	if err != nil {
		return nil, err
	}
	reference, err := edge.ReadLine("evidence.reference", r.GetReference(), longestReference)
	if err != nil {
		return nil, err
	}
	collected := r.GetCollectedAt()
	if !collected.IsValid() || collected.AsTime().After(now.Add(edge.ClockSkew)) {
		return nil, edge.Invalid("evidence.collected_at", "must be when the person said so, in RFC 3339 such as 2026-11-20T12:00:00Z, and not "+
			"in the future")
	}
	return &consent.Evidence{Method: method, CollectedAt: collected.AsTime(), Reference: reference}, nil
}

func (s *RPC) readNote(ctx context.Context, v edge.View, r *messagingv1.SetConsentRequest) (Note, error) {
	now := s.Now()
	phone, err := edge.ReadPhone("phone", r.GetPhone())
	if err != nil {
		return Note{}, err
	}
	state, err := consent.ParseState(r.GetState())
	if err != nil {
		return Note{}, edge.Invalid("state", "must be opted_in or opted_out")
	}
	reason := strings.TrimSpace(letters.Compose(r.GetReason()))
	if reason == "" || utf8.RuneCountInString(reason) > edge.LongestReason || strings.ContainsRune(reason, 0) {
		return Note{}, edge.Invalid("reason", fmt.Sprintf("must have 1 to %d characters", edge.LongestReason))
	}
	if edge.EvidenceLine.MatchString(reason) {
		return Note{}, edge.Invalid("reason", "must have no line that begins like a line of evidence")
	}
	note := Note{OrgID: v.OrgID, Phone: phone, State: state, Reason: reason, At: now}
	if from, err := s.SenderOf(ctx, v.OrgID); err == nil {
		note.Sender = from
	}
	switch {
	case r.GetEvidence() == nil: // the store knows whether it is needed
	case state != consent.OptedIn:
		return Note{}, edge.Invalid("evidence", "is for opted_in only; give the reason of an opt-out in reason")
	default:
		note.Evidence, err = readEvidence(r.GetEvidence(), now)
	}
	return note, err
}

// readLedgerPage reads the page of a ledger; its token is the number of the last line of the page before.
func readLedgerPage(r *messagingv1.GetConsentRequest) (Page, error) {
	var page Page
	var err error
	if page.Limit, err = edge.ReadPageSize(r.GetPageSize(), edge.LargestPage); err != nil {
		return Page{}, err
	}
	place, err := rpc.PageFrom(r)
	if err != nil || place == "" {
		return page, err
	}
	if page.After, err = strconv.ParseInt(place, 10, 64); err != nil || page.After < 0 {
		return Page{}, rpc.ForeignPage()
	}
	return page, nil
}

func writeLedgerPlace(r *messagingv1.GetConsentRequest, l Ledger) string {
	if !l.More {
		return ""
	}
	return rpc.NextPage(r, strconv.FormatInt(l.Events[len(l.Events)-1].Seq, 10))
}

func writeConsent(l Ledger) *messagingv1.Consent {
	return &messagingv1.Consent{
		Phone: l.Phone.String(), State: string(l.State), UpdatedAt: timestamppb.New(l.UpdatedAt), BlockedByCarrier: l.CarrierBlocks,
	}
}

func writeChain(l Ledger) *messagingv1.ConsentChain {
	chain := &messagingv1.ConsentChain{
		OrgId: l.OrgID.String(), Length: edge.Int32(int(l.Chain.Length)), Head: l.Chain.Head, Verified: l.Broken == nil,
	}
	if l.Broken != nil {
		chain.BrokenAt, chain.Problem = edge.Int32(int(l.Broken.Seq)), l.Broken.Why
	}
	return chain
}

func writeEvents(l Ledger) []*messagingv1.ConsentEvent {
	events := make([]*messagingv1.ConsentEvent, len(l.Events))
	for i, e := range l.Events {
		events[i] = &messagingv1.ConsentEvent{
			At: timestamppb.New(e.At), State: string(e.State), Source: string(e.Source), Words: e.Words, Sender: e.Sender,
			MessageId: edge.WriteID(e.MessageID), Seq: edge.Int32(int(e.Seq)), KeywordPack: e.KeywordPack, RulesVersion: e.Rules,
			ConfirmedBy: string(e.ConfirmedBy), Confirmation: e.Confirmation, ConfirmationOutcome: e.Confirmed,
			PrevHash: e.PrevHash, Hash: e.Hash, Actor: audit.Read(e.Actor),
		}
	}
	return events
}
