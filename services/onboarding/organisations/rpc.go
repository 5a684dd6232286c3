package organisations

import (
	"context"
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"paceline.internal/platform/audit"
	"paceline.internal/platform/letters"
	"paceline.internal/platform/postgres"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/apikeys"
	"paceline.internal/services/onboarding/request"
)

// Bounds of texts, in characters, as the table has them.
const (
	maxName   = 100
	maxReason = 500
)

// RPC serves OrganisationService.
type RPC struct {
	onboardingv1.UnimplementedOrganisationServiceServer

	Organisations *Service
	Keys          *apikeys.Store
}

// CreateOrganisation makes an organisation.
func (s *RPC) CreateOrganisation(
	ctx context.Context, in *onboardingv1.CreateOrganisationRequest,
) (*onboardingv1.CreateOrganisationResponse, error) {
	name, err := text("name", in.GetName(), maxName)
	if err != nil {
		return nil, err
	}
	id := in.GetOrgId()
	if id == "" {
		made, err := uuid.NewV7()
		if err != nil {
			return nil, err
		}
		id = made.String()
	}
	if err := request.ID("org_id", id); err != nil {
		return nil, err
	}
	if uuid.MustParse(id) == uuid.Nil {
		return nil, request.Invalid("org_id must not be the nil UUID")
	}
	o, created, err := s.Organisations.Store.Create(ctx, id, name, s.Organisations.Now())
	if err != nil {
		return nil, err
	}
	return &onboardingv1.CreateOrganisationResponse{Organisation: shown(o), Created: created}, nil
}

// text checks words of the platform's operator.
func text(field, given string, most int) (string, error) {
	said := strings.TrimSpace(letters.Compose(given))
	if n := utf8.RuneCountInString(said); n == 0 || n > most || !utf8.ValidString(said) || strings.ContainsFunc(said, unicode.IsControl) {
		return "", request.Invalid("%s must be 1 to %d characters", field, most)
	}
	return said, nil
}

// GetOrganisation reads an organisation.
func (s *RPC) GetOrganisation(
	ctx context.Context, in *onboardingv1.GetOrganisationRequest,
) (*onboardingv1.GetOrganisationResponse, error) {
	if err := request.ID("org_id", in.GetOrgId()); err != nil {
		return nil, err
	}
	o, err := s.Organisations.Store.Get(ctx, in.GetOrgId())
	if err != nil {
		return nil, err
	}
	return &onboardingv1.GetOrganisationResponse{Organisation: shown(o)}, nil
}

// ListOrganisations lists the organisations.
func (s *RPC) ListOrganisations(
	ctx context.Context, in *onboardingv1.ListOrganisationsRequest,
) (*onboardingv1.ListOrganisationsResponse, error) {
	limit, after, err := request.Page(in)
	if err != nil {
		return nil, err
	}
	found, err := s.Organisations.Store.List(ctx, after, limit+1)
	if err != nil {
		return nil, err
	}
	out := &onboardingv1.ListOrganisationsResponse{}
	for _, o := range found[:min(limit, len(found))] {
		out.Organisations = append(out.Organisations, shown(o))
	}
	if len(found) > limit {
		out.NextPageToken = rpc.NextPage(in, found[limit-1].OrgID)
	}
	return out, nil
}

// SuspendOrganisation has nothing sent for an organisation.
func (s *RPC) SuspendOrganisation(
	ctx context.Context, in *onboardingv1.SuspendOrganisationRequest,
) (*onboardingv1.SuspendOrganisationResponse, error) {
	o, err := s.change(ctx, in.GetOrgId(), Suspended, in.GetReason())
	if err != nil {
		return nil, err
	}
	return &onboardingv1.SuspendOrganisationResponse{Organisation: o}, nil
}

// ResumeOrganisation has an organisation go on.
func (s *RPC) ResumeOrganisation(
	ctx context.Context, in *onboardingv1.ResumeOrganisationRequest,
) (*onboardingv1.ResumeOrganisationResponse, error) {
	o, err := s.change(ctx, in.GetOrgId(), Active, "")
	if err != nil {
		return nil, err
	}
	return &onboardingv1.ResumeOrganisationResponse{Organisation: o}, nil
}

// EndOrganisation ends an organisation.
func (s *RPC) EndOrganisation(
	ctx context.Context, in *onboardingv1.EndOrganisationRequest,
) (*onboardingv1.EndOrganisationResponse, error) {
	o, err := s.change(ctx, in.GetOrgId(), Ended, in.GetReason())
	if err != nil {
		return nil, err
	}
	return &onboardingv1.EndOrganisationResponse{Organisation: o}, nil
}

func (s *RPC) change(ctx context.Context, orgID string, to Status, reason string) (*onboardingv1.Organisation, error) {
	if err := request.ID("org_id", orgID); err != nil {
		return nil, err
	}
	if to != Active {
		var err error
		if reason, err = text("reason", reason, maxReason); err != nil {
			return nil, err
		}
	}
	o, err := s.Organisations.Change(ctx, orgID, to, reason)
	if err != nil {
		return nil, err
	}
	return shown(o), nil
}

// CreateFirstKey makes the first operator's key of an organisation.
func (s *RPC) CreateFirstKey(ctx context.Context, in *onboardingv1.CreateFirstKeyRequest) (*onboardingv1.CreateFirstKeyResponse, error) {
	if err := request.ID("org_id", in.GetOrgId()); err != nil {
		return nil, err
	}
	wanted := &onboardingv1.CreateKeyRequest{Name: in.GetName(), Role: string(apikeys.Operator)}
	k, err := apikeys.Wanted(in.GetOrgId(), wanted, s.Organisations.Now())
	if err != nil {
		return nil, err
	}
	o, err := s.Organisations.Store.Get(ctx, in.GetOrgId())
	switch {
	case err != nil:
		return nil, err
	case o.Wanted == Ended:
		return nil, ErrEnded
	}
	made, secret, err := s.Keys.CreateFirst(postgres.ForOrganisation(ctx, o.OrgID), k)
	if errors.Is(err, apikeys.ErrNotFirst) {
		return nil, ErrHasKey
	}
	if err != nil {
		return nil, err
	}
	return &onboardingv1.CreateFirstKeyResponse{ApiKey: apikeys.Shown(ctx, made), Key: secret}, nil
}

// GetOrganisationStatus tells a gateway whether the callers of an organisation are let on.
func (s *RPC) GetOrganisationStatus(
	ctx context.Context, in *onboardingv1.GetOrganisationStatusRequest,
) (*onboardingv1.GetOrganisationStatusResponse, error) {
	if err := request.ID("org_id", in.GetOrgId()); err != nil {
		return nil, err
	}
	o, err := s.Organisations.Store.Get(ctx, in.GetOrgId())
	if errors.Is(err, ErrNotFound) {
		o.Wanted, err = Active, nil
	}
	switch {
	case o.Move == "leaving" && o.Wanted == Active:
		o.Wanted = Moving
	case o.Move != "":
		o.Wanted = Moved
	}
	return &onboardingv1.GetOrganisationStatusResponse{Status: string(o.Wanted)}, err
}

func shown(o Organisation) *onboardingv1.Organisation {
	out := &onboardingv1.Organisation{
		OrgId: o.OrgID, Name: o.Name, Status: string(o.Status), Since: request.Stamp(o.ChangedAt), Reason: o.Reason, By: audit.Read(o.ChangedBy),
		CreatedAt: request.Stamp(o.CreatedAt), EraseAfter: request.StampOf(o.EraseAfter), ErasedAt: request.StampOf(o.ErasedAt),
		WaitsFor: o.WaitsFor,
	}
	if o.Wanted != o.Status {
		out.ChangesTo = string(o.Wanted)
	}
	return out
}
