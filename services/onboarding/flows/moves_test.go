package flows_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/messagingtest"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/onboarding/flows"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/session"
)

func mover(b *onboardingtest.Bundle) *flows.Mover {
	return &flows.Mover{Store: b.Store.Flows(), Now: b.Clock.Now}
}

// TestMoveVersions moves sessions to a version in which a step has another name and a shorter silence.
func TestMoveVersions(t *testing.T) {
	t.Parallel()
	onboardingtest.Subtest(t, "MovesThoseThatWait", onboardingtest.New, func(t *testing.T, b *onboardingtest.Bundle) {
		waits, first := b.Visited()
		b.Reply(waits, "sure")
		greeted, other := b.Visited()
		newer := maps.Clone(onboardingtest.Visit)
		newer["flow.yaml"] = strings.NewReplacer("  day:\n", "  which:\n", "then: day}", "then: which}", "after: 24h", "after: 1h").Replace(onboardingtest.Visit["flow.yaml"])
		done, err := b.Store.Flows().Publish(t.Context(), onboardingtest.OrgID, newer, b.Clock.Now())
		require.NoError(t, err)
		m := flows.VersionMove{
			Flow: "visit", From: first.FlowVersion, To: done.Version.Version, Steps: map[string]string{"day": "which"}, DryRun: true,
		}
		move := func() flows.VersionMoved {
			moved, err := mover(b).Move(t.Context(), onboardingtest.OrgID, m)
			require.NoError(t, err)
			return moved
		}
		require.Equal(t, flows.VersionMoved{Moved: 1, Unmapped: 1}, move())
		require.Equal(t, first.FlowVersion, b.Session(first.ID).FlowVersion, "a dry run moves nobody")
		m.DryRun = false
		require.Equal(t, flows.VersionMoved{Moved: 1, Unmapped: 1}, move())
		require.Equal(t, flows.VersionMoved{Unmapped: 1}, move(), "a repeat changes nothing")
		is := b.Session(first.ID)
		require.Equal(t, []any{m.To, session.Token("visit:which")}, []any{is.FlowVersion, is.Token})
		require.Equal(t, first.FlowVersion, b.Session(other.ID).FlowVersion)

		b.Clock.Advance(90 * time.Minute)
		b.Pass(time.Minute)
		require.Equal(t, "We still need a day.", b.Said(waits)[2], "the silence of the new version")
		b.Host.Answer = onboardingtest.Answers(`{"field": 3}`)
		b.Reply(waits, "Monday")
		b.Pass(time.Minute)
		require.Equal(t, "ended: booked", b.Session(first.ID).Reason)
		b.Reply(greeted, "sure")
		require.Equal(t, session.Token("visit:day"), b.Session(other.ID).Token)
		b.Clock.Advance(25 * time.Hour)
		b.Pass(time.Minute)
		require.Len(t, b.Said(waits), 5, "the silence of the old version does nothing")
	})

	onboardingtest.Subtest(t, "GivesTextsOfTheNewVersionNewKeys", onboardingtest.New, func(t *testing.T, b *onboardingtest.Bundle) {
		p, r := b.Visited()
		b.Reply(p, "sure")
		b.Clock.Advance(25 * time.Hour)
		b.Pass(time.Minute)
		require.Equal(t, "We still need a day.", b.Said(p)[2])
		newer := maps.Clone(onboardingtest.Visit)
		newer["en.yaml"] = strings.Replace(onboardingtest.Visit["en.yaml"], "We still need a day.", "Which day?", 1)
		done, err := b.Store.Flows().Publish(t.Context(), onboardingtest.OrgID, newer, b.Clock.Now())
		require.NoError(t, err)
		moved, err := mover(b).Move(t.Context(), onboardingtest.OrgID, flows.VersionMove{
			Flow: "visit", From: r.FlowVersion, To: done.Version.Version, Steps: map[string]string{"day": "day"},
		})
		require.NoError(t, err)
		require.Equal(t, flows.VersionMoved{Moved: 1}, moved)
		b.Clock.Advance(25 * time.Hour)
		b.Pass(time.Minute)
		require.Equal(t, "Which day?", b.Said(p)[3])
		require.Equal(t, session.Active, b.Session(r.ID).Status)
	})

	onboardingtest.Subtest(t, "LeavesAReplyThatIsWorkedOn", onboardingtest.New, func(t *testing.T, b *onboardingtest.Bundle) {
		p, r := b.Visited()
		b.Messaging.Script(func(int, *messagingv1.SendRequest) messagingtest.Outcome { return messagingtest.Unavailable })
		b.Reply(p, "sure")
		newer := maps.Clone(onboardingtest.Visit)
		newer["en.yaml"] += "# changed\n"
		done, err := b.Store.Flows().Publish(t.Context(), onboardingtest.OrgID, newer, b.Clock.Now())
		require.NoError(t, err)
		moved, err := mover(b).Move(t.Context(), onboardingtest.OrgID, flows.VersionMove{
			Flow: "visit", From: r.FlowVersion, To: done.Version.Version, Steps: map[string]string{"hello": "hello"},
		})
		require.NoError(t, err)
		require.Equal(t, flows.VersionMoved{Busy: 1}, moved)
	})

	onboardingtest.Subtest(t, "AReplyInTheSameInstantIsAnsweredOnce", onboardingtest.New, func(t *testing.T, b *onboardingtest.Bundle) {
		p, r := b.Visited()
		b.Reply(p, "sure")
		newer := maps.Clone(onboardingtest.Visit)
		newer["en.yaml"] += "# changed\n"
		done, err := b.Store.Flows().Publish(t.Context(), onboardingtest.OrgID, newer, b.Clock.Now())
		require.NoError(t, err)
		is := b.Session(r.ID)
		tx, err := b.Pool.Begin(t.Context())
		require.NoError(t, err)
		defer func() { _ = tx.Rollback(t.Context()) }()
		_, err = tx.Exec(t.Context(), `insert into webhook_jobs (id, org_id, idempotency_key, source, event_type, subject, payload, status,
			processed_at, created_at, updated_at) values ($1, $2, $3, 'internal', 'flow', $3, '{}', 'completed', $4, $4, $4)`,
			onboardingtest.NewID(), onboardingtest.OrgID, fmt.Sprintf("flow:%s:%d", r.ID, is.Place()+1), b.Clock.Now())
		require.NoError(t, err) // the move has read who waits, and waits for this before it is committed
		moved := make(chan error, 1)
		go func() {
			_, err := mover(b).Move(t.Context(), onboardingtest.OrgID, flows.VersionMove{
				Flow: "visit", From: r.FlowVersion, To: done.Version.Version, Steps: map[string]string{"day": "day"},
			})
			moved <- err
		}()
		require.Eventually(t, func() bool {
			return b.Count(`select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`) > 0
		}, 20*time.Second, time.Millisecond)
		replied := make(chan bool)
		go func() { b.Reply(p, "banana"); close(replied) }()
		require.Eventually(t, func() bool {
			select {
			case <-replied:
				return true
			default:
				return len(b.Said(p)) > 2
			}
		}, 20*time.Second, time.Millisecond)
		require.NoError(t, tx.Rollback(t.Context()))
		require.NoError(t, <-moved)
		<-replied
		b.Pass(time.Minute)
		require.Equal(t, "Please write Monday or Tuesday.", b.Said(p)[2])
		require.Len(t, b.Said(p), 3)
		require.Equal(t, done.Version.Version, b.Session(r.ID).FlowVersion)
	})

	onboardingtest.Subtest(t, "NamesWhatIsWrong", onboardingtest.New, func(t *testing.T, b *onboardingtest.Bundle) {
		_, r := b.Visited()
		newer := maps.Clone(onboardingtest.Visit)
		newer["en.yaml"] += "# changed\n"
		done, err := b.Store.Flows().Publish(t.Context(), onboardingtest.OrgID, newer, b.Clock.Now())
		require.NoError(t, err)
		_, err = mover(b).Move(t.Context(), onboardingtest.OrgID, flows.VersionMove{
			Flow: "visit", From: r.FlowVersion, To: done.Version.Version, Steps: map[string]string{"tip": "done"},
		})
		require.ErrorIs(t, err, flows.ErrVersionMove)
		for _, words := range []string{
			`"tip" is no step of from_version that waits for a reply; these do: hello, day`,
			`"done" is no step of to_version`,
		} {
			require.ErrorContains(t, err, words)
		}
	})
}
