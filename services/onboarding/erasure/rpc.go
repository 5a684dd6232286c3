package erasure

import (
	"context"
	"encoding/json"
	"fmt"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/letters"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/request"
)

// RPC serves the part of OnboardingService that is about erasures.
type RPC struct {
	Erasures *Service
	Holds    *Store // legal ones
}

// ExportProfile is everything that both services keep about a person.
func (s *RPC) ExportProfile(ctx context.Context, in *onboardingv1.ExportProfileRequest) (*onboardingv1.ExportProfileResponse, error) {
	if err := request.ID("profile_id", in.GetProfileId()); err != nil {
		return nil, err
	}
	kept, err := s.Erasures.Export(ctx, request.Org(ctx), in.GetProfileId())
	if err != nil {
		return nil, err
	}
	whole, err := json.Marshal(kept)
	if err != nil {
		return nil, fmt.Errorf("write an export: %w", err)
	}
	document := new(structpb.Struct)
	if err := protojson.Unmarshal(whole, document); err != nil {
		return nil, fmt.Errorf("write an export: %w", err)
	}
	return &onboardingv1.ExportProfileResponse{Document: document}, nil
}

// EraseProfile asks to erase a person.
func (s *RPC) EraseProfile(ctx context.Context, in *onboardingv1.EraseProfileRequest) (*onboardingv1.EraseProfileResponse, error) {
	if err := request.ID("profile_id", in.GetProfileId()); err != nil {
		return nil, err
	}
	e, err := s.Erasures.Ask(ctx, Request{OrgID: request.Org(ctx), ProfileID: in.GetProfileId(), Source: FromOperator})
	if err != nil {
		return nil, err
	}
	return &onboardingv1.EraseProfileResponse{Erasure: writeErasure(e, Consent{})}, nil
}

// GetErasure reports how far the erasure of a person is.
func (s *RPC) GetErasure(ctx context.Context, in *onboardingv1.GetErasureRequest) (*onboardingv1.GetErasureResponse, error) {
	if err := request.ID("profile_id", in.GetProfileId()); err != nil {
		return nil, err
	}
	e, left, err := s.Erasures.Get(ctx, request.Org(ctx), in.GetProfileId())
	if err != nil {
		return nil, err
	}
	return &onboardingv1.GetErasureResponse{Erasure: writeErasure(e, left)}, nil
}

func writeErasure(e Erasure, left Consent) *onboardingv1.Erasure {
	out := &onboardingv1.Erasure{
		ProfileId: e.ProfileID, State: "requested", Source: e.Source, RequestedAt: timestamppb.New(e.RequestedAt), WaitsFor: e.WaitsFor,
		Pseudonym: e.Pseudonym, SuppressedAt: request.Stamp(left.SuppressedAt),
	}
	switch {
	case e.ErasedAt != nil:
		out.State, out.ErasedAt = "erased", timestamppb.New(*e.ErasedAt)
	case e.WaitsFor != "":
		out.State = "waiting"
	}
	for _, l := range left.Ledgers {
		out.Ledgers = append(out.Ledgers, &onboardingv1.ErasedLedgerState{
			ErasedAt: timestamppb.New(l.ErasedAt), State: l.State, Verified: l.Verified, Problem: l.Problem,
			Length: int32(l.Length), //nolint:gosec // of a ledger
		})
	}
	return out
}

// maxLegalReason bounds the reason of a legal hold, in characters.
const maxLegalReason = 500

// SetLegalHold keeps a person's data from being erased.
func (s *RPC) SetLegalHold(ctx context.Context, in *onboardingv1.SetLegalHoldRequest) (*onboardingv1.SetLegalHoldResponse, error) {
	reason := letters.Compose(in.GetReason())
	if n := utf8.RuneCountInString(reason); n < 1 || n > maxLegalReason || !printable(reason) {
		return nil, request.Invalid("reason must be 1 to %d printable characters", maxLegalReason)
	}
	return &onboardingv1.SetLegalHoldResponse{}, s.legalHold(ctx, in.GetProfileId(), reason)
}

func printable(s string) bool {
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return utf8.ValidString(s)
}

// LiftLegalHold lets a person's data be erased again.
func (s *RPC) LiftLegalHold(ctx context.Context, in *onboardingv1.LiftLegalHoldRequest) (*onboardingv1.LiftLegalHoldResponse, error) {
	return &onboardingv1.LiftLegalHoldResponse{}, s.legalHold(ctx, in.GetProfileId(), "")
}

func (s *RPC) legalHold(ctx context.Context, profileID, reason string) error {
	if err := request.ID("profile_id", profileID); err != nil {
		return err
	}
	if err := s.Holds.SetLegalHold(ctx, request.Org(ctx), profileID, reason, s.Erasures.Now()); err != nil {
		return err
	}
	return nil
}
