package apikeys

import (
	"context"
	"crypto/sha256"
	"strings"
	"time"

	"paceline.internal/platform/letters"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/request"
)

// RPC serves APIKeyService.
type RPC struct {
	onboardingv1.UnimplementedAPIKeyServiceServer

	Store *Store
	Now   func() time.Time
}

// CreateKey makes a key of the caller's organisation.
func (s *RPC) CreateKey(ctx context.Context, in *onboardingv1.CreateKeyRequest) (*onboardingv1.CreateKeyResponse, error) {
	k, err := Wanted(request.Org(ctx), in, s.Now())
	if err != nil {
		return nil, err
	}
	made, secret, err := s.Store.Create(ctx, k)
	if err != nil {
		return nil, err
	}
	return &onboardingv1.CreateKeyResponse{ApiKey: Shown(ctx, made), Key: secret}, nil
}

// Wanted reads the description of a key.
func Wanted(orgID string, in *onboardingv1.CreateKeyRequest, now time.Time) (Key, error) {
	k := Key{OrgID: orgID, Name: strings.TrimSpace(letters.Compose(in.GetName())), Role: Role(in.GetRole()), CreatedAt: now}
	if in.GetExpiresAt() != nil {
		if err := request.Time("expires_at", in.GetExpiresAt()); err != nil {
			return Key{}, err
		}
		k.ExpiresAt = new(in.GetExpiresAt().AsTime())
	}
	return k, k.Validate()
}

// ListKeys lists the keys of the caller's organisation.
func (s *RPC) ListKeys(ctx context.Context, in *onboardingv1.ListKeysRequest) (*onboardingv1.ListKeysResponse, error) {
	limit, before, err := request.Page(in)
	if err != nil {
		return nil, err
	}
	found, err := s.Store.List(ctx, request.Org(ctx), before, limit+1)
	if err != nil {
		return nil, err
	}
	out := &onboardingv1.ListKeysResponse{}
	for _, k := range found[:min(limit, len(found))] {
		out.ApiKeys = append(out.ApiKeys, Shown(ctx, k))
	}
	if len(found) > limit {
		out.NextPageToken = rpc.NextPage(in, found[limit-1].ID)
	}
	return out, nil
}

// RevokeKey revokes a key.
func (s *RPC) RevokeKey(ctx context.Context, in *onboardingv1.RevokeKeyRequest) (*onboardingv1.RevokeKeyResponse, error) {
	if err := request.ID("api_key_id", in.GetApiKeyId()); err != nil {
		return nil, err
	}
	k, err := s.Store.Revoke(ctx, request.Org(ctx), in.GetApiKeyId(), s.Now())
	if err != nil {
		return nil, err
	}
	return &onboardingv1.RevokeKeyResponse{ApiKey: Shown(ctx, k)}, nil
}

// AuthenticateKey finds the key of a caller.
func (s *RPC) AuthenticateKey(
	ctx context.Context, in *onboardingv1.AuthenticateKeyRequest,
) (*onboardingv1.AuthenticateKeyResponse, error) {
	byHash, byID := len(in.GetSha256()) == sha256.Size, request.IsID(in.GetApiKeyId())
	if byHash == byID {
		return nil, request.Invalid("name one key: by its SHA-256, or by its id")
	}
	k, err := s.Store.Authenticate(ctx, in.GetSha256(), in.GetApiKeyId(), s.Now())
	if err != nil {
		return nil, err
	}
	return &onboardingv1.AuthenticateKeyResponse{
		ApiKeyId: k.ID, OrgId: k.OrgID, Role: string(k.Role), ExpiresAt: request.StampOf(k.ExpiresAt),
	}, nil
}

// Shown is a key as the API has it.
func Shown(ctx context.Context, k Key) *onboardingv1.APIKey {
	return &onboardingv1.APIKey{
		ApiKeyId: k.ID, Name: k.Name, Role: string(k.Role), EndsWith: k.EndsWith, CreatedAt: request.Stamp(k.CreatedAt),
		CreatedBy: request.Actor(ctx, k.CreatedBy), ExpiresAt: request.StampOf(k.ExpiresAt), LastUsedAt: request.StampOf(k.LastUsedAt),
		RevokedAt: request.StampOf(k.RevokedAt), RevokedBy: request.Actor(ctx, k.RevokedBy),
	}
}
