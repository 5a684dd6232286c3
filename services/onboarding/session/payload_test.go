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

	var decoded session.StepPayload
	require.NoError(t, json.Unmarshal([]byte(goodPayload), &decoded))
	require.Equal(t, payload, decoded)
}

func TestValidateRefuses(t *testing.T) {
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
			var payload session.StepPayload
			require.NoError(t, json.Unmarshal([]byte(tt.body), &payload))
			err := payload.Validate()
			require.ErrorIs(t, err, session.ErrPayload)
			require.ErrorContains(t, err, tt.want)
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
