package gateway

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// payloadCase is one body of the corpus that onboarding's decoder is tested with too, and what is to become of it:
// "accepted" by both, "malformed" for both, or "refused" by onboarding for its values, which the gateway does not judge.
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
	text, err := os.ReadFile("../proto/testdata/step_payloads.json")
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
			step, issues := decodeStep(c.body())
			switch c.Verdict {
			case "malformed":
				require.Nil(t, step)
				requireFixed(t, issues)
			case "refused":
				require.Empty(t, issues)
			case "accepted":
				require.Empty(t, issues)
				require.True(t, proto.Equal(&onboardingv1.ExecuteStepRequest{
					ProfileId: "01980000-0000-7000-8000-00000000000a", SessionId: "01980000-0000-7000-8000-00000000000b",
					StepId: "onboarding_message_1", ExpectedStateToken: "onboarding:awaiting_burst",
					IdempotencyKey: "onboarding:01980000-0000-7000-8000-00000000000a:01980000-0000-7000-8000-00000000000b:onboarding_message_1",
				}, step))
			default:
				t.Fatalf("no such verdict: %q", c.Verdict)
			}
		})
	}
}
