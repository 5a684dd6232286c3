package session_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/onboarding/session"
)

// payloadCase is one body of the corpus that the gateway's decoder is tested with too, and what is to become of it:
// "accepted" by both, "malformed" for both, or "refused" here for its values, which the gateway does not judge. So
// whatever the gateway takes for well-formed is well-formed here as well.
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
	text, err := os.ReadFile("../../../proto/testdata/step_payloads.json")
	require.NoError(t, err)
	var cases []payloadCase
	require.NoError(t, json.Unmarshal(text, &cases))
	require.NotEmpty(t, cases)
	return cases
}

func TestS1_24_PayloadCorpus(t *testing.T) {
	t.Parallel()
	for _, c := range payloadCorpus(t) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			payload, err := session.DecodePayload(c.body())
			switch c.Verdict {
			case "malformed", "refused":
				require.ErrorIs(t, err, session.ErrPayload)
				require.Zero(t, payload)
			case "accepted":
				require.NoError(t, err)
				require.Equal(t, session.NewStepPayload(profileID, sessionID, "onboarding_message_1"), payload)
			default:
				t.Fatalf("no such verdict: %q", c.Verdict)
			}
		})
	}
}
