package devices_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// TestDoorsOfGoalsCompose writes letters with their accents apart in names of devices and in goals: what is kept has them together.
func TestDoorsOfGoalsCompose(t *testing.T) {
	t.Parallel()
	n := listen(t)
	device := n.register("tablet").GetDevice().GetDeviceId()
	rapid.Check(t, func(t *rapid.T) {
		words := norm.NFC.String(strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"pão", "João", "é", "Müller", "한국", "ação", "ok"}), 1, 5).Draw(t, "words"), " "))
		apart := norm.NFD.String(words)

		made, err := n.client.RegisterDevice(n.user(), &onboardingv1.RegisterDeviceRequest{Name: apart})
		require.NoError(t, err)
		require.Equal(t, words, made.GetDevice().GetName())
		_, err = n.client.DeleteDevice(n.user(), &onboardingv1.DeleteDeviceRequest{DeviceId: made.GetDevice().GetDeviceId()})
		require.NoError(t, err)

		goal, err := n.client.CreateGoal(n.user(), &onboardingv1.CreateGoalRequest{
			ProfileId: n.person, DeviceId: device, Goal: "call " + apart + " tomorrow at 9am", IdempotencyKey: uuid.NewString(),
		})
		require.NoError(t, err)
		require.Equal(t, "call "+words+" tomorrow at 9am", goal.GetGoal().GetSaid())
		_, err = n.client.CancelGoal(n.user(), &onboardingv1.CancelGoalRequest{GoalId: goal.GetGoal().GetGoalId()})
		require.NoError(t, err)
	})
}
