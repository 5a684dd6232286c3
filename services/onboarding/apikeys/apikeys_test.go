package apikeys_test

import (
	"context"
	"crypto/sha256"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/emulators/clock"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/apikeys"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/schema"
)

func TestMain(m *testing.M) { onboardingtest.Main(m) }

// bundle is the service of keys on a database.
type bundle struct {
	*apikeys.RPC

	t     *testing.T
	clock *clock.Settable
	count func() int // how often a use was written
}

func setup(t *testing.T) *bundle {
	t.Helper()
	pool := pgtest.New(t, schema.Migrations())
	_, err := pgtest.Owner(t, pool).Exec(t.Context(), `
create table uses (id serial);
grant all on uses, uses_id_seq to public;
create function used() returns trigger language plpgsql as 'begin insert into uses default values; return null; end';
create trigger used after update of last_used_at on api_keys for each row execute function used()`)
	require.NoError(t, err)
	at := clock.NewSettable(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	return &bundle{
		RPC: &apikeys.RPC{Store: apikeys.NewStore(pool), Now: at.Now}, t: t, clock: at,
		count: func() (n int) {
			require.NoError(t, pool.QueryRow(t.Context(), `select count(*) from uses`).Scan(&n))
			return n
		},
	}
}

func as(ctx context.Context, org string) context.Context {
	return rpc.WithPrincipal(ctx, rpc.Principal{Subject: "ada", Role: rpc.RoleOperator, OrgID: org})
}

// makes makes a key.
func (b *bundle) makes(org string, in *onboardingv1.CreateKeyRequest) *onboardingv1.CreateKeyResponse {
	b.t.Helper()
	out, err := b.CreateKey(as(b.t.Context(), org), in)
	require.NoError(b.t, err)
	return out
}

// accepts looks a key up as a gateway does.
func (b *bundle) accepts(key string) (*onboardingv1.AuthenticateKeyResponse, error) {
	hash := sha256.Sum256([]byte(key))
	return b.AuthenticateKey(b.t.Context(), &onboardingv1.AuthenticateKeyRequest{Sha256: hash[:]})
}

func TestKeys(t *testing.T) {
	t.Parallel()
	org, other := uuid.NewString(), uuid.NewString()
	shop := &onboardingv1.CreateKeyRequest{Name: " shop ", Role: "app"}

	onboardingtest.Subtest(t, "AKeySpeaksForItsOrganisationUntilItIsRevoked", setup, func(t *testing.T, b *bundle) {
		made := b.makes(org, shop)
		require.Equal(t, "shop", made.GetApiKey().GetName())
		found, err := b.accepts(made.GetKey())
		require.NoError(t, err)
		require.Equal(t, []string{org, "app", made.GetApiKey().GetApiKeyId()}, []string{found.GetOrgId(), found.GetRole(), found.GetApiKeyId()})
		_, err = b.AuthenticateKey(t.Context(), &onboardingv1.AuthenticateKeyRequest{ApiKeyId: found.GetApiKeyId()})
		require.NoError(t, err)

		_, err = b.RevokeKey(as(t.Context(), other), &onboardingv1.RevokeKeyRequest{ApiKeyId: found.GetApiKeyId()})
		require.ErrorIs(t, err, apikeys.ErrNotFound, "a key of another organisation")
		_, err = b.accepts(made.GetKey())
		require.NoError(t, err)

		var first *onboardingv1.RevokeKeyResponse
		for range 2 { // a repeat changes nothing
			out, err := b.RevokeKey(as(t.Context(), org), &onboardingv1.RevokeKeyRequest{ApiKeyId: found.GetApiKeyId()})
			require.NoError(t, err)
			require.Equal(t, first.GetApiKey().GetRevokedAt().AsTime(), map[bool]time.Time{
				true: first.GetApiKey().GetRevokedAt().AsTime(), false: out.GetApiKey().GetRevokedAt().AsTime(),
			}[first == nil])
			first = out
			b.clock.Advance(time.Second)
		}
		_, err = b.accepts(made.GetKey())
		require.ErrorIs(t, err, apikeys.ErrNotFound)
		_, err = b.AuthenticateKey(t.Context(), &onboardingv1.AuthenticateKeyRequest{ApiKeyId: found.GetApiKeyId()})
		require.ErrorIs(t, err, apikeys.ErrNotFound)
	})

	onboardingtest.Subtest(t, "AKeyExpires", setup, func(t *testing.T, b *bundle) {
		made := b.makes(org, &onboardingv1.CreateKeyRequest{
			Name: "shop", Role: "operator", ExpiresAt: timestamppb.New(b.clock.Now().Add(time.Hour)),
		})
		b.clock.Advance(time.Hour - time.Second)
		_, err := b.accepts(made.GetKey())
		require.NoError(t, err)
		b.clock.Advance(time.Second)
		_, err = b.accepts(made.GetKey())
		require.ErrorIs(t, err, apikeys.ErrNotFound)
	})

	onboardingtest.Subtest(t, "TheLastUseIsWrittenOnceAMinute", setup, func(t *testing.T, b *bundle) {
		made := b.makes(org, shop)
		for range 100 {
			_, err := b.accepts(made.GetKey())
			require.NoError(t, err)
			b.clock.Advance(time.Second)
		}
		require.Equal(t, 2, b.count())
		list, err := b.ListKeys(as(t.Context(), org), &onboardingv1.ListKeysRequest{})
		require.NoError(t, err)
		require.Len(t, list.GetApiKeys(), 1)
		require.WithinDuration(t, b.clock.Now(), list.GetApiKeys()[0].GetLastUsedAt().AsTime(), time.Minute+time.Second)
	})

	onboardingtest.Subtest(t, "AnOrganisationHasBoundedKeys", setup, func(t *testing.T, b *bundle) {
		var made *onboardingv1.CreateKeyResponse
		for range apikeys.MaxKeys {
			made = b.makes(org, shop)
		}
		_, err := b.CreateKey(as(t.Context(), org), shop)
		require.ErrorIs(t, err, apikeys.ErrTooMany)
		b.makes(other, shop)
		_, err = b.RevokeKey(as(t.Context(), org), &onboardingv1.RevokeKeyRequest{ApiKeyId: made.GetApiKey().GetApiKeyId()})
		require.NoError(t, err)
		b.makes(org, shop)

		seen, token := 0, ""
		for {
			page, err := b.ListKeys(as(t.Context(), org), &onboardingv1.ListKeysRequest{PageSize: 40, PageToken: token})
			require.NoError(t, err)
			seen += len(page.GetApiKeys())
			if token = page.GetNextPageToken(); token == "" {
				break
			}
		}
		require.Equal(t, apikeys.MaxKeys+1, seen)
	})

	onboardingtest.Subtest(t, "WhatIsRefused", setup, func(t *testing.T, b *bundle) {
		for want, in := range map[string]*onboardingv1.CreateKeyRequest{
			"name must be":         {Role: "app"},
			"role must be":         {Name: "shop", Role: "platform"},
			"expires_at is over":   {Name: "shop", Role: "app", ExpiresAt: timestamppb.New(b.clock.Now())},
			"expires_at must be a": {Name: "shop", Role: "app", ExpiresAt: &timestamppb.Timestamp{}},
		} {
			_, err := b.CreateKey(as(t.Context(), org), in)
			require.ErrorContains(t, err, want)
		}
	})
}
