package session_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/onboarding/session"
)

func TestDefaultFlow(t *testing.T) {
	t.Parallel()
	flow := session.DefaultFlow()
	want := []session.Step{
		{ID: "onboarding_message_1", Text: "ONBOARDING_MESSAGE_1", Delay: 0},
		{ID: "onboarding_message_2", Text: "ONBOARDING_MESSAGE_2", Delay: 8 * time.Second},
		{ID: "onboarding_message_3", Text: "ONBOARDING_MESSAGE_3", Delay: 8 * time.Second},
		{ID: "onboarding_message_4", Text: "ONBOARDING_MESSAGE_4", Delay: 0},
	}
	require.Equal(t, want, flow.Steps())
	require.Equal(t, want[0], flow.First())
	require.Equal(t, "2026-11", flow.Version())

	for i, step := range want {
		found, ok := flow.Step(step.ID)
		require.True(t, ok)
		require.Equal(t, step, found)
		before := ""
		if i > 0 {
			before = string(want[i-1].ID)
		}
		require.Equal(t, before, flow.Script().Before(string(step.ID)))
	}
	_, ok := flow.Step("onboarding_message_5")
	require.False(t, ok)

	flow.Steps()[0].ID = "changed"
	require.Equal(t, want[0], flow.First(), "a flow never changes")
}

func TestParseFlow(t *testing.T) {
	t.Parallel()
	const good = `{"id":"hello","text":"ONBOARDING_MESSAGE_1","delay_ms":604800000}`
	file := func(steps ...string) string {
		return fmt.Sprintf(`{"version":"v1","steps":[%s]}`, strings.Join(steps, ","))
	}

	t.Run("TakesAFlowOfOneStepSevenDaysLater", func(t *testing.T) {
		t.Parallel()
		flow, err := session.ParseFlow([]byte(file(good)))
		require.NoError(t, err)
		require.Equal(t, []session.Step{{ID: "hello", Text: "ONBOARDING_MESSAGE_1", Delay: session.MaxDelay}}, flow.Steps())
	})

	t.Run("TakesWaitsForDeliveryAndThePolicyOfUnknownSends", func(t *testing.T) {
		t.Parallel()
		flow, err := session.ParseFlow([]byte(`{"version":"v1","unknown_sends":"never_duplicate","steps":[` + good +
			`,{"id":"a","text":"ONBOARDING_MESSAGE_2","delay_ms":0,"after_delivery":"20s"}` +
			`,{"id":"b","text":"ONBOARDING_MESSAGE_3","delay_ms":0,"after_delivery":"10m"}]}`))
		require.NoError(t, err)
		require.Equal(t, session.NeverDuplicate, flow.UnknownSends())
		steps := flow.Steps()
		require.Equal(t, []time.Duration{0, 20 * time.Second, session.MaxAfterDelivery},
			[]time.Duration{steps[0].AfterDelivery, steps[1].AfterDelivery, steps[2].AfterDelivery})
	})

	t.Run("WaitsForNoDeliveryAndSendsAgainWhatIsAbsentUnlessTold", func(t *testing.T) {
		t.Parallel()
		flow, err := session.ParseFlow([]byte(file(good)))
		require.NoError(t, err)
		require.Equal(t, session.ConfirmAbsentThenResend, flow.UnknownSends())
		for _, step := range append(flow.Steps(), session.DefaultFlow().Steps()...) {
			require.Zero(t, step.AfterDelivery)
		}
	})

	second := func(afterDelivery string) string {
		return file(good, `{"id":"a","text":"ONBOARDING_MESSAGE_2","delay_ms":0,"after_delivery":`+afterDelivery+`}`)
	}
	tests := []struct {
		name string
		file string
		want []string
	}{
		{name: "WaitThatIsNoDuration", file: second(`"twenty"`), want: []string{`step 2: after_delivery "twenty" must be`}},
		{name: "EmptyWait", file: second(`""`), want: []string{`step 2: after_delivery "" must be`}},
		{name: "WaitThatIsANumber", file: second(`20`), want: []string{"after_delivery"}},
		{name: "WaitOfNothing", file: second(`"0s"`), want: []string{`after_delivery "0s" must be`}},
		{name: "NegativeWait", file: second(`"-1s"`), want: []string{`after_delivery "-1s" must be`}},
		{name: "WaitTooLong", file: second(`"10m1s"`), want: []string{`after_delivery "10m1s" must be`}},
		{
			name: "WaitOfTheFirstStep", file: file(`{"id":"a","text":"ONBOARDING_MESSAGE_1","delay_ms":0,"after_delivery":"20s"}`),
			want: []string{"step 1: after_delivery is for a step that has one before it"},
		},
		{name: "UnknownPolicy", file: `{"version":"v1","unknown_sends":"resend","steps":[` + good + `]}`, want: []string{`unknown_sends "resend" must be`}},
		{name: "EmptyPolicy", file: `{"version":"v1","unknown_sends":"","steps":[` + good + `]}`, want: []string{`unknown_sends "" must be`}},
		{
			name: "TooManySteps", file: `{"version":"v1","steps":[` + good + strings.Repeat(","+good, 497) + `]}`,
			want: []string{"steps has 498; at most 497 are allowed"},
		},
		{name: "NotJSON", file: `steps:`, want: []string{"invalid character"}},
		{name: "Empty", file: ``, want: []string{"EOF"}},
		{name: "SomethingAfterTheObject", file: file(good) + `{}`, want: []string{"something follows"}},
		{name: "UnknownField", file: `{"version":"v1","steps":[` + good + `],"loop":true}`, want: []string{`unknown field "loop"`}},
		{name: "UnknownFieldOfAStep", file: file(`{"id":"a","text":"ONBOARDING_MESSAGE_1","delay_ms":0,"delay":"8s"}`), want: []string{`unknown field "delay"`}},
		{name: "NoVersionAndNoSteps", file: `{}`, want: []string{"version is missing", "steps is missing or empty"}},
		{name: "DelayThatIsNoNumber", file: file(`{"id":"a","text":"ONBOARDING_MESSAGE_1","delay_ms":"8s"}`), want: []string{"delay_ms"}},
		{name: "DuplicateID", file: file(good, `{"id":"hello","text":"ONBOARDING_MESSAGE_2","delay_ms":0}`), want: []string{`step 2: id "hello" is there already`}},
		{name: "DuplicateText", file: file(good, `{"id":"again","text":"ONBOARDING_MESSAGE_1","delay_ms":0}`), want: []string{`step 2: text "ONBOARDING_MESSAGE_1" is there already`}},
		{
			name: "EveryProblemOfEveryStepAtOnce",
			file: file(`{"id":"Hello!","text":"WELCOME","delay_ms":-1}`, `{"id":"later","text":"ONBOARDING_LATER","delay_ms":604800001}`, `{}`),
			want: []string{
				`step 1: id "Hello!" must be`, `step 1: text "WELCOME" must be`, "step 1: delay_ms -1 must be",
				`step 2: id "later" is the key of a direct text`, `step 2: text "ONBOARDING_LATER" must be`, "step 2: delay_ms 604800001 must be",
				`step 3: id "" must be`, `step 3: text "" must be`, "step 3: delay_ms is missing",
			},
		},
		{name: "TextWithALeadingZero", file: file(`{"id":"a","text":"ONBOARDING_MESSAGE_01","delay_ms":0}`), want: []string{"text"}},
		{name: "IDTooLong", file: file(`{"id":"` + strings.Repeat("a", 65) + `","text":"ONBOARDING_MESSAGE_1","delay_ms":0}`), want: []string{"1 to 64"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			flow, err := session.ParseFlow([]byte(tt.file))
			require.ErrorIs(t, err, session.ErrFlow)
			for _, want := range tt.want {
				require.ErrorContains(t, err, want)
			}
			require.Empty(t, flow.Steps())
		})
	}
}
