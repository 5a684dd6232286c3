package goals_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"paceline.internal/services/onboarding/goals"
)

func TestCancel(t *testing.T) {
	t.Parallel()

	t.Run("S3_20_CancelsTheGoalAndDeletesItsMessage", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		g := b.says("", time.Minute)
		cancelled, err := b.service.Cancel(t.Context(), b.me(), g.ID)
		require.NoError(t, err)
		require.Equal(t, goals.Cancelled, cancelled.Status)
		b.plays(time.Hour)
		require.Empty(t, b.bodies)
		require.Equal(t, "scheduled cancelled", b.told(g))
		again, err := b.service.Cancel(t.Context(), b.me(), g.ID)
		require.NoError(t, err)
		require.Equal(t, cancelled, again)
		require.Equal(t, []string{"created", "cancelled"}, b.timeline(g))
	})

	t.Run("S3_23_GoalWhoseMessageCannotBeDeletedNeverRuns", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.undeletable = true
		g := b.says("", time.Minute)
		_, err := b.service.Cancel(t.Context(), b.me(), g.ID)
		require.NoError(t, err)
		b.plays(time.Hour)
		require.Len(t, b.bodies, 1)
		b.is(g, goals.Cancelled)
		require.Empty(t, b.phone.texts)
	})

	t.Run("S3_21_OfAnotherIsRefusedAndOfNoneIsNotFound", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		g := b.says("", time.Minute)
		_, err := b.service.Cancel(t.Context(), goals.Caller{OrgID: orgID, ProfileID: b.person(orgID)}, g.ID)
		require.ErrorIs(t, err, goals.ErrNotOwner)
		_, err = b.service.Cancel(t.Context(), b.me(), uuid.NewString())
		require.ErrorIs(t, err, goals.ErrNoGoal)
		_, err = b.service.Cancel(t.Context(), goals.Caller{OrgID: otherOrgID}, g.ID)
		require.ErrorIs(t, err, goals.ErrNoGoal)
		b.is(g, goals.Scheduled)
	})

	t.Run("S3_19_OwnerAndOperatorOfTheOrganisationMayAndAreRecordedAndNoOther", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		g, own := b.says("", time.Minute), b.says("", time.Minute)
		stranger := b.person(orgID)
		_, err := b.service.Cancel(t.Context(), goals.Caller{OrgID: orgID, ProfileID: stranger, Actor: "user:" + stranger}, g.ID)
		require.ErrorIs(t, err, goals.ErrNotOwner)
		_, err = b.service.Cancel(t.Context(), goals.Caller{OrgID: otherOrgID, Actor: "operator:ada"}, g.ID)
		require.ErrorIs(t, err, goals.ErrNoGoal)
		_, err = b.service.Cancel(t.Context(), b.me(), own.ID)
		require.NoError(t, err)
		require.Equal(t, 1, b.count(`select count(*) from goal_transitions where goal_id = $1 and actor = $2 and event = 'cancelled'`, own.ID, "user:"+b.owner))
		_, err = b.service.Cancel(t.Context(), goals.Caller{OrgID: orgID, Actor: "operator:rui"}, g.ID)
		require.NoError(t, err)
		require.Equal(t, 1, b.count(`select count(*) from goal_transitions where goal_id = $1 and actor = 'operator:rui' and event = 'cancelled'`, g.ID))
	})

	t.Run("S3_22_OfOneThatHasBegunSaysSinceWhen", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		g := b.says("", time.Minute)
		b.plays(time.Minute)
		_, err := b.service.Cancel(t.Context(), b.me(), g.ID)
		var status *goals.StatusError
		require.ErrorAs(t, err, &status)
		require.Equal(t, goals.Completed, status.Status)
		require.Equal(t, b.clock.Now(), status.StartedAt.UTC())
	})

	t.Run("S3_24_UndoIsANewGoal", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		g := b.says("", time.Hour)
		undo := goals.New{OrgID: orgID, ProfileID: b.owner, UndoOf: g.ID, Key: "undo", By: "user:" + b.owner, Source: goals.SourceREST}
		_, _, err := b.service.Create(t.Context(), undo)
		var status *goals.StatusError
		require.ErrorAs(t, err, &status)
		_, err = b.service.Cancel(t.Context(), b.me(), g.ID)
		require.NoError(t, err)
		again, _, err := b.service.Create(t.Context(), undo)
		require.NoError(t, err)
		require.Equal(t, g.ID, again.UndoOf)
		require.Equal(t, g.ScheduledFor, again.ScheduledFor)
		undo.Key = "undo again"
		_, _, err = b.service.Create(t.Context(), undo)
		require.ErrorIs(t, err, goals.ErrUndone)
		b.plays(time.Hour)
		b.is(g, goals.Cancelled)
		b.is(again, goals.Completed)
	})
}

func TestAGoalIsMovedByNoMoreWordsThanItMayBeSaidIn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	g := b.says("", time.Minute)
	words := "in 5 minutes" + strings.Repeat(" 5", goals.MaxSaid/2) // reading 64 KiB of them takes minutes
	_, err := b.service.Reschedule(t.Context(), b.me(), g.ID, goals.Moment{Words: words})
	require.ErrorIs(t, err, goals.ErrInvalid)
	require.Equal(t, g.ScheduledFor, b.is(g, goals.Scheduled).ScheduledFor)
}

func TestGuardsOfTime(t *testing.T) {
	t.Parallel()

	t.Run("S3_05_WordsWithoutATimeLeaveAGoalOfADeviceWhereItIs", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		g := b.says(b.device(), time.Hour)
		_, err := b.service.Reschedule(t.Context(), b.me(), g.ID, goals.Moment{Words: "open the door"})
		require.ErrorIs(t, err, goals.ErrNoTime)
		require.Equal(t, g.ScheduledFor, b.is(g, goals.Scheduled).ScheduledFor)
	})

	t.Run("S3_05_UndoOfAGoalWhoseTimeHasPassedRunsNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		g := b.says("", time.Hour)
		_, err := b.service.Cancel(t.Context(), b.me(), g.ID)
		require.NoError(t, err)
		b.clock.Advance(time.Hour)
		_, _, err = b.service.Create(t.Context(), goals.New{
			OrgID: orgID, ProfileID: b.owner, UndoOf: g.ID, Key: "undo", By: "user:" + b.owner, Source: goals.SourceREST,
		})
		require.ErrorIs(t, err, goals.ErrPast)
		require.Equal(t, 1, b.count(`select count(*) from goals`))
	})
}

func TestReschedule(t *testing.T) {
	t.Parallel()
	b := setup(t)
	g := b.says("", time.Minute)
	moved, err := b.service.Reschedule(t.Context(), b.me(), g.ID, goals.Moment{At: b.clock.Now().Add(time.Hour)})
	require.NoError(t, err)
	require.Equal(t, b.clock.Now().Add(time.Hour), moved.ScheduledFor.UTC())
	b.plays(time.Hour - time.Second)
	b.is(g, goals.Scheduled)
	b.plays(time.Second)
	b.is(g, goals.Completed)
	_, err = b.service.Reschedule(t.Context(), b.me(), g.ID, goals.Moment{At: b.clock.Now().Add(time.Hour)})
	var status *goals.StatusError
	require.ErrorAs(t, err, &status)
}

// races is the number of times that a cancellation meets the alarm of its goal.
const races = 300

// The cancellation or the alarm ends the goal, whichever comes first: after a cancellation that was granted there was no run, and one that
// was refused says since when the goal runs.
func TestS3_33_CancelAndAlarmAtOnceHaveOneWinnerAndTheAnswerIsTrue(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.phone.set(errDoubt) // so that each goes on running until it is ended here
	won := map[bool]int{}
	for n := range races {
		g := b.says("", time.Second)
		b.clock.Advance(time.Second)
		var all sync.WaitGroup
		var cancelErr error
		begin := make(chan struct{})
		all.Go(func() { <-begin; _, cancelErr = b.service.Cancel(t.Context(), b.me(), g.ID) })
		all.Go(func() { <-begin; _, _ = b.alarmed(g) })
		close(begin)
		all.Wait()
		v, err := b.store.Goal(t.Context(), orgID, g.ID, b.clock.Now())
		require.NoError(t, err)
		ran := b.count(`select count(*) from goal_transitions where goal_id = $1 and event = 'started'`, g.ID) > 0
		if cancelErr == nil {
			require.False(t, ran, "race %d", n)
			require.Equal(t, goals.Cancelled, v.Status)
		} else {
			var status *goals.StatusError
			require.ErrorAs(t, cancelErr, &status)
			require.True(t, ran, "race %d", n)
			require.Equal(t, v.StartedAt, status.StartedAt)
			_, err := b.store.End(t.Context(), goals.End{RunID: v.RunID, DeviceID: v.DeviceID, OK: true, At: b.clock.Now()})
			require.NoError(t, err)
		}
		won[cancelErr == nil]++
	}
	t.Log(won)
}

// TestS3_24_EveryGoalKeepsToItsStatesAndEnds plays a few goals of one person with everything that can happen to them in any order, and
// compares with the model of the design's table. Each check has another person in one database.
func TestS3_24_EveryGoalKeepsToItsStatesAndEnds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	rapid.Check(t, func(r *rapid.T) {
		b.owner = b.person(orgID)
		device := b.device()
		b.disconnect(device)
		var all []goals.Goal
		last := map[string]goals.Status{}
		r.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) {
				for _, g := range all {
					v, err := b.store.Goal(t.Context(), orgID, g.ID, b.clock.Now())
					require.NoError(t, err)
					require.True(t, leads(last[g.ID], v.Status), "%s to %s", last[g.ID], v.Status)
					last[g.ID] = v.Status
				}
				require.LessOrEqual(t, b.count(`select coalesce(max(n), 0) from (select count(*) as n from goals where status = 'running' group by device_id) r`), 1)
			},
			"says": func(r *rapid.T) {
				on := rapid.SampledFrom([]string{"", device}).Draw(r, "device")
				g := b.says(on, time.Duration(rapid.IntRange(0, 7200).Draw(r, "in"))*time.Second)
				all, last[g.ID] = append(all, g), goals.Scheduled
			},
			"cancels": func(r *rapid.T) {
				if len(all) > 0 {
					_, _ = b.service.Cancel(t.Context(), b.me(), rapid.SampledFrom(all).Draw(r, "goal").ID)
				}
			},
			"moves": func(r *rapid.T) {
				if len(all) > 0 {
					to := goals.Moment{At: b.clock.Now().Add(time.Duration(rapid.IntRange(0, 7200).Draw(r, "to")) * time.Second)}
					_, _ = b.service.Reschedule(t.Context(), b.me(), rapid.SampledFrom(all).Draw(r, "goal").ID, to)
				}
			},
			"doubts":  func(*rapid.T) { b.phone.set(errDoubt) },
			"settles": func(*rapid.T) { b.phone.set(nil) },
			"waits": func(r *rapid.T) {
				b.plays(time.Duration(rapid.IntRange(0, 3600).Draw(r, "for")) * time.Second)
				b.sweepsAnyway()
			},
		})
		b.phone.set(nil)
		for range 12 {
			b.plays(time.Hour)
			b.sweepsAnyway()
		}
		require.Zero(t, b.count(`select count(*) from goals where profile_id = $1 and status in ('scheduled', 'running')`, b.owner))
	})
}

// leads is the table of the design.
func leads(from, to goals.Status) bool {
	switch from {
	case goals.Scheduled: // between two looks it may have run and ended
		return true
	case goals.Running:
		return to == goals.Running || to == goals.Completed || to == goals.Failed
	case goals.Completed, goals.Failed, goals.Cancelled:
	}
	return from == to
}

var errMishap = errors.New("the process died")

// TestCrashOfGoals is the crash matrix: each call that a goal makes of its store fails once, with and without having had its effect, and
// the goal ends as on a good day.
func TestCrashOfGoals(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	for _, after := range []bool{false, true} {
		for at := range 9 {
			t.Run(fmt.Sprintf("AtCall%d_after_%t", at, after), func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				b.mishap(at, after)
				n := b.goal("", time.Minute)
				var g goals.Goal
				for {
					var err error
					if g, _, err = b.service.Create(t.Context(), n); err == nil {
						break
					}
					require.ErrorIs(t, err, errMishap)
				}
				b.plays(10 * time.Minute)
				b.clock.Advance(grace)
				b.sweepsAnyway()
				b.plays(10 * time.Minute)
				b.clock.Advance(grace)
				b.sweepsAnyway()
				b.plays(0)
				b.is(g, goals.Completed)
				require.Equal(t, 1, b.count(`select count(*) from goals`))
				require.Equal(t, 1, b.count(`select count(*) from goal_transitions where event = 'started'`))
				require.Equal(t, "scheduled started completed", b.told(g))
			})
		}
	}
}

// sweepsAnyway sweeps and relays as the loops do, which go on after an error.
func (b *bundle) sweepsAnyway() {
	for range 3 {
		_, _ = b.sweeper().Sweep(context.Background())
		_, _ = b.service.Alarms.Relay(context.Background())
		require.NoError(b.t, b.qstash.Idle(context.Background()))
	}
}
