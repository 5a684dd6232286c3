package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging/edge"
)

// largestExport leaves room in a message of gRPC, which is 4 MiB at most, for onboarding's part.
const largestExport = 2 << 20

func readPerson(r interface {
	GetOrgId() string
	GetProfileId() string
	GetPhone() string
},
) (p Person, err error) {
	if p.OrgID, err = edge.ReadID("org_id", r.GetOrgId()); err != nil {
		return p, err
	}
	if p.ProfileID, err = edge.ReadID("profile_id", r.GetProfileId()); err != nil {
		return p, err
	}
	p.Phone, err = edge.ReadProfilePhone("phone", r.GetPhone())
	return p, err
}

// ErasePerson erases a person, or says what it waits for.
func (s *RPC) ErasePerson(ctx context.Context, r *messagingv1.ErasePersonRequest) (*messagingv1.ErasePersonResponse, error) {
	p, err := readPerson(r)
	if err != nil {
		return nil, err
	}
	if r.GetOnlyAsk() {
		pseudonym, err := s.Store.CanErase(ctx, p)
		return &messagingv1.ErasePersonResponse{Pseudonym: pseudonym}, err
	}
	e, err := s.Store.ErasePerson(ctx, p, s.Now())
	if err != nil {
		return nil, err
	}
	waits := edge.WriteID(e.WaitsFor)
	return &messagingv1.ErasePersonResponse{Erased: waits == "", WaitsFor: waits, Pseudonym: e.Pseudonym}, nil
}

// ExportPerson is everything that is kept here about a person.
func (s *RPC) ExportPerson(ctx context.Context, r *messagingv1.ExportPersonRequest) (*messagingv1.ExportPersonResponse, error) {
	p, err := readPerson(r)
	if err != nil {
		return nil, err
	}
	document, err := s.export(ctx, p)
	return &messagingv1.ExportPersonResponse{Document: document}, err
}

func (s *RPC) export(ctx context.Context, p Person) ([]byte, error) {
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
		err = fmt.Errorf("%w: it would have %d bytes, and %d are the most", ErrExportTooLarge, len(whole), largestExport)
	}
	return whole, err
}

// exportFormer are the ledgers of the numbers that the person had before.
func (s *RPC) exportFormer(ctx context.Context, p Person) (json.RawMessage, error) {
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
func (s *RPC) exportConsent(ctx context.Context, p Person) (json.RawMessage, error) {
	ledger, err := s.Store.Consent(ctx, p.OrgID, p.Phone, Page{Limit: edge.LargestPage})
	switch {
	case errors.Is(err, ErrConsentNotFound):
		return json.RawMessage("null"), nil
	case err != nil:
		return nil, err
	case ledger.More:
		return nil, fmt.Errorf("%w: the ledger has more than %d lines", ErrExportTooLarge, edge.LargestPage)
	}
	return protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(&messagingv1.GetConsentResponse{
		Consent: writeConsent(ledger), Events: writeEvents(ledger), Chain: writeChain(ledger),
	})
}

// GetErasedLedger returns what is left of the consent of an erased person.
func (s *RPC) GetErasedLedger(
	ctx context.Context, r *messagingv1.GetErasedLedgerRequest,
) (*messagingv1.GetErasedLedgerResponse, error) {
	orgID, err := edge.ReadID("org_id", r.GetOrgId())
	if err != nil {
		return nil, err
	}
	left, err := s.Store.ErasedConsent(ctx, orgID, r.GetPseudonym())
	if err != nil {
		return nil, err
	}
	answer := &messagingv1.GetErasedLedgerResponse{SuppressedAt: edge.WriteTime(left.SuppressedAt)}
	for _, l := range left.Ledgers {
		ledger := &messagingv1.ErasedLedger{
			ErasedAt: edge.WriteTime(l.ErasedAt), State: l.State, Length: edge.Int32(int(l.Length)), Verified: true,
		}
		if broken := s.Store.Pseudonyms.VerifyErased(l); broken != nil {
			ledger.Verified, ledger.Problem = false, fmt.Sprintf("line %d: %s", broken.Seq, broken.Why)
		}
		answer.Ledgers = append(answer.Ledgers, ledger)
	}
	return answer, nil
}
