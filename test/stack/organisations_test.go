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
// to one leaves the other untouched. Each keeps to its own flow, language, caps and quiet hours.
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

	b.differ(t, map[string]organisation{
		first:      {b.operator, "en", stack.FromNumber, "Corner Market", map[string]any{"quiet_hours": map[string]any{"enabled": false}}},
		second.SID: {theirs, "pt-BR", number, "Mercado", map[string]any{"quiet_hours": map[string]any{"enabled": true, "open": "08:00", "close": "21:00"}}},
	})

	for _, secret := range []string{second.AuthToken, second.APIKeys[key]} {
		require.NotContains(t, strings.Join(b.log.all(), "\n"), secret)
	}
}

// organisation is one of several in a deployment.
type organisation struct {
	token, locale, number, brand string
	settings                     map[string]any
}

// differ has organisations, by their accounts, decide different flows, languages, brands, caps and quiet hours, and run at once for one
// phone: each keeps to its own, answers a call for help in its name, and goes on after a STOP to the other. It is night there, and the second one alone has quiet hours; its cap is two texts a day.
func (b *bundle) differ(t *testing.T, all map[string]organisation) {
	t.Helper()
	const phone = "+14155552098" // in Los Angeles
	now := b.clock.Now()
	b.advanceTo(t, time.Date(now.Year(), now.Month(), now.Day()+1, 12, 0, 0, 0, time.UTC))
	texts := map[string]map[string]string{"en": {"ASK": "Corner Market: may we text you offers?", "DONE": "Corner Market: welcome."}, "pt-BR": {
		"CONFIRM": "Mercado: quer nossas ofertas?", "WHICH": "Mercado: comida ou roupas?", "DONE": "Mercado: obrigado.",
	}}
	definitions := map[string]string{
		"en": `{"flow": "offers", "languages": ["en"], "start": "ask", "steps": {"ask": {"ask": "ASK", "expect": "yes_no", "unclear": {"send": "ASK", "times": 1, "then": "end"}, "silence": {"after": "72h", "then": "end"}, "then": {"yes": "done", "no": "end"}},
			"done": {"send": "DONE", "then": "end"}, "end": {"end": "over"}}}`,
		"pt-BR": `{"flow": "ofertas", "languages": ["pt-BR"], "start": "ask", "steps": {"ask": {"ask": "CONFIRM", "expect": "yes_no", "unclear": {"send": "CONFIRM", "times": 1, "then": "end"}, "silence": {"after": "72h", "then": "end"}, "then": {"yes": "which", "no": "end"}},
			"which": {"ask": "WHICH", "expect": "reply", "silence": {"after": "72h", "then": "end"}, "then": "done"}, "done": {"send": "DONE", "then": "end"}, "end": {"end": "over"}}}`,
	}
	do := func(o organisation, method, path string, in any) []byte {
		status, answer := b.try(t, o.token, method, path, in)
		require.Contains(t, []int{http.StatusOK, http.StatusCreated}, status, "%s %s: %s", method, path, answer)
		return answer
	}
	caps := map[string]map[string]any{"en": {}, "pt-BR": {"phone_day": map[string]int{"messages": 2, "segments": 9}}}
	for _, o := range all {
		of, err := json.Marshal(map[string]any{"texts": texts[o.locale]}) // which YAML is, too
		require.NoError(t, err)
		do(o, http.MethodPost, "/v1/flows", map[string]any{"files": map[string]string{"flow.yaml": definitions[o.locale], o.locale + ".yaml": string(of)}})
		maps.Copy(o.settings, map[string]any{
			"activation_flow": map[string]string{"en": "offers", "pt-BR": "ofertas"}[o.locale],
			"sending":         map[string]any{"brand": o.brand, "help_contact": "help@" + o.locale + ".example", "caps": caps[o.locale]},
		})
		do(o, http.MethodPut, "/v1/settings", map[string]any{"settings": o.settings})
		var created struct {
			Profile profileJSON `json:"profile"`
		}
		require.NoError(t, json.Unmarshal(do(o, http.MethodPost, "/v1/profiles", map[string]string{
			"phone": phone, "first_name": "Zuleika", "locale": o.locale, "time_zone": "America/Los_Angeles",
		}), &created))
		do(o, http.MethodPost, "/v1/profiles/"+created.Profile.ProfileID+":activate", struct{}{})
	}
	heard := func() map[string][]string {
		by := map[string][]string{}
		for _, m := range b.vendors.Twilio.Messages() {
			if m.Direction == twilio.DirectionAPI && m.To == phone {
				by[all[m.AccountSID].locale] = append(by[all[m.AccountSID].locale], m.Body)
			}
		}
		return by
	}
	says := func(words map[string]string) {
		for _, o := range all {
			delivery, err := b.vendors.Twilio.Receive(t.Context(), phone, o.number, words[o.locale])
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, delivery.StatusCode, "%+v", delivery)
		}
		b.idle(t)
	}
	b.idle(t)
	require.Equal(t, map[string][]string{"en": {texts["en"]["ASK"]}}, heard(), "the other one has quiet hours")
	b.advanceTo(t, b.clock.Now().Add(4*time.Hour-time.Minute))
	require.Len(t, heard(), 1)
	b.advanceTo(t, b.clock.Now().Add(time.Hour))
	b.until(t, "it is day there", func() bool { return len(heard()["pt-BR"]) > 0 })
	require.Equal(t, map[string][]string{"en": {texts["en"]["ASK"]}, "pt-BR": {texts["pt-BR"]["CONFIRM"]}}, heard())
	says(map[string]string{"en": "yes", "pt-BR": "sim"})
	says(map[string]string{"en": "thanks", "pt-BR": "comida"}) // which opens a ticket in the first, as its flow is over
	require.Equal(t, map[string][]string{
		"en": {texts["en"]["ASK"], texts["en"]["DONE"]}, "pt-BR": {texts["pt-BR"]["CONFIRM"], texts["pt-BR"]["WHICH"]},
	}, heard(), "the cap of the other one is reached")

	says(map[string]string{"en": "help, please", "pt-BR": "ajuda"}) // HELP alone Twilio answers
	b.until(t, "both answer", func() bool { return len(heard()["en"]) == 3 && len(heard()["pt-BR"]) == 3 })
	for _, o := range all {
		answer := heard()[o.locale][2]
		require.Regexp(t, `^`+o.brand+`: `, answer)
		require.Contains(t, answer, " help@"+o.locale+".example.")
	}
	for _, o := range all {
		if o.locale == "en" {
			_, err := b.vendors.Twilio.Receive(t.Context(), phone, o.number, "STOP")
			require.NoError(t, err)
		}
	}
	b.until(t, "the first one is told to stop", func() bool {
		return count(t, b.messaging, `select count(*) from consents where phone = '`+phone+`' and state = 'opted_out'`) == 1
	})
	b.advanceTo(t, b.clock.Now().Add(24*time.Hour))
	b.until(t, "the other one goes on, as its cap lets it", func() bool { return len(heard()["pt-BR"]) == 4 })
	require.Equal(t, texts["pt-BR"]["DONE"], heard()["pt-BR"][3])
	require.Len(t, heard()["en"], 3)
	for _, o := range all {
		var of consentJSON
		require.NoError(t, json.Unmarshal(do(o, http.MethodGet, "/v1/consents/"+phone, nil), &of))
		require.Equal(t, map[string]string{"en": "opted_out", "pt-BR": "opted_in"}[o.locale], of.Consent.State)
	}
}
