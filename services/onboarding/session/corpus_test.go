package session_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/onboarding/session"
)

// payloadCase is one body of the decoder's corpus, and its expected verdict: "malformed" for the decoder, "refused" here for its
// values, or "accepted".
type payloadCase struct {
	Name    string `json:"name"`
	Verdict string `json:"verdict"`
	Text    string `json:"body"`
	Bytes   []byte `json:"body_base64"` // instead of Text, when it is not UTF-8
}

func (c payloadCase) body() []byte {
	if c.Bytes != nil {
		return c.Bytes
	}
	return []byte(c.Text)
}

func payloadCorpus(t testing.TB) []payloadCase {
	t.Helper()
	content, err := os.ReadFile("../../../proto/payload/testdata/step_payloads.json")
	require.NoError(t, err)
	var cases []payloadCase
	require.NoError(t, json.Unmarshal(content, &cases))
	require.NotEmpty(t, cases)
	return cases
}

func TestS1_24_PayloadCorpus(t *testing.T) {
	t.Parallel()
	for _, c := range payloadCorpus(t) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			var payload session.StepPayload
			switch c.Verdict {
			case "malformed":
			case "refused":
				require.NoError(t, json.Unmarshal(c.body(), &payload))
				require.ErrorIs(t, payload.Validate(), session.ErrPayload)
			case "accepted":
				require.NoError(t, json.Unmarshal(c.body(), &payload))
				require.NoError(t, payload.Validate())
				require.Equal(t, session.NewStepPayload(profileID, sessionID, "onboarding_message_1"), payload)
			default:
				t.Fatalf("no such verdict: %q", c.Verdict)
			}
		})
	}
}
