package runs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/runs"
)

func TestMain(m *testing.M) { onboardingtest.Main(m) }

// bundle adds the helpers of these tests to the service.
type bundle struct{ *onboardingtest.Bundle }

// setup starts the service, with a flow of one text: a broadcast.
func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{onboardingtest.New(t)}
	b.publish("Hello {first_name|there}, we open at {hour|nine}.")
	return b
}

// publish publishes a version of the flow news.
func (b *bundle) publish(text string) string {
	b.T.Helper()
	done, err := b.Store.Flows().Publish(b.T.Context(), onboardingtest.OrgID, map[string]string{
		"flow.yaml": "flow: news\nlanguages: [en, pt-BR]\nstart: hello\nfields: {hour: text, plan: text, visits: number}\n" +
			"steps:\n  hello: {send: HELLO, then: done}\n  done: {end: completed}\n",
		"en.yaml": "texts:\n  HELLO: \"" + text + "\"\n", "pt-BR.yaml": "texts:\n  HELLO: \"Oi! " + text + "\"\n",
	}, b.Clock.Now())
	require.NoError(b.T, err)
	return done.Version.Version
}

func (b *bundle) runs() *runs.Service { return b.Current().Runs }

// start makes a run.
func (b *bundle) start(in runs.Request) runs.Run {
	b.T.Helper()
	in.OrgID, in.Flow = onboardingtest.OrgID, "news"
	if in.Key == "" {
		in.Key = onboardingtest.NewID()
	}
	run, _, _, err := b.runs().Start(b.T.Context(), in)
	require.NoError(b.T, err)
	return run
}

// get reads a run.
func (b *bundle) get(id string) runs.Run {
	b.T.Helper()
	run, err := b.Store.Runs().Run(b.T.Context(), onboardingtest.OrgID, id) // past the ports that fail
	require.NoError(b.T, err)
	if run.Counts == nil {
		counts, err := b.Store.Runs().Count(b.T.Context(), id)
		require.NoError(b.T, err)
		run.Counts = &counts
	}
	return run
}

// persons enrols several people.
func (b *bundle) persons(n int) (all []people.Profile) {
	for range n {
		all = append(all, b.Person())
	}
	return all
}

func idsOf(all []people.Profile) (found []string) {
	for _, p := range all {
		found = append(found, p.ID)
	}
	return found
}

// texts counts the texts that each of some people got.
func (b *bundle) texts(all []people.Profile) (n []int) {
	for _, p := range all {
		n = append(n, len(b.Messaging.Taken(p.Phone)))
	}
	return n
}

// crowd enrols many people by SQL: every tenth speaks Portuguese.
func crowd(t testing.TB, exec func(sql string, args ...any), n int, at time.Time) {
	t.Helper()
	exec(`insert into profiles (id, org_id, phone, first_name, locale, time_zone, created_at, updated_at)
		select gen_random_uuid(), $1, '+1212' || lpad((2000000 + i)::text, 7, '0'), 'Ana', case when i % 10 = 0 then 'pt-BR' else 'en' end,
		    'America/New_York', $3, $3 from generate_series(1, $2::int) i`, onboardingtest.OrgID, n, at)
	exec(`insert into profile_fields (profile_id, org_id, name, value, private, updated_at)
		select id, org_id, 'plan', '"gold"', false, $1 from profiles where locale = 'en'`, at)
	exec(`analyze profiles`)
}
