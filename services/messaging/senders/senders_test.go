package senders_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/clock"
	emulator "paceline.internal/emulators/twilio"
	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/consent/ledger"
	"paceline.internal/services/messaging/schema"
	"paceline.internal/services/messaging/senders"
	"paceline.internal/services/messaging/sms"
)

func TestMain(m *testing.M) { pgtest.Run(m) }

const (
	first, second   = "ACaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "ACbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	firstToken      = "a0000000000000000000000000000000"
	secondToken     = "b0000000000000000000000000000000"
	key, secret     = "SKbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", "b1111111111111111111111111111111"
	service         = "MGbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	ours            = "+14155550100" // of the environment
	theirs, pooled  = "+14155550110", "+14155550111"
	ofNobody        = "+14155550199"
	person, another = "+14155550123", "+14155550124"
)

// bundle is a directory on a real database and the emulator with two accounts.
type bundle struct {
	t         *testing.T
	pool      *pgxpool.Pool
	clock     *clock.Settable
	emulator  *emulator.Emulator
	keyset    string
	directory *senders.Directory
	rpc       *senders.RPC
	org       uuid.UUID // a second organisation
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{t: t, pool: pgtest.New(t, schema.Migrations()), clock: clock.NewSettable(time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC))}
	var err error
	b.emulator, err = emulator.New(emulator.Config{
		Clock: b.clock, AccountSID: first, AuthToken: firstToken, Numbers: []string{ours}, Others: []emulator.Account{{
			SID: second, AuthToken: secondToken, APIKeys: map[string]string{key: secret}, Numbers: []string{theirs},
			Services: map[string][]string{service: {pooled}, "MG" + strings.Repeat("0", 32): {}},
		}},
	})
	require.NoError(t, err)
	t.Cleanup(b.emulator.Close)
	b.keyset, err = senders.NextKeyset("")
	require.NoError(t, err)
	b.org = uuid.Must(uuid.NewV7())
	b.directory = b.open(b.keyset)
	b.rpc = &senders.RPC{
		Directory: b.directory, Ledgers: ledger.NewStore(b.pool, consent.NewPseudonyms("a key of at least thirty-two bytes")), Log: slog.New(slog.DiscardHandler),
	}
	return b
}

// open is another process, with a keyset.
func (b *bundle) open(keyset string) *senders.Directory {
	b.t.Helper()
	api := httptest.NewServer(b.emulator)
	b.t.Cleanup(api.Close)
	cfg := senders.Config{
		Store: senders.NewStore(b.pool), APIURL: api.URL, Timeout: time.Second, Now: b.clock.Now, Transport: new(http.Transport),
		Environment: senders.Sender{
			OrgID: uuid.MustParse("00000000-0000-7000-8000-000000000001"), AccountSID: first, Number: ours, Rate: 1, Status: senders.Active,
		},
	}
	if keyset != "" {
		var err error
		cfg.Keyset, err = senders.ParseKeyset(keyset)
		require.NoError(b.t, err)
	}
	return senders.New(cfg)
}

// as is a call of an operator of an organisation.
func (b *bundle) as(org uuid.UUID) context.Context {
	return rpc.WithPrincipal(b.t.Context(), rpc.Principal{Subject: "ada", Role: rpc.RoleOperator, OrgID: org.String()})
}

func request() *messagingv1.CreateSenderRequest {
	return &messagingv1.CreateSenderRequest{
		Name: "Second brand", AccountSid: second, ApiKeySid: key, ApiKeySecret: secret, AuthToken: secondToken, Number: theirs,
		SegmentsPerSecond: 3,
	}
}

func (b *bundle) create(org uuid.UUID, change func(*messagingv1.CreateSenderRequest)) (*messagingv1.Sender, error) {
	b.t.Helper()
	r := request()
	if change != nil {
		change(r)
	}
	answer, err := b.rpc.CreateSender(b.as(org), r)
	return answer.GetSender(), err
}

func (b *bundle) rows() (n int) {
	b.t.Helper()
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), "select count(*) from senders").Scan(&n))
	return n
}

// TestSenderIsCheckedAtTwilio: nothing is stored that Twilio does not know, or that somebody else has.
func TestSenderIsCheckedAtTwilio(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*messagingv1.CreateSenderRequest)
		want   error
		says   string
	}{
		{"AnotherToken", func(r *messagingv1.CreateSenderRequest) { r.AuthToken = firstToken }, senders.ErrRefused, "auth_token"},
		{"AnotherNextToken", func(r *messagingv1.CreateSenderRequest) { r.NextAuthToken = firstToken }, senders.ErrRefused, "next_auth_token"},
		{"AnotherSecret", func(r *messagingv1.CreateSenderRequest) { r.ApiKeySecret = firstToken }, senders.ErrRefused, "api_key_secret"},
		{"AnAccountThatTheTokenIsNotOf", func(r *messagingv1.CreateSenderRequest) { r.AccountSid = first }, senders.ErrRefused, "auth_token"},
		{"ANumberOfNobody", func(r *messagingv1.CreateSenderRequest) { r.Number = ofNobody }, senders.ErrNotOfAccount, "number"},
		{"ANumberOfAnotherAccount", func(r *messagingv1.CreateSenderRequest) { r.Number = ours }, senders.ErrNotOfAccount, "number"},
		{"AServiceOfNobody", func(r *messagingv1.CreateSenderRequest) {
			r.Number, r.MessagingServiceSid = "", "MG"+strings.Repeat("1", 32)
		}, senders.ErrNotOfAccount, "messaging_service_sid"},
		{"AServiceWithoutNumbers", func(r *messagingv1.CreateSenderRequest) {
			r.Number, r.MessagingServiceSid = "", "MG"+strings.Repeat("0", 32)
		}, senders.ErrNotOfAccount, "pool"},
		{"NoName", func(r *messagingv1.CreateSenderRequest) { r.Name = "" }, sms.ErrInvalid, "name"},
		{"NoSender", func(r *messagingv1.CreateSenderRequest) { r.Number = "" }, sms.ErrInvalid, "messaging_service_sid or number"},
		{"ABrokenAccount", func(r *messagingv1.CreateSenderRequest) { r.AccountSid = "AC1" }, sms.ErrInvalid, "account_sid"},
		{"ASecretWithASpace", func(r *messagingv1.CreateSenderRequest) { r.AuthToken = secondToken + " " }, sms.ErrInvalid, "auth_token"},
		{"ARateOfNothing", func(r *messagingv1.CreateSenderRequest) { r.SegmentsPerSecond = -1 }, sms.ErrInvalid, "segments_per_second"},
		{"ACountryByName", func(r *messagingv1.CreateSenderRequest) { r.Countries = []string{"Brazil"} }, sms.ErrInvalid, "countries"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			_, err := b.create(b.org, c.change)
			require.ErrorIs(t, err, c.want)
			require.ErrorContains(t, err, c.says)
			require.Zero(t, b.rows())
			for _, hidden := range []string{firstToken, secondToken, secret} {
				require.NotContains(t, err.Error(), hidden)
			}
		})
	}
}

// TestNumberIsClaimedOnce: by whichever organisation comes first, also inside a messaging service.
func TestNumberIsClaimedOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	mine, err := b.create(b.org, nil)
	require.NoError(t, err)
	for _, org := range []uuid.UUID{b.org, uuid.New()} {
		_, err = b.create(org, nil)
		require.ErrorIs(t, err, senders.ErrClaimed)
	}
	other, err := b.create(uuid.New(), func(r *messagingv1.CreateSenderRequest) { r.Number, r.MessagingServiceSid = "", service })
	require.NoError(t, err, "a service of the same account may be another organisation's")
	require.NotEqual(t, mine.GetSenderId(), other.GetSenderId())
	_, err = b.create(uuid.New(), func(r *messagingv1.CreateSenderRequest) { r.Number = pooled })
	require.ErrorIs(t, err, senders.ErrClaimed, "the number is in the pool of that service")
}

// TestCredentialsAreSealed: they are in no answer and not in the database in clear, and belong to their row and column.
func TestCredentialsAreSealed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	created, err := b.create(b.org, nil)
	require.NoError(t, err)
	var dump string
	require.NoError(t, b.pool.QueryRow(t.Context(), "select convert_from(convert_to(senders::text, 'utf8'), 'utf8') from senders").Scan(&dump))
	for _, hidden := range []string{secondToken, secret} {
		require.NotContains(t, dump, hidden)
		require.NotContains(t, dump, (&strings.Builder{}).String()+hexOf(hidden))
		require.NotContains(t, created.String(), hidden)
	}
	require.NoError(t, b.directory.Opens(t.Context()))

	_, err = b.pool.Exec(t.Context(), "update senders set auth_token = api_key_secret")
	require.NoError(t, err)
	require.ErrorContains(t, b.open(b.keyset).Opens(t.Context()), "SENDER_KEYSET")
}

func hexOf(text string) string {
	const digits = "0123456789abcdef"
	var out strings.Builder
	for i := range len(text) {
		out.WriteByte(digits[text[i]>>4])
		out.WriteByte(digits[text[i]&15])
	}
	return out.String()
}

// TestKeysetIsRotated in two steps: every replica has the new key before the first one seals with it. The old one opens until all is sealed
// anew.
func TestKeysetIsRotated(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, err := b.create(b.org, nil)
	require.NoError(t, err)
	require.ErrorContains(t, b.open("").Opens(t.Context()), "SENDER_KEYSET")
	lost, err := senders.NextKeyset("")
	require.NoError(t, err)
	require.ErrorContains(t, b.open(lost).Opens(t.Context()), "docs/organisations.md")

	next, err := senders.NextKeyset(b.keyset)
	require.NoError(t, err)
	_, err = b.open(next).Reseal(t.Context())
	require.NoError(t, err)
	require.NoError(t, b.open(b.keyset).Opens(t.Context()), "a replica without the new key opens what one with it has sealed")
	promoted, err := senders.PromoteKeyset(next)
	require.NoError(t, err)
	n, err := b.open(promoted).Reseal(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, b.open(next).Opens(t.Context()), "also before its own promotion")
	require.Error(t, b.open(b.keyset).Opens(t.Context()), "the old key opens nothing any more")
	_, err = senders.PromoteKeyset(promoted)
	require.ErrorIs(t, err, senders.ErrPromoted)
	_, err = senders.ParseKeyset("hello")
	require.ErrorContains(t, err, "messaging keyset prints one")
}

// TestDoctorAsksTwilio about each stored sender, and says which one it refuses.
func TestDoctorAsksTwilio(t *testing.T) {
	t.Parallel()
	b := setup(t)
	created, err := b.create(b.org, nil)
	require.NoError(t, err)
	look := func() map[string]error {
		said := map[string]error{}
		require.NoError(t, b.directory.Look(t.Context(), func(s senders.Sender, err error) { said[s.ID.String()] = err }))
		return said
	}
	require.Equal(t, map[string]error{created.GetSenderId(): nil}, look())
	b.emulator.SetCredentials(second, secondToken, "", map[string]string{key: "another"})
	require.ErrorIs(t, look()[created.GetSenderId()], senders.ErrRefused, "the API key was deleted at Twilio")
	b.emulator.SetCredentials(second, strings.Repeat("9", 32), "", map[string]string{key: secret})
	require.ErrorContains(t, look()[created.GetSenderId()], "auth_token", "the token was promoted at Twilio, and is not stored here")
}

// TestWithoutAKeyset nothing is stored, and the sender of the environment sends as ever.
func TestWithoutAKeyset(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.rpc.Directory = b.open("")
	_, err := b.create(b.org, nil)
	require.ErrorIs(t, err, senders.ErrNoKeyset)
	from, err := b.rpc.Directory.For(t.Context(), b.rpc.Directory.Environment.OrgID, person, "US")
	require.NoError(t, err)
	require.Equal(t, ours, from.From())
	require.NoError(t, b.rpc.Directory.Opens(t.Context()))
}

// TestRotatedCredentialIsUsedWithinSeconds by a process that did not take it.
func TestRotatedCredentialIsUsedWithinSeconds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	created, err := b.create(b.org, nil)
	require.NoError(t, err)
	id := uuid.MustParse(created.GetSenderId())
	other := b.open(b.keyset)
	c, err := other.Client(t.Context(), b.org, id)
	require.NoError(t, err)
	owned, err := c.Owns(t.Context(), theirs)
	require.NoError(t, err)
	require.True(t, owned)

	fresh := "b2222222222222222222222222222222"
	b.emulator.SetCredentials(second, secondToken, "", map[string]string{key: fresh})
	_, err = b.rpc.UpdateSender(b.as(b.org), &messagingv1.UpdateSenderRequest{SenderId: created.GetSenderId(), ApiKeySecret: &fresh})
	require.NoError(t, err)
	b.clock.Advance(3 * time.Second)
	c, err = other.Client(t.Context(), b.org, id)
	require.NoError(t, err)
	_, err = c.Owns(t.Context(), theirs)
	require.NoError(t, err)

	stale := firstToken
	_, err = b.rpc.UpdateSender(b.as(b.org), &messagingv1.UpdateSenderRequest{SenderId: created.GetSenderId(), AuthToken: &stale})
	require.ErrorIs(t, err, senders.ErrRefused)
	_, err = b.rpc.UpdateSender(b.as(uuid.New()), &messagingv1.UpdateSenderRequest{SenderId: created.GetSenderId(), ApiKeySecret: &fresh})
	require.ErrorIs(t, err, senders.ErrNotFound)
}

// TestCallbackAccount: the tokens of an account, both during a change, and none of an account that is unknown or deleted.
func TestCallbackAccount(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ask := func(account string) *messagingv1.GetCallbackAccountResponse {
		answer, err := b.rpc.GetCallbackAccount(t.Context(), &messagingv1.GetCallbackAccountRequest{AccountSid: account})
		require.NoError(t, err)
		return answer
	}
	require.False(t, ask(second).GetKnown())
	require.False(t, ask("AC1'--").GetKnown())
	require.True(t, ask(first).GetEnvironment())
	require.True(t, ask(first).GetSenders()[0].GetEnvironment())
	require.Empty(t, ask(first).GetSenders()[0].GetAuthTokens())
	created, err := b.create(b.org, nil)
	require.NoError(t, err)
	require.Equal(t, []string{secondToken}, ask(second).GetSenders()[0].GetAuthTokens())
	next := "b3333333333333333333333333333333"
	b.emulator.SetCredentials(second, secondToken, next, map[string]string{key: secret})
	_, err = b.rpc.UpdateSender(b.as(b.org), &messagingv1.UpdateSenderRequest{SenderId: created.GetSenderId(), NextAuthToken: &next})
	require.NoError(t, err)
	require.Equal(t, []string{secondToken, next}, ask(second).GetSenders()[0].GetAuthTokens())
	require.Equal(t, b.org.String(), ask(second).GetSenders()[0].GetOrgId())

	owner, err := b.directory.Owner(t.Context(), second, theirs, "")
	require.NoError(t, err)
	require.Equal(t, b.org, owner.OrgID)
	for name, of := range map[string][2]string{"the number of another account": {second, ours}, "an account of nobody": {"ACx", theirs}} {
		_, err = b.directory.Owner(t.Context(), of[0], of[1], "")
		require.ErrorIs(t, err, senders.ErrUnknownSender, name)
	}
	_, err = b.rpc.DeleteSender(b.as(b.org), &messagingv1.DeleteSenderRequest{SenderId: created.GetSenderId()})
	require.NoError(t, err)
	require.False(t, ask(second).GetKnown())
	var kept int
	require.NoError(t, b.pool.QueryRow(t.Context(), "select count(api_key_secret) + count(auth_token) + count(next_auth_token) from senders").Scan(&kept))
	require.Zero(t, kept)
	_, err = b.create(uuid.New(), nil)
	require.NoError(t, err, "the number is free again")
}

// TestCallbackTokensAreTheirSenders: each sender has its own, and one that a process cannot open does not take the others away.
func TestCallbackTokensAreTheirSenders(t *testing.T) {
	t.Parallel()
	b := setup(t)
	next, err := senders.NextKeyset(b.keyset)
	require.NoError(t, err)
	next, err = senders.PromoteKeyset(next)
	require.NoError(t, err)
	_, err = b.create(b.org, nil)
	require.NoError(t, err)
	b.rpc.Directory = b.open(next) // has the new key, and this one does not yet
	other, rotated := uuid.New(), "b4444444444444444444444444444444"
	b.emulator.SetCredentials(second, secondToken, rotated, map[string]string{key: secret})
	_, err = b.create(other, func(r *messagingv1.CreateSenderRequest) {
		r.Number, r.MessagingServiceSid, r.AuthToken = "", service, rotated
	})
	require.NoError(t, err)
	of := func(d *senders.Directory) map[string][]string {
		b.rpc.Directory = d
		answer, err := b.rpc.GetCallbackAccount(t.Context(), &messagingv1.GetCallbackAccountRequest{AccountSid: second})
		require.NoError(t, err)
		tokens := map[string][]string{}
		for _, s := range answer.GetSenders() {
			tokens[s.GetOrgId()] = s.GetAuthTokens()
		}
		return tokens
	}
	mine, theirs := b.org.String(), other.String()
	require.Equal(t, map[string][]string{mine: {secondToken}, theirs: {rotated}}, of(b.open(next)))
	require.Equal(t, map[string][]string{mine: {secondToken}, theirs: nil}, of(b.open(b.keyset)))
	b.rpc.Directory = b.open("")
	_, err = b.rpc.GetCallbackAccount(t.Context(), &messagingv1.GetCallbackAccountRequest{AccountSid: second})
	require.ErrorIs(t, err, sms.ErrUnavailable, "it is not unknown: another process can open it")

	odd := b.open(b.keyset)
	odd.Environment.AccountSID = "ACodd"
	b.rpc.Directory = odd
	answer, err := b.rpc.GetCallbackAccount(t.Context(), &messagingv1.GetCallbackAccountRequest{AccountSid: "ACodd"})
	require.NoError(t, err)
	require.True(t, answer.GetEnvironment(), "whatever its form")
}

// TestList shows an organisation its own senders alone.
func TestList(t *testing.T) {
	t.Parallel()
	b := setup(t)
	created, err := b.create(b.org, nil)
	require.NoError(t, err)
	for org, want := range map[uuid.UUID]int{b.org: 1, uuid.New(): 0} {
		answer, err := b.rpc.ListSenders(b.as(org), &messagingv1.ListSendersRequest{})
		require.NoError(t, err)
		require.Len(t, answer.GetSenders(), want)
		_, err = b.rpc.GetSender(b.as(org), &messagingv1.GetSenderRequest{SenderId: created.GetSenderId()})
		require.Equal(t, want == 1, err == nil)
	}
}

// stores inserts disabled senders of an account, each of another organisation, and with deleted set deleted ones.
func (b *bundle) stores(n int, account string, deleted bool) {
	b.t.Helper()
	_, err := b.pool.Exec(b.t.Context(), `
		insert into senders (id, org_id, name, account_sid, api_key_sid, number, segments_per_second, countries, status, version, created_at,
			updated_at, deleted_at)
		select gen_random_uuid(), gen_random_uuid(), 'n', $2, $3, '+1415' || 1000000 + i, 1, '{}', 'disabled', 1, $4, $4,
			case when $5 then $4::timestamptz end
		from generate_series(1, $1) i`, n, account, key, b.clock.Now(), deleted)
	require.NoError(b.t, err)
}

// TestOrganisationsAreAllListed, also those behind the first page.
func TestOrganisationsAreAllListed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.stores(1001, first, false)
	answer, err := b.rpc.ListSenderOrganisations(t.Context(), &messagingv1.ListSenderOrganisationsRequest{})
	require.NoError(t, err)
	distinct := map[string]bool{}
	for _, id := range answer.GetOrgIds() {
		distinct[id] = true
	}
	require.Len(t, distinct, 1002, "and that of the environment")
	require.Len(t, answer.GetOrgIds(), 1002)
}

// TestDeletedSendersHideNone: an account with more deleted senders than are read still has its others.
func TestDeletedSendersHideNone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.stores(500, second, true)
	b.clock.Advance(time.Hour)
	_, err := b.create(b.org, nil)
	require.NoError(t, err)
	owner, err := b.directory.Owner(t.Context(), second, theirs, "")
	require.NoError(t, err)
	require.Equal(t, b.org, owner.OrgID)
}

// TestForgottenOrganisation leaves no credentials, once it has ended and not before.
func TestForgottenOrganisation(t *testing.T) {
	t.Parallel()
	b := setup(t)
	created, err := b.create(b.org, nil)
	require.NoError(t, err)
	forget := func() error {
		_, err := b.rpc.ForgetOrganisation(t.Context(), &messagingv1.ForgetOrganisationRequest{OrgId: b.org.String()})
		return err
	}
	set := func(status string) {
		_, err := b.pool.Exec(t.Context(), `insert into organisations (org_id, status, version, updated_at) values ($1, $2, 1, $3)
			on conflict (org_id) do update set status = excluded.status`, b.org, status, b.clock.Now())
		require.NoError(t, err)
	}
	require.ErrorIs(t, forget(), sms.ErrInvalid)
	set("suspended")
	require.ErrorIs(t, forget(), sms.ErrInvalid)
	id := uuid.MustParse(created.GetSenderId())
	_, err = b.directory.Client(t.Context(), b.org, id)
	require.NoError(t, err)

	set("ended")
	for range 2 {
		require.NoError(t, forget())
	}
	var kept, live int
	require.NoError(t, b.pool.QueryRow(t.Context(), `select count(api_key_secret) + count(auth_token) + count(next_auth_token),
		count(*) filter (where deleted_at is null) from senders`).Scan(&kept, &live))
	require.Equal(t, []int{0, 0}, []int{kept, live})
	_, err = b.directory.Client(t.Context(), b.org, id)
	require.ErrorIs(t, err, senders.ErrGone)
}
