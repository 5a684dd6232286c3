package stack_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/stack"
	"paceline.internal/emulators/twilio"
	"paceline.internal/platform/rpc"
	"paceline.internal/services/messaging/senders"
)

// TestTwoOrganisations: each with its Twilio account, the second one's set up over the API alone. Each sends and hears with its own, and a STOP
// to one leaves the other untouched.
func TestTwoOrganisations(t *testing.T) {
	t.Parallel()
	keyset, err := senders.NextKeyset("")
	require.NoError(t, err)
	b := setup(t, "SENDER_KEYSET", keyset)
	second, org := stack.Second(), uuid.NewString()
	key := slices.Collect(maps.Keys(second.APIKeys))[0]
	service := slices.Collect(maps.Keys(second.Services))[0]
	theirs, err := b.config.Secrets.APIToken("other", org, rpc.RoleOperator, noon, 30*24*time.Hour)
	require.NoError(t, err)
	as := func(token, method, path string, in, out any) {
		t.Helper()
		status, answer := b.try(t, token, method, path, in)
		require.Contains(t, []int{http.StatusOK, http.StatusCreated}, status, "%s %s: %s", method, path, answer)
		if out != nil {
			require.NoError(t, json.Unmarshal(answer, out))
		}
	}
	describes := map[string]any{
		"name": "Second brand", "account_sid": second.SID, "api_key_sid": key, "api_key_secret": second.APIKeys[key],
		"auth_token": second.AuthToken, "messaging_service_sid": service, "segments_per_second": 10,
	}
	wrong := maps.Clone(describes)
	wrong["auth_token"] = stack.AuthToken
	require.Equal(t, "REASON_SENDER_CREDENTIALS_REFUSED", b.refused(t, theirs, http.MethodPost, "/v1/senders", wrong, http.StatusBadRequest))
	as(theirs, http.MethodPost, "/v1/senders", describes, nil)
	require.Equal(t, "REASON_SENDER_CLAIMED", b.refused(t, b.operator, http.MethodPost, "/v1/senders", describes, http.StatusConflict))

	const phone = "+14155552099"
	activate := func(token string) {
		t.Helper()
		var created struct {
			Profile profileJSON `json:"profile"`
		}
		as(token, http.MethodPost, "/v1/profiles", map[string]string{"phone": phone, "first_name": "Zuleika", "locale": "en", "time_zone": "America/Los_Angeles"}, &created)
		as(token, http.MethodPost, "/v1/profiles/"+created.Profile.ProfileID+":activate", struct{}{}, nil)
	}
	heard := func() map[string]int {
		from := map[string]int{}
		for _, m := range b.vendors.Twilio.Messages() {
			if m.Direction == twilio.DirectionAPI {
				from[m.AccountSID]++
			}
		}
		return from
	}
	activate(b.operator)
	activate(theirs)
	b.rest(t)
	first := stack.Credentials()["TWILIO_ACCOUNT_SID"]
	require.Equal(t, map[string]int{first: 1, second.SID: 1}, heard(), "the opening of each, by its account")

	var number string
	for _, m := range b.vendors.Twilio.Messages() {
		if m.AccountSID == second.SID {
			number = m.From
			require.Equal(t, twilio.StatusDelivered, m.Status)
		}
	}
	says := func(to, words string) {
		t.Helper()
		delivery, err := b.vendors.Twilio.Receive(t.Context(), phone, to, words)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, delivery.StatusCode, "%+v", delivery)
		b.rest(t)
	}
	says(number, "yes please, do go on")
	require.Equal(t, map[string]int{first: 1, second.SID: 2}, heard(), "the second organisation alone heard it, and answered")
	var messages struct {
		Messages []messageJSON `json:"messages"`
	}
	as(theirs, http.MethodGet, "/v1/messages", nil, &messages)
	require.Len(t, messages.Messages, 3)
	require.Equal(t, "delivered", messages.Messages[0].Status, "its receipts came, too")
	as(b.operator, http.MethodGet, "/v1/messages", nil, &messages)
	require.Len(t, messages.Messages, 1)

	says(number, "STOP")
	state := func(token string) string {
		t.Helper()
		var consent consentJSON
		as(token, http.MethodGet, "/v1/consents/"+phone, nil, &consent)
		return consent.Consent.State
	}
	require.Equal(t, "opted_out", state(theirs))
	require.Equal(t, "opted_in", state(b.operator))
	says(stack.FromNumber, "yes please, do go on")
	require.Equal(t, 2, heard()[first])

	for _, secret := range []string{second.AuthToken, second.APIKeys[key]} {
		require.NotContains(t, strings.Join(b.log.all(), "\n"), secret)
	}
}
