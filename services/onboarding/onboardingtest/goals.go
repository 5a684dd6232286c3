package onboardingtest

import (
	"fmt"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/roster"
	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/goals"
	"paceline.internal/services/onboarding/people"
)

// Speaker enrols a person with this locale. It is seven in the morning in their time zone.
func (b *Bundle) Speaker(locale string) people.Profile {
	b.T.Helper()
	zone := map[string]string{"en": "America/New_York", "pt-BR": "America/Sao_Paulo"}[locale]
	p, _, err := b.Current().Persons.Enrol(b.T.Context(), OrgID, roster.Person{
		Phone: fmt.Sprintf("+551198765%04d", b.people.Add(1)), FirstName: "Ana", Locale: locale, TimeZone: zone,
	})
	require.NoError(b.T, err)
	return p
}

// American enrols an English speaker in New York.
func American(b *Bundle) people.Profile { return b.Speaker("en") }

// Reminded has a new American say a goal, and returns both.
func (b *Bundle) Reminded(words string) (people.Profile, goals.Goal) {
	b.T.Helper()
	p := American(b)
	b.Reply(p, words)
	return p, b.SaidGoal(p)
}

// JohnAtNine says a goal for tomorrow at nine.
const JohnAtNine = "Remind me to call John tomorrow at 9am"

// SaidGoal returns the newest goal of a person.
func (b *Bundle) SaidGoal(p people.Profile) goals.Goal {
	b.T.Helper()
	all := b.GoalsOf(p)
	require.NotEmpty(b.T, all)
	return all[0]
}

// GoalsOf lists the goals of a person, newest first.
func (b *Bundle) GoalsOf(p people.Profile) []goals.Goal {
	b.T.Helper()
	all, err := b.Store.Goals().List(b.T.Context(), goals.GoalFilter{ProfileID: p.ID, Limit: 200})
	require.NoError(b.T, err)
	return all
}

// Says renders the text of a key.
func (b *Bundle) Says(p people.Profile, key string, params catalog.Params) string {
	b.T.Helper()
	text, err := catalog.DefaultEngagement().Render(p.Locale, key, "", params)
	require.NoError(b.T, err)
	return text
}
