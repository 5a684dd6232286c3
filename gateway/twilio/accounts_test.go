package twilio

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"paceline.internal/emulators/clock"
	twiliotest "paceline.internal/emulators/twilio"
	"paceline.internal/platform/config"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

const (
	envAccount   = "ACaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	otherAccount = "ACbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	otherToken   = "b0000000000000000000000000000000"
	sharedToken  = "c0000000000000000000000000000000"
	shared       = "ACcccccccccccccccccccccccccccccccc"
)

// senders play messaging: two accounts, one of which two organisations share.
type senders struct {
	messagingv1.SenderServiceClient

	asked  int
	down   bool
	tokens []string
	guests []*messagingv1.CallbackSender // of other organisations, in the account of the environment
}

func (s *senders) GetCallbackAccount(
	_ context.Context, in *messagingv1.GetCallbackAccountRequest, _ ...grpc.CallOption,
) (*messagingv1.GetCallbackAccountResponse, error) {
	s.asked++
	if s.down {
		return nil, errors.New("down")
	}
	switch in.GetAccountSid() {
	case envAccount:
		return &messagingv1.GetCallbackAccountResponse{Known: true, Environment: true, Senders: append([]*messagingv1.CallbackSender{
			{OrgId: "first", Number: "+1", Environment: true},
		}, s.guests...)}, nil
	case otherAccount:
		return &messagingv1.GetCallbackAccountResponse{Known: true, Senders: []*messagingv1.CallbackSender{
			{OrgId: "second", Number: "+2", MessagingServiceSid: "MG2", AuthTokens: s.tokens},
		}}, nil
	case shared:
		return &messagingv1.GetCallbackAccountResponse{Known: true, Senders: []*messagingv1.CallbackSender{
			{OrgId: "third", Number: "+3", AuthTokens: []string{sharedToken, "kept"}},
			{OrgId: "fourth", MessagingServiceSid: "MG4", AuthTokens: []string{sharedToken}},
		}}, nil
	}
	return &messagingv1.GetCallbackAccountResponse{}, nil
}

// onboarding notes what it is given.
type onboarding struct {
	onboardingv1.OnboardingServiceClient

	got []*onboardingv1.ReceiveMessageRequest
}

func (o *onboarding) ReceiveMessage(
	_ context.Context, in *onboardingv1.ReceiveMessageRequest, _ ...grpc.CallOption,
) (*onboardingv1.ReceiveMessageResponse, error) {
	o.got = append(o.got, in)
	return &onboardingv1.ReceiveMessageResponse{}, nil
}

// messaging notes the receipts.
type messaging struct {
	messagingv1.MessagingServiceClient

	got []*messagingv1.RecordStatusRequest
}

func (m *messaging) RecordStatus(
	_ context.Context, in *messagingv1.RecordStatusRequest, _ ...grpc.CallOption,
) (*messagingv1.RecordStatusResponse, error) {
	m.got = append(m.got, in)
	return &messagingv1.RecordStatusResponse{}, nil
}

type bundle struct {
	*Callbacks

	senders    *senders
	onboarding *onboarding
	messaging  *messaging
	clock      *clock.Settable
	full       error  // of a network that has asked too often
	moved      string // the organisation that is in another deployment
}

func setup(t *testing.T) *bundle {
	t.Helper()
	public, err := config.ParseOrigin(origin)
	require.NoError(t, err)
	b := &bundle{
		senders: &senders{tokens: []string{otherToken}}, onboarding: &onboarding{}, messaging: &messaging{},
		clock: clock.NewSettable(time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)),
	}
	b.Callbacks, err = New(Config{
		AuthTokens: config.NewSecret(authToken), Origin: public, Onboarding: b.onboarding, Messaging: b.messaging, Senders: b.senders,
		Admit: func(context.Context) error { return b.full }, Now: b.clock.Now,
		Moved: func(_ context.Context, orgID string) bool { return orgID == b.moved },
	})
	require.NoError(t, err)
	return b
}

func text(account, to, service string) url.Values {
	return url.Values{"AccountSid": {account}, "MessageSid": {"SM1"}, "From": {"+9"}, "To": {to}, "MessagingServiceSid": {service}, "Body": {"STOP"}}
}

// post signs a form with a token and posts it.
func (b *bundle) post(t *testing.T, token, path string, form url.Values) int {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set(headerSignature, twiliotest.Sign(token, origin+path, form))
	w := httptest.NewRecorder()
	b.Routes()[strings.Split(path, "?")[0]].ServeHTTP(w, r)
	return w.Code
}

// TestCallbackIsVerifiedByTheAccountItNames, whoever else's token signs it, and booked within that account.
func TestCallbackIsVerifiedByTheAccountItNames(t *testing.T) {
	t.Parallel()
	twice := text(otherAccount, "+2", "")
	twice.Add("AccountSid", envAccount)
	for _, c := range []struct {
		name, token   string
		form          url.Values
		want          int
		account, org  string
		neverReceived bool
	}{
		{name: "OfTheEnvironment", token: authToken, form: text(envAccount, "+1", ""), want: 200, org: "first"},
		{name: "OfTheEnvironmentToAnotherNumber", token: authToken, form: text(envAccount, "+2", "MG2"), want: 200},
		{name: "WithoutAnAccount", token: authToken, form: text("", "+1", ""), want: 200},
		{name: "OfAnother", token: otherToken, form: text(otherAccount, "+2", ""), want: 200, account: otherAccount, org: "second"},
		{name: "ByTheService", token: otherToken, form: text(otherAccount, "+22", "MG2"), want: 200, account: otherAccount, org: "second"},
		{name: "ToANumberOfAnotherAccount", token: otherToken, form: text(otherAccount, "+1", ""), want: 200, account: otherAccount, org: "second"},
		{name: "OneOfTwoOrganisations", token: sharedToken, form: text(shared, "+3", "MG4"), want: 200, account: shared, org: "third"},
		{name: "TheOtherOfTwo", token: sharedToken, form: text(shared, "+4", "MG4"), want: 200, account: shared, org: "fourth"},
		{name: "ToNobodyOfTwo", token: sharedToken, form: text(shared, "+5", ""), want: 200, neverReceived: true},
		{name: "SignedByTheEnvironment", token: authToken, form: text(otherAccount, "+2", ""), want: 403, neverReceived: true},
		{name: "SignedByAnother", token: otherToken, form: text(envAccount, "+1", ""), want: 403, neverReceived: true},
		{name: "SignedByAnotherWithoutAnAccount", token: otherToken, form: text("", "+1", ""), want: 403, neverReceived: true},
		{name: "KeptAfterARotation", token: "kept", form: text(shared, "+4", "MG4"), want: 403, neverReceived: true},
		{name: "KeptForItsOwn", token: "kept", form: text(shared, "+3", ""), want: 200, account: shared, org: "third"},
		{name: "AnAccountOfNobody", token: otherToken, form: text("AC"+strings.Repeat("d", 32), "+1", ""), want: 401, neverReceived: true},
		{name: "NoAccountAtAll", token: otherToken, form: text("x' or 1=1", "+1", ""), want: 403, neverReceived: true},
		{name: "AsBeforeOfAnAccountOfNobody", token: authToken, form: text("AC"+strings.Repeat("d", 32), "+1", ""), want: 200},
		{name: "AsBeforeOfAnOddAccount", token: authToken, form: text("ACodd", "+1", ""), want: 200},
		{name: "TwoAccounts", token: otherToken, form: twice, want: 403, neverReceived: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			require.Equal(t, c.want, b.post(t, c.token, PathInbound, c.form))
			if c.neverReceived {
				require.Empty(t, b.onboarding.got)
				return
			}
			require.Equal(t, []string{c.account, c.org}, []string{b.onboarding.got[0].GetAccountSid(), b.onboarding.got[0].GetOrgId()})
		})
	}
}

// TestEnvironmentsAccountIsShared: its token signs for its own organisation, and for a guest without one; a guest's token for the guest.
func TestEnvironmentsAccountIsShared(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, token, to string
		want            int
		org             string
	}{
		{"OfItsOwn", authToken, "+1", 200, "first"},
		{"OfAGuestWithoutAToken", authToken, "+6", 200, "sixth"},
		{"OfAGuestWithAToken", authToken, "+5", 403, ""},
		{"ByTheGuest", "guest", "+5", 200, "fifth"},
		{"ByTheGuestToTheEnvironment", "guest", "+1", 403, ""},
		{"ToNobody", authToken, "+7", 200, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.senders.guests = []*messagingv1.CallbackSender{{OrgId: "fifth", Number: "+5", AuthTokens: []string{"guest"}}, {OrgId: "sixth", Number: "+6"}}
			require.Equal(t, c.want, b.post(t, c.token, PathInbound, text(envAccount, c.to, "")))
			if c.org == "" {
				require.Empty(t, b.onboarding.got)
				return
			}
			require.Equal(t, []string{"", c.org}, []string{b.onboarding.got[0].GetAccountSid(), b.onboarding.got[0].GetOrgId()})
		})
	}
}

func TestReceiptNamesItsAccount(t *testing.T) {
	t.Parallel()
	b := setup(t)
	receipt := func(account string) url.Values {
		return url.Values{"AccountSid": {account}, "MessageSid": {"SM1"}, "MessageStatus": {"delivered"}}
	}
	require.Equal(t, 200, b.post(t, authToken, PathStatus, receipt(envAccount)))
	require.Equal(t, 200, b.post(t, otherToken, PathStatus, receipt(otherAccount)))
	require.Equal(t, 403, b.post(t, otherToken, PathStatus, receipt(shared)))
	require.Equal(t, []string{"", otherAccount}, []string{b.messaging.got[0].GetAccountSid(), b.messaging.got[1].GetAccountSid()})

	// A token that one of two organisations keeps, and the other has replaced, says nothing about the other's messages.
	require.Equal(t, 200, b.post(t, "kept", PathStatus, receipt(shared)))
	require.Equal(t, 200, b.post(t, sharedToken, PathStatus, receipt(shared)))
	require.Equal(t, []string{"third"}, b.messaging.got[2].GetSignedByOrgIds())
	require.Equal(t, []string{"fourth", "third"}, b.messaging.got[3].GetSignedByOrgIds())
}

// TestOrganisationElsewhere: Twilio comes again with what an organisation gets that lives in another deployment. One that shares its account
// is answered.
func TestOrganisationElsewhere(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.moved = "third"
	require.Equal(t, 503, b.post(t, sharedToken, PathInbound, text(shared, "+3", "")))
	require.Empty(t, b.onboarding.got)
	require.Equal(t, 200, b.post(t, sharedToken, PathInbound, text(shared, "+4", "MG4")))
	receipt := url.Values{"AccountSid": {shared}, "MessageSid": {"SM1"}, "MessageStatus": {"delivered"}}
	require.Equal(t, 503, b.post(t, sharedToken, PathStatus, receipt), "it is about no message here")
}

func TestJSONNamesItsAccount(t *testing.T) {
	t.Parallel()
	for token, want := range map[string]int{otherToken: 200, authToken: 403} {
		b := setup(t)
		body, err := json.Marshal(map[string]string{"AccountSid": otherAccount, "MessageSid": "SM1", "From": "+9", "To": "+2"})
		require.NoError(t, err)
		sum := sha256.Sum256(body)
		path := PathInbound + "?" + bodyHashParameter + "=" + hex.EncodeToString(sum[:])
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(string(body)))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set(headerSignature, twiliotest.Sign(token, origin+path, nil))
		w := httptest.NewRecorder()
		b.Routes()[PathInbound].ServeHTTP(w, r)
		require.Equal(t, want, w.Code)
		if want == 200 {
			require.Equal(t, "second", b.onboarding.got[0].GetOrgId())
		}
	}
}

// TestAccountsAreRemembered for a minute at most, misses too, and a rotated token counts at once.
func TestAccountsAreRemembered(t *testing.T) {
	t.Parallel()
	b := setup(t)
	nobody := text("AC"+strings.Repeat("d", 32), "+1", "")
	for range 3 {
		require.Equal(t, 200, b.post(t, otherToken, PathInbound, text(otherAccount, "+2", "")))
		require.Equal(t, 401, b.post(t, otherToken, PathInbound, nobody))
	}
	require.Equal(t, 2, b.senders.asked)
	b.clock.Advance(time.Second)
	b.senders.tokens = []string{"rotated"}
	require.Equal(t, 200, b.post(t, "rotated", PathInbound, text(otherAccount, "+2", "")))
	require.Equal(t, 403, b.post(t, otherToken, PathInbound, text(otherAccount, "+2", "")))
	require.Equal(t, 3, b.senders.asked, "a forged one asks no more than once a second")
	b.clock.Advance(kept)
	require.Equal(t, 401, b.post(t, otherToken, PathInbound, nobody))
	require.Equal(t, 4, b.senders.asked)

	b.senders.down = true
	require.Equal(t, 200, b.post(t, "rotated", PathInbound, text(otherAccount, "+2", "")), "what was known counts while messaging is away")
	require.Equal(t, 200, b.post(t, authToken, PathInbound, text(envAccount, "+1", "")), "and the environment needs no answer")
	require.Equal(t, 500, b.post(t, sharedToken, PathInbound, text(shared, "+3", "")))

	b.clock.Advance(outageTrust)
	require.Equal(t, 500, b.post(t, "rotated", PathInbound, text(otherAccount, "+2", "")), "for a few minutes")
	require.Equal(t, 200, b.post(t, authToken, PathInbound, text(envAccount, "+1", "")))

	b.senders.down = false
	asked := b.senders.asked
	b.full = status.Error(codes.ResourceExhausted, "too many")
	require.Equal(t, 503, b.post(t, otherToken, PathInbound, text("AC"+strings.Repeat("e", 32), "+1", "")))
	require.Equal(t, asked, b.senders.asked)
	require.Equal(t, 200, b.post(t, "rotated", PathInbound, text(otherAccount, "+2", "")), "one that is known is asked about all the same")
	b.full = nil
	for n := range mostUnknown + 5 {
		b.post(t, otherToken, PathInbound, text(fmt.Sprintf("AC%032d", n), "+1", ""))
	}
	require.LessOrEqual(t, len(b.accounts.unknown), mostUnknown)
	require.Len(t, b.accounts.ours, 1)
}
