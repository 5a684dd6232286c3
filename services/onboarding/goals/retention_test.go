package goals_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/retention"
	"paceline.internal/services/onboarding/goals"
	"paceline.internal/services/onboarding/goals/timeparse"
)

func (b *bundle) forgets(before time.Time, limit int) goals.Forgotten {
	b.t.Helper()
	f, err := b.store.Forget(b.t.Context(), retention.Part{But: []string{}, Before: before}, limit)
	require.NoError(b.t, err)
	return f
}

func (b *bundle) cancels(g goals.Goal) {
	b.t.Helper()
	_, err := b.service.Cancel(b.t.Context(), b.me(), g.ID)
	require.NoError(b.t, err)
}

// undoes brings a cancelled goal back.
func (b *bundle) undoes(g goals.Goal) goals.Goal {
	b.t.Helper()
	back, _, err := b.service.Create(b.t.Context(), goals.New{
		OrgID: orgID, ProfileID: b.owner, UndoOf: g.ID, Source: goals.SourceREST, Key: uuid.NewString(), By: "user:" + b.owner,
	})
	require.NoError(b.t, err)
	return back
}

func TestRetention(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour

	t.Run("WhatWasOverLongAgoGoesWithEverythingThatBelongsToIt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		begin, device := b.clock.Now(), b.device()
		b.says("", time.Minute)
		b.says(device, time.Hour)
		registry := &goals.Devices{Store: b.store, Now: b.clock.Now}
		require.NoError(t, registry.Remove(t.Context(), b.me(), device))
		_, err := b.store.KeepReading(t.Context(), goals.New{OrgID: orgID, ProfileID: b.owner, Key: "k"}, timeparse.Reading{}, begin)
		require.NoError(t, err)
		b.plays(2 * time.Hour)
		later := b.says("", time.Hour)
		b.plays(day)

		require.Zero(t, b.forgets(begin, 100))
		for _, part := range (retention.Own{orgID: {retention.Goals: 2 * day}}).Parts(retention.Goals, 0, begin.Add(2*day)) {
			f, err := b.store.Forget(t.Context(), part, 100)
			require.NoError(t, err)
			require.Zero(t, f, "the organisation keeps them for longer")
		}
		f, err := b.store.Forget(t.Context(), retention.Part{Org: uuid.NewString(), Before: begin.Add(day)}, 100)
		require.NoError(t, err)
		require.Zero(t, f, "another organisation keeps its own for less")
		require.Equal(t, goals.Forgotten{Goals: 1, Readings: 1}, b.forgets(begin.Add(time.Hour), 100), "the time of the other one is not over")
		f, err = b.store.Forget(t.Context(), retention.Part{Org: orgID, Before: begin.Add(2 * time.Hour)}, 100)
		require.NoError(t, err)
		require.Equal(t, goals.Forgotten{Goals: 1, Devices: 1}, f)
		require.Zero(t, b.forgets(begin.Add(2*time.Hour), 100))
		require.Equal(t, 1, b.count(`select count(*) from goals`))
		require.Equal(t, 1, b.count(`select count(*) from goal_alarms where goal_id = $1`, later.ID))
		require.Equal(t, 1, b.count(`select count(*) from goal_alarms`))
		require.Equal(t, 3, b.count(`select count(*) from goal_transitions`))
		require.Equal(t, 1, b.count(`select count(*) from devices`), "the phone")
	})

	t.Run("WithATimeOfAnOrganisationIsByOrganisation", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		now, longer := b.clock.Now(), uuid.NewString()
		b.says("", time.Minute)
		parts, err := b.store.Parts(t.Context(), nil, day, now)
		require.NoError(t, err)
		require.Equal(t, []retention.Part{{But: []string{}, Before: now.Add(-day)}}, parts, "one walk over all")
		parts, err = b.store.Parts(t.Context(), retention.Own{longer: {retention.Goals: 9 * day}}, day, now)
		require.NoError(t, err)
		require.Equal(t, []retention.Part{{Org: longer, Before: now.Add(-9 * day)}, {Org: orgID, Before: now.Add(-day)}}, parts)
	})

	t.Run("WhatIsOpenStays", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.phone.set(errDoubt)
		b.says("", time.Minute)
		b.says("", 6*day)
		b.plays(time.Minute)
		b.clock.Advance(5 * day)
		require.Zero(t, b.forgets(b.clock.Now(), 100))
	})

	t.Run("WhatCanBeBroughtBackStaysAndWhatWasStaysAsLongAsTheGoalThatSaysSo", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		cancelled := b.says("", 2*day)
		b.cancels(cancelled)
		b.clock.Advance(day)
		require.Zero(t, b.forgets(b.clock.Now(), 100))
		back := b.undoes(cancelled)
		_, err := b.service.Reschedule(t.Context(), b.me(), back.ID, goals.Moment{At: b.clock.Now().Add(6 * day)})
		require.NoError(t, err)
		b.clock.Advance(5 * day)
		require.Zero(t, b.forgets(b.clock.Now(), 100))
		b.plays(2 * day)
		require.Equal(t, goals.Forgotten{Goals: 1}, b.forgets(b.clock.Now(), 100))
		require.Equal(t, goals.Forgotten{Goals: 1}, b.forgets(b.clock.Now(), 100))
		require.Zero(t, b.count(`select count(*) from goal_transitions`))
	})

	t.Run("NodesOfProcessesThatAreLongGoneGoWithTheNextLease", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		renew := func() {
			require.NoError(t, b.store.Renew(t.Context(), uuid.NewString(), b.clock.Now().Add(15*time.Second), b.clock.Now()))
		}
		renew()
		b.clock.Advance(time.Hour)
		renew()
		require.Equal(t, 2, b.count(`select count(*) from device_nodes`), "its lease ended less than an hour ago")
		b.clock.Advance(time.Minute)
		renew()
		require.Equal(t, 2, b.count(`select count(*) from device_nodes where lease_until > $1::timestamptz - interval '1 hour'`, b.clock.Now()))
		require.Equal(t, 2, b.count(`select count(*) from device_nodes`))
	})

	t.Run("ABatchHasItsLimitAndPassesOverWhatIsLocked", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		var said []goals.Goal
		for range 5 {
			g := b.says("", time.Hour)
			b.cancels(g)
			said = append(said, g)
		}
		b.clock.Advance(day)
		tx, err := b.pool.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), `select from goals where id = $1 for update`, said[0].ID)
		require.NoError(t, err)
		require.Equal(t, goals.Forgotten{Goals: 2}, b.forgets(b.clock.Now(), 2))
		require.Equal(t, goals.Forgotten{Goals: 2}, b.forgets(b.clock.Now(), 3))
		require.NoError(t, tx.Rollback(t.Context()))
		require.Equal(t, goals.Forgotten{Goals: 1}, b.forgets(b.clock.Now(), 3))
	})
}
