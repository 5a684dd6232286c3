package events_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/retention"
	"paceline.internal/services/onboarding/events"
)

func TestFeed(t *testing.T) {
	t.Parallel()
	t.Run("AHeldTransactionDelaysItsOwnEventsAndNoOthers", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		held, err := w.pool.Begin(t.Context())
		require.NoError(t, err)
		defer func() { _ = held.Rollback(context.Background()) }() // when the test ends early
		_, err = held.Exec(t.Context(), sqlTell, uuid.Must(uuid.NewV7()), orgID, "session.advanced", "ana", w.clock.Now(), 1)
		require.NoError(t, err)
		w.tells(orgID, "session.advanced", "bia", 2)
		f := w.feed()
		w.moves(f)
		first, next := w.reads(0)
		require.Equal(t, []int{2}, numbers(first))

		w.tells(orgID, "session.advanced", "bia", 3)
		w.moves(f)
		require.NoError(t, held.Commit(t.Context()))
		w.moves(f)
		rest, _ := w.reads(next)
		require.Equal(t, []int{3, 1}, numbers(rest), "a reader that goes on passes nothing over")
	})

	t.Run("WhoLostTheLeaseWritesNothing", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		first, second, now := uuid.NewString(), uuid.NewString(), w.clock.Now()
		lead := func(token string, at time.Time) bool {
			_, leads, err := w.store.Lead(t.Context(), token, at, at.Add(time.Second))
			require.NoError(t, err)
			return leads
		}
		require.True(t, lead(first, now))
		require.False(t, lead(second, now))
		require.True(t, lead(first, now), "the leader goes on")
		require.True(t, lead(second, now.Add(2*time.Second)))
		w.tells(orgID, "session.advanced", "ana", 1)
		_, err := w.store.Record(t.Context(), first, now, 10)
		require.ErrorIs(t, err, events.ErrLost)
		require.ErrorIs(t, w.store.RecordIncoming(t.Context(), first, []events.Incoming{incoming("message.accepted", "ana")}, now), events.ErrLost)
		n, err := w.store.Record(t.Context(), second, now, 10)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.Equal(t, 1, w.count(`select count(*) from events`))
	})

	t.Run("ManyProcessesNumberEachEventOnceInTheOrderOfItsPerson", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		const people, each = 5, 60
		var writers, feeds sync.WaitGroup
		written := make(chan struct{})
		for _, who := range []string{"a", "b", "c", "d", "e"} {
			writers.Go(func() {
				for n := range each {
					w.tells(orgID, "session.advanced", who, n)
				}
			})
		}
		for range 3 {
			feeds.Go(func() {
				f := w.feed()
				for done := false; !done; {
					select {
					case <-written:
						done = true
					default:
					}
					if _, err := f.Move(t.Context()); err != nil && !errors.Is(err, events.ErrLost) {
						t.Errorf("move: %v", err)
					}
					w.clock.Advance(11 * time.Second) // the lease of the writer that has it ends
				}
			})
		}
		writers.Wait()
		close(written)
		feeds.Wait()
		w.moves(w.feed())
		byPerson, last := map[string][]int{}, int64(0)
		found, _ := w.reads(0)
		for _, e := range found {
			require.Greater(t, e.Seq, last)
			last = e.Seq
			byPerson[e.Subject] = append(byPerson[e.Subject], numbers([]events.Event{e})...)
		}
		require.Len(t, byPerson, people)
		for who, got := range byPerson {
			require.Len(t, got, each, who)
			require.IsIncreasing(t, got, who)
		}
	})

	t.Run("WhatMessagingTellsIsOfThePersonWithTheNumber", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		profile := uuid.NewString()
		w.exec(`insert into profiles (id, org_id, phone, first_name, locale, time_zone, created_at, updated_at)
			values ($1, $2, '+5511987650001', 'Ana', 'en', 'UTC', now(), now())`, profile, orgID)
		named := incoming("message.accepted", uuid.NewString())
		known, unknown := incoming("consent.opted_out", ""), incoming("message.received", "")
		known.Phone, unknown.Phone = "+5511987650001", "+5511987650002"
		known.Data, unknown.Data = json.RawMessage(`{"twilio_sid": "SM1"}`), json.RawMessage(`{"status": "received", "twilio_sid": "wamid.1"}`)
		for _, e := range []events.Incoming{named, known, unknown} {
			w.messaging.add(e)
		}
		f := w.feed()
		w.moves(f)
		w.moves(f)
		found, _ := w.reads(0)
		require.Len(t, found, 3)
		require.Equal(t, []string{named.ProfileID, profile, "unknown"}, []string{found[0].Subject, found[1].Subject, found[2].Subject})
		require.JSONEq(t, `{"twilio_sid": "SM1"}`, string(found[1].Data))
		require.JSONEq(t, `{"status": "received"}`, string(found[2].Data), "WhatsApp's id contains the number")
		require.Empty(t, w.messaging.rows, "messaging keeps nothing that is stored here")
	})

	t.Run("WhatNoneSubscribedToIsNotWrittenWhenNothingIsKept", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		f := w.feedKeeping(0)
		w.moves(f)
		w.tells(orgID, "session.advanced", "ana", 1)
		require.Zero(t, w.count(`select count(*) from event_outbox`))
		w.subscribes("https://example.com/", "session.advanced")
		w.moves(f)
		w.tells(orgID, "session.advanced", "ana", 2)
		w.tells(orgID, "goal.started", "ana", 3)
		require.Equal(t, 1, w.count(`select count(*) from event_outbox`))
		w.moves(f)
		w.clock.Advance(time.Second)
		require.NoError(t, f.Forget(t.Context()))
		require.Zero(t, w.count(`select count(*) from events`), "the subscription has it")
		require.Equal(t, 1, w.count(`select count(*) from event_deliveries`))
	})

	t.Run("AnEventIsKeptForAWeekAndAReaderThatComesTooLateIsTold", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		f := w.feed()
		for n := range 3 {
			w.tells(orgID, "session.advanced", "ana", n)
		}
		w.tells(another, "session.advanced", "bia", 9)
		w.moves(f)
		w.clock.Advance(6 * 24 * time.Hour)
		w.tells(orgID, "session.advanced", "ana", 3)
		w.moves(f)
		w.clock.Advance(25 * time.Hour)
		require.NoError(t, f.Forget(t.Context()))
		found, next := w.reads(0)
		require.Equal(t, []int{3}, numbers(found), "0 begins with the oldest there is")
		_, _, err := w.store.Read(t.Context(), orgID, 1, []string{}, 10)
		var deleted *events.DeletedError
		require.ErrorAs(t, err, &deleted)
		require.Equal(t, int64(3), deleted.UpTo)
		found, again := w.reads(deleted.UpTo)
		require.Equal(t, []int{3}, numbers(found))
		require.Equal(t, next, again)
		_, _, err = w.store.Read(t.Context(), orgID, next+1, []string{}, 10)
		require.ErrorIs(t, err, events.ErrAhead, "of another environment, or from before a restore")
		_, _, err = w.store.Read(t.Context(), another, 4, []string{}, 10)
		require.NoError(t, err, "who has had all of their own has missed nothing")
	})

	t.Run("AnOrganisationKeepsItsEventsForATimeThatItChose", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		f := w.feed()
		f.Own = func(context.Context) (retention.Own, error) {
			return retention.Own{orgID: {retention.Events: 9 * 24 * time.Hour}, another: {retention.Events: 4 * 24 * time.Hour}}, nil
		}
		third := uuid.NewString()
		for n, days := range []int{3, 4, 1} { // so they are 8, 5 and 1 day old
			for _, org := range []string{orgID, another, third} {
				w.tells(org, "session.advanced", "ana", n)
			}
			w.moves(f)
			w.clock.Advance(time.Duration(days) * 24 * time.Hour)
		}
		require.NoError(t, f.Forget(t.Context()))
		left := func(org string) int { return w.count(`select count(*) from events where org_id = $1`, org) }
		require.Equal(t, []int{3, 1, 2}, []int{left(orgID), left(another), left(third)})
	})

	t.Run("AReaderOfARareTypeIsToldHowFarItWasLookedFor", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		w.exec(`insert into event_outbox (event_id, org_id, type, subject, time)
			select gen_random_uuid(), $1, case when i = 6000 then 'goal.failed' else 'session.advanced' end, 'ana', now()
			from generate_series(1, 6000) i`, orgID)
		w.moves(w.feed())
		found, next := w.reads(0, "goal.failed")
		require.Empty(t, found)
		require.Equal(t, int64(5000), next)
		found, next = w.reads(next, "goal.failed")
		require.Len(t, found, 1)
		require.Equal(t, int64(6000), next)
	})

	t.Run("AClockThatGoesBackDoesNotChangeTheOrder", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		s, f := w.subscribes("https://example.com/"), w.feed()
		w.tells(orgID, "session.advanced", "ana", 1)
		w.moves(f)
		w.clock.Advance(-9 * time.Second)
		w.tells(orgID, "session.advanced", "ana", 2)
		w.moves(f)
		require.Equal(t, 2, w.count(`select count(*) from event_deliveries where subscription_id = $1`, s.ID))
		require.Equal(t, 1, w.count(`select (select seq from event_deliveries order by id limit 1)`), "the queue works them by id")
	})
}

func incoming(kind, profile string) events.Incoming {
	return events.Incoming{ProfileID: profile, Event: events.Event{
		ID: uuid.Must(uuid.NewV7()).String(), OrgID: orgID, Type: kind, Time: noon, CausationID: "test:1", Data: []byte(`{"n": 1}`),
	}}
}

var errCrash = errors.New("the process has ended")

// crashing is a log with a process that ends at one of its calls, before or after it has happened.
type crashing struct {
	*events.Store

	calls, at int
	after     bool
}

func (c *crashing) call(do func() error) error {
	c.calls++
	if c.calls == c.at && !c.after || c.calls > c.at && c.at > 0 {
		return errCrash
	}
	err := do()
	if c.calls == c.at {
		return errCrash
	}
	return err
}

func (c *crashing) Lead(ctx context.Context, token string, now, until time.Time) (done []int64, leads bool, err error) {
	err = c.call(func() error { done, leads, err = c.Store.Lead(ctx, token, now, until); return err })
	return done, leads, err
}

func (c *crashing) Record(ctx context.Context, token string, now time.Time, limit int) (n int, err error) {
	err = c.call(func() error { n, err = c.Store.Record(ctx, token, now, limit); return err })
	return n, err
}

func (c *crashing) RecordIncoming(ctx context.Context, token string, in []events.Incoming, now time.Time) error {
	return c.call(func() error { return c.Store.RecordIncoming(ctx, token, in, now) })
}

func (c *crashing) FanOut(ctx context.Context, id string, limit, open int, now time.Time) (n int, more bool, err error) {
	err = c.call(func() error { n, more, err = c.Store.FanOut(ctx, id, limit, open, now); return err })
	return n, more, err
}

func TestFeedCrashMatrix(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := w.subscribes("https://example.com/")
	told := 0
	round := func(log *crashing) {
		w.tells(orgID, "session.advanced", "ana", told)
		w.messaging.add(incoming("message.accepted", "0190b2a4-0000-7000-8000-000000000001"))
		told += 2
		cfg := w.feedConfig(time.Hour)
		cfg.Log = log
		_, err := events.NewFeed(cfg).Move(t.Context())
		if log.at > 0 && log.at <= log.calls {
			require.ErrorIs(t, err, errCrash)
		} else {
			require.NoError(t, err)
		}
		w.clock.Advance(time.Minute) // its lease ends
	}
	good := &crashing{Store: w.store}
	round(good)
	require.Equal(t, 4, good.calls)
	for at := 1; at <= good.calls; at++ {
		round(&crashing{Store: w.store, at: at})
		round(&crashing{Store: w.store, at: at, after: true})
	}
	w.moves(w.feed())
	found, _ := w.reads(0)
	ids := map[string]bool{}
	for i, e := range found {
		require.Equal(t, int64(i+1), e.Seq, "no number is lost either")
		ids[e.ID] = true
	}
	require.Len(t, ids, told)
	require.Equal(t, told, w.count(`select count(*) from event_deliveries where subscription_id = $1`, s.ID))
	require.Empty(t, w.messaging.rows)
}
