package session_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/onboarding/session"
)

const goodPayload = `{"profile_id":"01980000-0000-7000-8000-00000000000a","session_id":"01980000-0000-7000-8000-00000000000b",` +
	`"step_id":"onboarding_message_1","expected_state_token":"onboarding:awaiting_burst",` +
	`"idempotency_key":"onboarding:01980000-0000-7000-8000-00000000000a:01980000-0000-7000-8000-00000000000b:onboarding_message_1"}`

func TestPayloadIsExactlyTheContract(t *testing.T) {
	t.Parallel()
	payload := session.NewStepPayload(profileID, sessionID, "onboarding_message_1")
	body, err := payload.Encode()
	require.NoError(t, err)
	require.JSONEq(t, goodPayload, string(body))

	decoded, err := session.DecodePayload([]byte("  " + goodPayload + "\n"))
	require.NoError(t, err)
	require.Equal(t, payload, decoded)
}

func TestDecodePayloadRefuses(t *testing.T) {
	t.Parallel()
	swap := func(from, to string) string {
		if !strings.Contains(goodPayload, from) {
			panic("nothing to swap: " + from)
		}
		return strings.Replace(goodPayload, from, to, 1)
	}
	all := func(from, to string) string { return strings.ReplaceAll(goodPayload, from, to) }
	tests := []struct {
		name string
		body string
		want string
	}{
		{name: "Empty", body: "", want: "not one JSON value"},
		{name: "Cut", body: goodPayload[:len(goodPayload)-1], want: "not one JSON value"},
		{name: "TrailingBytes", body: goodPayload + "{}", want: "not one JSON value"},
		{name: "Array", body: "[" + goodPayload + "]", want: "not a JSON object"},
		{name: "Null", body: "null", want: "not a JSON object"},
		{name: "NoFields", body: "{}", want: "missing: expected_state_token, idempotency_key, profile_id, session_id, step_id"},
		{name: "MissingField", body: swap(`"step_id":"onboarding_message_1",`, ""), want: "missing: step_id"},
		{name: "UnknownField", body: swap("{", `{"force":"yes",`), want: `field "force" is unknown`},
		{name: "DuplicateField", body: swap("{", `{"step_id":"onboarding_message_1",`), want: `field "step_id" is unknown or there twice`},
		{name: "FieldInAnotherCase", body: swap("step_id", "Step_ID"), want: `field "Step_ID" is unknown`},
		{name: "NumberForAString", body: swap(`"onboarding_message_1"`, "1"), want: "field step_id is not a string"},
		{name: "ObjectForAString", body: swap(`"onboarding_message_1"`, `{"step_id":"x"}`), want: "field step_id is not a string"},
		{name: "NullForAString", body: swap(`"onboarding_message_1"`, "null"), want: "field step_id is not a string"},
		{name: "ProfileIsNoUUID", body: all("01980000-0000-7000-8000-00000000000a", "profile-1"), want: "profile_id is not a UUID"},
		{name: "SessionIsNoUUID", body: all("01980000-0000-7000-8000-00000000000b", "01980000000070008000000000000000000b"), want: "session_id is not a UUID"},
		{name: "UUIDInCapitals", body: all("00000000000a", "00000000000A"), want: "profile_id is not a UUID in lower case"},
		{name: "UUIDWithShiftedHyphens", body: all("01980000-0000-7000-8000-00000000000a", "0198000-00000-7000-8000-00000000000a"), want: "profile_id is not a UUID"},
		{name: "StepIDOutsideItsCharacters", body: all("onboarding_message_1", "onboarding:message"), want: "step_id must be"},
		{name: "KeyOfAnotherStep", body: swap(`000b:onboarding_message_1"`, `000b:onboarding_message_2"`), want: "idempotency_key is not that of its own fields"},
		{name: "UnknownToken", body: swap("onboarding:awaiting_burst", "onboarding:awaiting_lunch"), want: "unknown state token"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			payload, err := session.DecodePayload([]byte(tt.body))
			require.ErrorIs(t, err, session.ErrPayload)
			require.ErrorContains(t, err, tt.want)
			require.Zero(t, payload)
		})
	}
}

func TestEncodeRefusesWhatDecodeWould(t *testing.T) {
	t.Parallel()
	payload := session.NewStepPayload(profileID, sessionID, "onboarding_message_1")
	payload.IdempotencyKey = "onboarding:other"
	_, err := payload.Encode()
	require.ErrorIs(t, err, session.ErrPayload)
}

func FuzzDecodePayload(f *testing.F) {
	f.Add([]byte(goodPayload))
	f.Add([]byte(`{"step_id":"a","step_id":"b"}`))
	for _, c := range payloadCorpus(f) { // the gateway's decoder begins with them too
		f.Add(c.body())
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		payload, err := session.DecodePayload(body)
		if err != nil {
			require.ErrorIs(t, err, session.ErrPayload)
			require.Zero(t, payload)
			return
		}
		encoded, err := payload.Encode()
		require.NoError(t, err)
		again, err := session.DecodePayload(encoded)
		require.NoError(t, err)
		require.Equal(t, payload, again)

		var fields map[string]string
		require.NoError(t, json.Unmarshal(body, &fields), "the standard decoder takes whatever ours takes")
		require.Len(t, fields, 5)
	})
}
