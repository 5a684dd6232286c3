package onboardingtest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/roster"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/people"
)

// Hold puts a safety hold on a person.
func (b *Bundle) Hold(p people.Profile) {
	b.T.Helper()
	held, err := b.Current().Persons.Hold(b.T.Context(), OrgID, p.ID, "under review")
	require.NoError(b.T, err)
	require.True(b.T, held.Hold)
}

// Release lifts the hold of a person.
func (b *Bundle) Release(p people.Profile) {
	b.T.Helper()
	released, err := b.Current().Persons.Release(b.T.Context(), OrgID, p.ID)
	require.NoError(b.T, err)
	require.False(b.T, released.Hold)
}

// AnotherOrg is an organisation that has no sender.
const AnotherOrg = "00000000-0000-7000-8000-000000000002"

// Settle sets the quiet hours of an organisation.
func (b *Bundle) Settle(org string, hours *onboardingv1.QuietHours) (*onboardingv1.Settings, error) {
	b.T.Helper()
	ctx := rpc.WithPrincipal(b.T.Context(), rpc.Principal{Subject: "ada", Role: rpc.RoleOperator, OrgID: org})
	out, err := b.Current().Server.UpdateSettings(ctx, &onboardingv1.UpdateSettingsRequest{Settings: &onboardingv1.Settings{QuietHours: hours}})
	return out.GetSettings(), err
}

// SleepsAtNight lets our organisation write from 08:00 to 21:00 only.
func (b *Bundle) SleepsAtNight() {
	b.T.Helper()
	_, err := b.Settle(OrgID, &onboardingv1.QuietHours{Enabled: true})
	require.NoError(b.T, err)
}

// Turns sets the clock forward to a time in UTC, today or tomorrow.
func (b *Bundle) Turns(hour, minute int) {
	b.T.Helper()
	now := b.Clock.Now()
	then := time.Date(now.Year(), now.Month(), now.Day(), hour, minute, 0, 0, time.UTC)
	if then.Before(now) {
		then = then.Add(24 * time.Hour)
	}
	b.Clock.Advance(then.Sub(now))
	b.Idle()
}

// Morning is the end of the first quiet hours after the clock's start.
var Morning = time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)

// Pauses pauses scheduling as an operator.
func (b *Bundle) Pauses(reason string) *onboardingv1.SchedulingPause {
	b.T.Helper()
	out, err := Ask(b, b.Current().Server.PauseScheduling, &onboardingv1.PauseSchedulingRequest{Reason: reason})
	require.NoError(b.T, err)
	return out.GetPause()
}

// Unpauses resumes scheduling as an operator.
func (b *Bundle) Unpauses() bool {
	b.T.Helper()
	out, err := Ask(b, b.Current().Server.ResumeScheduling, &onboardingv1.ResumeSchedulingRequest{})
	require.NoError(b.T, err)
	return out.GetResumed()
}

// Person enrols a new person.
func (b *Bundle) Person() people.Profile {
	b.T.Helper()
	p, _, err := b.Current().Persons.Enrol(b.T.Context(), OrgID, roster.Person{
		Phone: fmt.Sprintf("+551198765%04d", b.people.Add(1)), FirstName: "Ana", TimeZone: "Africa/Abidjan",
	})
	require.NoError(b.T, err)
	return p
}
