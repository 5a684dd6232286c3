package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging/inbox"
	"paceline.internal/services/messaging/sms"
)

// largestExport leaves room in a message of gRPC, which is 4 MiB at most, for onboarding's part.
const largestExport = 2 << 20

func readPerson(r interface {
	GetOrgId() string
	GetProfileId() string
	GetPhone() string
},
) (p inbox.Person, err error) {
	if p.OrgID, err = readID("org_id", r.GetOrgId()); err != nil {
		return p, err
	}
	if p.ProfileID, err = readID("profile_id", r.GetProfileId()); err != nil {
		return p, err
	}
	if p.Phone, err = sms.StoredPhone(r.GetPhone()); err != nil { // it is a profile's; see readHold
		return p, fmt.Errorf("phone: %w", err)
	}
	return p, nil
}

// ErasePerson erases a person, or says what it waits for.
func (s *Server) ErasePerson(ctx context.Context, r *messagingv1.ErasePersonRequest) (*messagingv1.ErasePersonResponse, error) {
	p, err := readPerson(r)
	if err != nil {
		return nil, refuse(ctx, err)
	}
	if r.GetOnlyAsk() {
		pseudonym, err := s.Store.CanErase(ctx, p)
		if err != nil {
			return nil, refuse(ctx, err)
		}
		return &messagingv1.ErasePersonResponse{Pseudonym: pseudonym}, nil
	}
	e, err := s.Store.ErasePerson(ctx, p, s.Now())
	if err != nil {
		return nil, refuse(ctx, err)
	}
	waits := writeID(e.WaitsFor)
	return &messagingv1.ErasePersonResponse{Erased: waits == "", WaitsFor: waits, Pseudonym: e.Pseudonym}, nil
}

// ExportPerson is everything that is kept here about a person.
func (s *Server) ExportPerson(ctx context.Context, r *messagingv1.ExportPersonRequest) (*messagingv1.ExportPersonResponse, error) {
	p, err := readPerson(r)
	if err != nil {
		return nil, refuse(ctx, err)
	}
	document, err := s.export(ctx, p)
	if err != nil {
		return nil, refuse(ctx, err)
	}
	return &messagingv1.ExportPersonResponse{Document: document}, nil
}

func (s *Server) export(ctx context.Context, p inbox.Person) ([]byte, error) {
	kept, err := s.Store.Export(ctx, p)
	if err != nil {
		return nil, err
	}
	var document map[string]json.RawMessage
	if err := json.Unmarshal(kept, &document); err != nil {
		return nil, fmt.Errorf("read an export: %w", err)
	}
	if document["consent"], err = s.exportConsent(ctx, p); err != nil {
		return nil, err
	}
	if document["former_consents"], err = s.exportFormer(ctx, p); err != nil {
		return nil, err
	}
	whole, err := json.Marshal(document)
	if err == nil && len(whole) > largestExport {
		err = fmt.Errorf("%w: it would have %d bytes, and %d are the most", inbox.ErrExportTooLarge, len(whole), largestExport)
	}
	return whole, err
}

// exportFormer are the ledgers of the numbers that the person had before.
func (s *Server) exportFormer(ctx context.Context, p inbox.Person) (json.RawMessage, error) {
	numbers, err := s.Store.FormerNumbers(ctx, p)
	if err != nil {
		return nil, err
	}
	ledgers := make([]json.RawMessage, len(numbers))
	for i, number := range numbers {
		p.Phone = number
		if ledgers[i], err = s.exportConsent(ctx, p); err != nil {
			return nil, err
		}
	}
	return json.Marshal(ledgers)
}

// exportConsent is the ledger as GET /v1/consents/{phone} answers it, so that it is verified in the same way.
func (s *Server) exportConsent(ctx context.Context, p inbox.Person) (json.RawMessage, error) {
	ledger, err := s.Store.Consent(ctx, p.OrgID, p.Phone, inbox.LedgerPage{Limit: inbox.LargestLedgerPage})
	switch {
	case errors.Is(err, inbox.ErrConsentNotFound):
		return json.RawMessage("null"), nil
	case err != nil:
		return nil, err
	case ledger.More:
		return nil, fmt.Errorf("%w: the ledger has more than %d lines", inbox.ErrExportTooLarge, inbox.LargestLedgerPage)
	}
	return protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(&messagingv1.GetConsentResponse{
		Consent: writeConsent(ledger), Events: writeEvents(ledger), Chain: writeChain(ledger),
	})
}

// GetErasedLedger is what is left of the consent of an erased person.
func (s *Server) GetErasedLedger(
	ctx context.Context, r *messagingv1.GetErasedLedgerRequest,
) (*messagingv1.GetErasedLedgerResponse, error) {
	orgID, err := readID("org_id", r.GetOrgId())
	if err != nil {
		return nil, refuse(ctx, err)
	}
	left, err := s.Store.ErasedConsent(ctx, orgID, r.GetPseudonym())
	if err != nil {
		return nil, refuse(ctx, err)
	}
	answer := &messagingv1.GetErasedLedgerResponse{SuppressedAt: writeTime(left.SuppressedAt)}
	for _, l := range left.Ledgers {
		ledger := &messagingv1.ErasedLedger{
			ErasedAt: writeTime(l.ErasedAt), State: l.State, Length: int32Of(int(l.Length)), Verified: true,
		}
		if broken := s.Store.Pseudonyms.VerifyErased(l); broken != nil {
			ledger.Verified, ledger.Problem = false, fmt.Sprintf("line %d: %s", broken.Seq, broken.Why)
		}
		answer.Ledgers = append(answer.Ledgers, ledger)
	}
	return answer, nil
}
