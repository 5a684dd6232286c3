package twilio_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"paceline.internal/emulators/clock"
	emulator "paceline.internal/emulators/twilio"
	"paceline.internal/services/messaging/twilio"
)

const (
	account              = "AC0123456789abcdef0123456789abcdef"
	apiKey, apiKeySecret = "SK0123456789abcdef0123456789abcdef", "00112233445566778899aabbccddeeff"
	token                = "fedcba9876543210fedcba9876543210"
	service              = "MG0123456789abcdef0123456789abcdef"
	number               = "+15550100001"
	pooled               = "+15550100002"
	person               = "+15550190001"
	body                 = "hello Ana"
)

var hello = twilio.Outgoing{To: person, Body: body}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bundle is the adapter, sending from a number, through real HTTP to the emulator.
type bundle struct {
	client   *twilio.Client
	emulator *emulator.Emulator
	clock    *clock.Settable
	origin   string
}

func setup(t *testing.T, edit func(*twilio.Config)) bundle {
	t.Helper()
	b := bundle{clock: clock.NewSettable(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))}
	var err error
	b.emulator, err = emulator.New(emulator.Config{
		Clock: b.clock, AccountSID: account, AuthToken: token,
		Numbers: []string{number}, Services: map[string][]string{service: {pooled}},
		APIKeys: map[string]string{apiKey: apiKeySecret},
	})
	require.NoError(t, err)
	t.Cleanup(b.emulator.Close)
	b.origin = serve(t, b.emulator)
	b.client = newClient(t, b.origin, edit)
	return b
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

func newClient(t *testing.T, origin string, edit func(*twilio.Config)) *twilio.Client {
	t.Helper()
	cfg := twilio.Config{AccountSID: account, AuthToken: token, APIURL: origin, FromNumber: number}
	if edit != nil {
		edit(&cfg)
	}
	c, err := twilio.New(cfg)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// faulty makes the emulator spoil every create.
func (b bundle) faulty(f emulator.CreateFault) {
	b.emulator.SetScript(emulator.Script{OnCreate: func(int, emulator.Message) emulator.CreateFault { return f }})
}

// discreet fails if an outcome's reason tells what must not be told.
func discreet(t require.TestingT, o twilio.Outcome) {
	for _, secret := range []string{person, person[1:], number, body, token, account} {
		require.NotContains(t, o.Reason, secret)
	}
}
