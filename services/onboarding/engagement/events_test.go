package engagement_test

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/engagement"
	"paceline.internal/services/onboarding/engagement/rules"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// event is a row of the outbox.
type event struct {
	kind, cause string
	at          time.Time
	data        map[string]any
}

// shape is an event as docs/engagement.md has it: its type, and the names of its data.
func (e event) shape() string {
	return e.kind + " " + strings.Join(slices.Sorted(maps.Keys(e.data)), " ")
}

// told are the events of a person, oldest first.
func (b *bundle) told(p people.Profile) []event {
	b.T.Helper()
	rows, err := b.Pool.Query(b.T.Context(),
		`select type, causation_id, time, data from event_outbox where org_id = $1 and subject = $2 and type like 'engagement.%' order by id`, onboardingtest.OrgID, p.ID)
	require.NoError(b.T, err)
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e event, err error) {
		var data []byte
		if err := row.Scan(&e.kind, &e.cause, &e.at, &data); err != nil {
			return e, err
		}
		return e, json.Unmarshal(data, &e.data)
	})
	require.NoError(b.T, err)
	return all
}

// describedEvents are the shapes in the table of docs/engagement.md: the words in backquotes, but for what stands in parentheses.
func describedEvents(t *testing.T) (shapes []string) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/engagement.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "\n## Events\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	parentheses, name := regexp.MustCompile(`\([^)]*\)`), regexp.MustCompile("`([a-z_]+)`")
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\| (.*) \\|$").FindAllStringSubmatch(section, -1) {
		keys := map[string]any{}
		for _, key := range name.FindAllStringSubmatch(parentheses.ReplaceAllString(row[2], ""), -1) {
			keys[key[1]] = nil
		}
		shapes = append(shapes, event{kind: row[1], data: keys}.shape())
	}
	return shapes
}

func TestEvents(t *testing.T) {
	t.Parallel()
	// Also: S4-65, S4-71, S4-74
	onboardingtest.Subtest(t, "S4_56_OnePersonsLifeTellsEverythingThatThePageNames", setup, func(t *testing.T, b *bundle) {
		p, mate := b.Known(), b.Known()
		b.Sends()
		b.Reports(p, rules.AddExpense, onboardingtest.NLP) // the magic moment
		b.Tier(p, 1)
		b.Together(p, mate)
		for _, words := range []string{"stop tips", "start tips", "stop reminders", "start reminders", "use the group"} {
			b.Clock.Advance(time.Minute)
			b.Reply(p, words)
		}
		_, err := b.Prefers(rpc.RoleUser, p, &onboardingv1.SetPreferencesRequest{Destination: "individual"})
		require.NoError(t, err)

		b.drifts(p, rules.GoodbyeSent)
		b.Reply(p, "1")
		b.drifts(p, rules.GoodbyeSent)
		b.OnDay(4, 7)
		b.Works() // 48 hours without an answer
		b.In(p, rules.Dormant)
		b.OnDay(5, 12)
		b.Reply(p, "hello again")
		b.In(p, rules.Active)

		shapes := map[string]bool{}
		for _, e := range b.told(p) {
			shapes[e.shape()] = true
			require.Regexp(t, `^(message|action|run|request):.+`, e.cause, e.kind)
			require.False(t, e.at.After(b.Clock.Now()))
			require.NotContains(t, mustJSON(t, e.data), strings.TrimPrefix(p.Phone, "+"))
			require.NotContains(t, mustJSON(t, e.data), "hello")
		}
		require.ElementsMatch(t, describedEvents(t), slices.Collect(maps.Keys(shapes)))
		require.Equal(t, b.Count(`select count(*) from engagement_state_transitions where profile_id = $1`, p.ID),
			b.Count(`select count(*) from event_outbox e join engagement_state_transitions s on s.profile_id::text = e.subject
				and s.cause = e.causation_id and s.trigger = e.data ->> 'trigger' and s.created_at = e.time
				where e.subject = $1 and e.type = 'engagement.state_changed'`, p.ID), "each transition is told once, with its cause and its time")
	})

	onboardingtest.Subtest(t, "S4_56_TransitionTellsWhereThePersonIsWrittenTo", setup, func(t *testing.T, b *bundle) {
		p, mate := b.Known(), b.Known()
		b.Sends()
		b.Together(p, mate)
		b.Clock.Advance(time.Minute)
		b.Reply(p, "use the group")
		b.drifts(p, rules.GoodbyeSent)
		b.Tells(p, engagement.EventStateChanged, "destination", "individual", "group")
		b.Tells(mate, engagement.EventStateChanged, "destination", "individual", "individual")
	})

	onboardingtest.Subtest(t, "S4_56_AnOutboxThatFailsHoldsUpNoConversation", setup, func(t *testing.T, b *bundle) {
		p, r := b.Activated()
		b.Exec(`alter table event_outbox add check (type not like 'engagement.%')`)
		b.Reply(p, "Sure")
		b.At(r.ID, session.AwaitingExplanationResponse, "")
		require.Zero(t, b.Count(`select count(*) from user_engagement_states where profile_id = $1`, p.ID), "and nothing is changed that is not told")
	})
}

// drifts lets a person be silent until the daily run, and what it queues be sent.
func (b *bundle) drifts(p people.Profile, to rules.State) {
	b.T.Helper()
	b.OnDay(15, 7)
	b.Works()
	b.In(p, to)
	b.OnDay(0, 15)
	b.Sends()
	require.Positive(b.T, b.Outreach(p, rules.Goodbye, "completed", "sent"))
}

func mustJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	require.NoError(t, err)
	return string(text)
}
