package onboarding_test

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
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/engagement"
	"paceline.internal/services/onboarding/engagement/rules"
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
func (b *bundle) told(p conversation.Profile) []event {
	b.t.Helper()
	rows, err := b.pool.Query(b.t.Context(),
		`select type, causation_id, time, data from event_outbox where org_id = $1 and subject = $2 and type like 'engagement.%' order by id`, orgID, p.ID)
	require.NoError(b.t, err)
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e event, err error) {
		var data []byte
		if err := row.Scan(&e.kind, &e.cause, &e.at, &data); err != nil {
			return e, err
		}
		return e, json.Unmarshal(data, &e.data)
	})
	require.NoError(b.t, err)
	return all
}

// describedEvents are the shapes in the table of docs/engagement.md: the words in backquotes, but for what stands in parentheses.
func describedEvents(t *testing.T) (shapes []string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/engagement.md")
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
	subtest(t, "S4_56_OnePersonsLifeTellsEverythingThatThePageNames", setup, func(t *testing.T, b *bundle) {
		p, mate := b.known(), b.known()
		b.sends()
		b.reports(p, rules.AddExpense, nlp) // the magic moment
		b.tier(p, 1)
		b.together(p, mate)
		for _, words := range []string{"stop tips", "start tips", "stop reminders", "start reminders", "use the group"} {
			b.clock.Advance(time.Minute)
			b.reply(p, words)
		}
		_, err := b.prefers(rpc.RoleUser, p, &onboardingv1.SetPreferencesRequest{Destination: "individual"})
		require.NoError(t, err)

		b.drifts(p, rules.GoodbyeSent)
		b.reply(p, "1")
		b.drifts(p, rules.GoodbyeSent)
		b.onDay(4, 7)
		b.works() // 48 hours without an answer
		b.in(p, rules.Dormant)
		b.onDay(5, 12)
		b.reply(p, "hello again")
		b.in(p, rules.Active)

		shapes := map[string]bool{}
		for _, e := range b.told(p) {
			shapes[e.shape()] = true
			require.Regexp(t, `^(message|action|run|request):.+`, e.cause, e.kind)
			require.False(t, e.at.After(b.clock.Now()))
			require.NotContains(t, mustJSON(t, e.data), strings.TrimPrefix(p.Phone, "+"))
			require.NotContains(t, mustJSON(t, e.data), "hello")
		}
		require.ElementsMatch(t, describedEvents(t), slices.Collect(maps.Keys(shapes)))
		require.Equal(t, b.count(`select count(*) from engagement_state_transitions where profile_id = $1`, p.ID),
			b.count(`select count(*) from event_outbox e join engagement_state_transitions s on s.profile_id::text = e.subject
				and s.cause = e.causation_id and s.trigger = e.data ->> 'trigger' and s.created_at = e.time
				where e.subject = $1 and e.type = 'engagement.state_changed'`, p.ID), "each transition is told once, with its cause and its time")
	})

	subtest(t, "S4_56_TransitionTellsWhereThePersonIsWrittenTo", setup, func(t *testing.T, b *bundle) {
		p, mate := b.known(), b.known()
		b.sends()
		b.together(p, mate)
		b.clock.Advance(time.Minute)
		b.reply(p, "use the group")
		b.drifts(p, rules.GoodbyeSent)
		b.tells(p, engagement.EventStateChanged, "destination", "individual", "group")
		b.tells(mate, engagement.EventStateChanged, "destination", "individual", "individual")
	})

	subtest(t, "S4_56_AnOutboxThatFailsHoldsUpNoConversation", setup, func(t *testing.T, b *bundle) {
		p, r := b.activated()
		b.exec(`alter table event_outbox add check (type not like 'engagement.%')`)
		b.reply(p, "Sure")
		b.at(r.ID, session.AwaitingExplanationResponse, "")
		require.Zero(t, b.count(`select count(*) from user_engagement_states where profile_id = $1`, p.ID), "and nothing is changed that is not told")
	})
}

// drifts lets a person be silent until the daily run, and what it queues be sent.
func (b *bundle) drifts(p conversation.Profile, to rules.State) {
	b.t.Helper()
	b.onDay(15, 7)
	b.works()
	b.in(p, to)
	b.onDay(0, 15)
	b.sends()
	require.Positive(b.t, b.outreach(p, rules.Goodbye, "completed", "sent"))
}

func mustJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	require.NoError(t, err)
	return string(text)
}
