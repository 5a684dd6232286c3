package payload

import (
	"encoding/json"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// payloadCase is one body, and its expected outcome: "malformed" here, "refused" by onboarding for its values, which are not judged
// here, or "accepted".
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
	text, err := os.ReadFile("testdata/step_payloads.json")
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
			step, issues := DecodeStep(c.body())
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

// FuzzDecodeStep holds the decoder to its promise: what it accepts is one JSON object that has exactly the five fields,
// each once, with the values that it returns.
func FuzzDecodeStep(f *testing.F) {
	for _, c := range payloadCorpus(f) {
		f.Add(c.body())
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		step, issues := DecodeStep(body)
		if issues != nil {
			require.Nil(t, step)
			requireFixed(t, issues)
			return
		}
		got := map[string]string{
			"profile_id": step.GetProfileId(), "session_id": step.GetSessionId(), "step_id": step.GetStepId(),
			"expected_state_token": step.GetExpectedStateToken(), "idempotency_key": step.GetIdempotencyKey(),
		}
		var want map[string]string
		decoder := json.NewDecoder(strings.NewReader(string(body)))
		require.NoError(t, decoder.Decode(&want))
		require.ErrorIs(t, decoder.Decode(new(any)), io.EOF)
		require.Equal(t, want, got)
		// Five names and five values are ten strings; a repeated field would have more.
		require.Equal(t, 10, countStrings(t, body), strconv.Quote(string(body)))
	})
}

// requireFixed holds the issues to our own words: nothing of the body is repeated.
func requireFixed(t *testing.T, issues map[string]string) {
	t.Helper()
	require.NotEmpty(t, issues)
	for field, issue := range issues {
		require.Contains(t, []string{Whole, "profile_id", "session_id", "step_id", "expected_state_token", "idempotency_key"}, field)
		require.Contains(t, []string{
			"is not one JSON value in UTF-8", "is not a JSON object", "has a field that does not belong there",
			"is there more than once", "is not text", "is empty", "is missing",
		}, issue)
	}
}

func countStrings(t *testing.T, body []byte) int {
	t.Helper()
	n := 0
	decoder := json.NewDecoder(strings.NewReader(string(body)))
	for {
		token, err := decoder.Token()
		if err == io.EOF {
			return n
		}
		require.NoError(t, err)
		if _, ok := token.(string); ok {
			n++
		}
	}
}

// FuzzDecodeGoal holds the decoder to its promise: what it accepts is one JSON object that has goal_id, once, and nothing else.
func FuzzDecodeGoal(f *testing.F) {
	f.Fuzz(func(t *testing.T, body []byte) {
		goal, issues := DecodeGoal(body)
		if issues != nil {
			require.Nil(t, goal)
			require.NotEmpty(t, issues)
			return
		}
		var fields map[string]string
		require.NoError(t, json.Unmarshal(body, &fields))
		require.Equal(t, map[string]string{"goal_id": goal.GetGoalId()}, fields)
		require.NotEmpty(t, goal.GetGoalId())
		require.Equal(t, 2, countStrings(t, body))
	})
}
