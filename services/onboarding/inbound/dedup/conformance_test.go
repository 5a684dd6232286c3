package dedup_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"paceline.internal/services/onboarding/inbound/dedup"
)

const (
	minute = time.Minute
	tick   = time.Microsecond
)

// TestConformance holds every store to what the guard relies on.
func TestConformance(t *testing.T) {
	t.Parallel()
	for _, k := range kinds(t) {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range conformance {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					c.run(t, k.open(t), newKey())
				})
			}
		})
	}
}

// conformance lists the cases, each with its own key.
var conformance = []struct {
	name string
	run  func(t *testing.T, s store, key string)
}{
	{name: "AbsentKeyIsWon", run: func(t *testing.T, s store, key string) {
		wins(t, s, claim(key, "a", start))
	}},
	{name: "S1_26_HeldKeyIsInFlightUntilItsLeaseEnds", run: func(t *testing.T, s store, key string) {
		wins(t, s, claim(key, "a", start))
		for _, later := range []time.Duration{0, 30 * time.Second, minute - tick} {
			finds(t, s, claim(key, "b", start.Add(later)), dedup.Value{Owner: "a", Until: start.Add(minute)})
		}
	}},
	{name: "S1_36_LeaseThatRanOutIsAbsent", run: func(t *testing.T, s store, key string) {
		wins(t, s, claim(key, "a", start))
		wins(t, s, claim(key, "b", start.Add(minute)))
		finds(t, s, claim(key, "a", start.Add(minute)), dedup.Value{Owner: "b", Until: start.Add(2 * minute)})
	}},
	{name: "S1_27_DoneKeyIsDoneUntilItsMemoryEnds", run: func(t *testing.T, s store, key string) {
		wins(t, s, claim(key, "a", start))
		memory := start.Add(24 * time.Hour)
		require.NoError(t, s.Finish(t.Context(), dedup.Claim{Key: key, Owner: "a", Now: start, Until: memory}, true))
		for _, owner := range []string{"a", "b"} {
			finds(t, s, claim(key, owner, memory.Add(-tick)), dedup.Value{Done: true, Owner: "a", Until: memory})
		}
		wins(t, s, claim(key, "b", memory))
	}},
	{name: "S1_06_ReleasedKeyIsAbsent", run: func(t *testing.T, s store, key string) {
		wins(t, s, claim(key, "a", start))
		require.NoError(t, s.Finish(t.Context(), claim(key, "a", start), false))
		wins(t, s, claim(key, "b", start))
	}},
	{name: "CallWhoseAnswerWasLostMayBeRepeated", run: func(t *testing.T, s store, key string) {
		wins(t, s, claim(key, "a", start))
		finds(t, s, claim(key, "a", start.Add(tick)), dedup.Value{Owner: "a", Until: start.Add(minute)})
		require.NoError(t, s.Finish(t.Context(), claim(key, "a", start), true))
		require.NoError(t, s.Finish(t.Context(), claim(key, "a", start), true))
	}},
	{name: "S1_35_StaleHolderNeitherCompletesNorReleasesTheNextOnes", run: func(t *testing.T, s store, key string) {
		wins(t, s, claim(key, "a", start))
		now := start.Add(minute)
		wins(t, s, claim(key, "b", now))
		require.ErrorIs(t, s.Finish(t.Context(), claim(key, "a", now), true), dedup.ErrLost)
		require.ErrorIs(t, s.Finish(t.Context(), claim(key, "a", now), false), dedup.ErrLost)
		finds(t, s, claim(key, "c", now), dedup.Value{Owner: "b", Until: now.Add(minute)})
		require.NoError(t, s.Finish(t.Context(), claim(key, "b", now), true))
		require.ErrorIs(t, s.Finish(t.Context(), claim(key, "a", now), false), dedup.ErrLost)
		require.ErrorIs(t, s.Finish(t.Context(), dedup.Claim{Key: key, Owner: "a", Now: now, Until: now.Add(time.Hour)}, true), dedup.ErrLost)
		finds(t, s, claim(key, "c", now), dedup.Value{Done: true, Owner: "b", Until: now.Add(minute)})
	}},
	{name: "S1_35_LeaseThatRanOutIsLostEvenIfNobodyTookIt", run: func(t *testing.T, s store, key string) {
		wins(t, s, claim(key, "a", start))
		require.ErrorIs(t, s.Finish(t.Context(), claim(key, "a", start.Add(minute)), true), dedup.ErrLost)
		require.ErrorIs(t, s.Finish(t.Context(), claim(key, "a", start.Add(minute)), false), dedup.ErrLost)
		require.NoError(t, s.Finish(t.Context(), claim(key, "a", start.Add(minute-tick)), true))
	}},
	{name: "WhatIsDoneCannotBeReleased", run: func(t *testing.T, s store, key string) {
		wins(t, s, claim(key, "a", start))
		require.NoError(t, s.Finish(t.Context(), claim(key, "a", start), true))
		require.ErrorIs(t, s.Finish(t.Context(), claim(key, "a", start), false), dedup.ErrLost)
		finds(t, s, claim(key, "b", start), dedup.Value{Done: true, Owner: "a", Until: start.Add(minute)})
	}},
	{name: "KeyThatIsNotReservedIsLost", run: func(t *testing.T, s store, key string) {
		require.ErrorIs(t, s.Finish(t.Context(), claim(key, "a", start), true), dedup.ErrLost)
		require.ErrorIs(t, s.Finish(t.Context(), claim(key, "a", start), false), dedup.ErrLost)
		wins(t, s, claim(key, "a", start))
	}},
	{name: "S1_37_KeysDoNotTouchEachOther", run: func(t *testing.T, s store, key string) {
		others := []string{key + ":v2", strings.ToLower(key), key + "'); --", key + " ü\n", "x" + key}
		wins(t, s, claim(key, "a", start))
		require.NoError(t, s.Finish(t.Context(), claim(key, "a", start), true))
		for _, other := range others {
			wins(t, s, claim(other, "a", start))
		}
		require.NoError(t, s.Finish(t.Context(), claim(others[0], "a", start), false))
		finds(t, s, claim(key, "b", start), dedup.Value{Done: true, Owner: "a", Until: start.Add(minute)})
	}},
	{name: "CallerWhoHasGivenUpIsAnError", run: func(t *testing.T, s store, key string) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := s.Reserve(ctx, claim(key, "a", start))
		require.Error(t, err)
		for _, err := range []error{s.Finish(ctx, claim(key, "a", start), true), s.Finish(ctx, claim(key, "a", start), false)} {
			require.Error(t, err)
			require.NotErrorIs(t, err, dedup.ErrLost)
		}
	}},
	{name: "S1_25_OfManyAtOnceOneWins", run: func(t *testing.T, s store, key string) {
		for round, now := range []time.Time{start, start.Add(minute)} { // an absent key, and a lease that has expired
			got := race(t, s, key, now, fmt.Sprint("round ", round, " owner "))
			require.False(t, got.Done)
			require.Contains(t, got.Owner, fmt.Sprint("round ", round))
			if round == 1 {
				require.NoError(t, s.Finish(t.Context(), claim(key, got.Owner, now), true))
				require.True(t, race(t, s, key, now, "late owner ").Done)
			}
		}
	}},
}

// race has 32 owners ask for a key at once, and returns the one value that all of them got.
func race(t *testing.T, s store, key string, now time.Time, name string) dedup.Value {
	t.Helper()
	type answer struct {
		value dedup.Value
		err   error
	}
	begin, answers := make(chan struct{}), make(chan answer, 32)
	for i := range cap(answers) {
		go func() {
			<-begin
			value, err := s.Reserve(t.Context(), claim(key, fmt.Sprint(name, i), now))
			answers <- answer{value, err}
		}()
	}
	close(begin)
	first := <-answers
	require.NoError(t, first.err)
	for range cap(answers) - 1 {
		require.Equal(t, first, <-answers)
	}
	return first.value
}

// model is a store in ten lines.
type model map[string]dedup.Value

func (m model) reserve(c dedup.Claim) dedup.Value {
	if v, found := m[c.Key]; !found || !v.Until.After(c.Now) {
		m[c.Key] = dedup.Value{Owner: c.Owner, Until: c.Until}
	}
	return m[c.Key]
}

func (m model) finish(c dedup.Claim, done bool) (held bool) {
	v, found := m[c.Key]
	if !found || !v.Until.After(c.Now) || v.Owner != c.Owner || v.Done && !done {
		return false
	}
	m[c.Key] = dedup.Value{Done: true, Owner: c.Owner, Until: c.Until}
	if !done {
		delete(m, c.Key)
	}
	return true
}

// TestModel compares every store with the model over random histories of a few owners and keys, as the clock runs on.
func TestModel(t *testing.T) {
	t.Parallel()
	for _, k := range kinds(t) {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			s := k.open(t)
			rapid.Check(t, func(rt *rapid.T) {
				m, now, run := model{}, start, newKey()
				draw := func(rt *rapid.T) dedup.Claim {
					return dedup.Claim{
						Key: run + rapid.SampledFrom([]string{"k", "l"}).Draw(rt, "key"), Owner: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "owner"),
						Now: now, Until: now.Add(time.Duration(rapid.IntRange(1, 5).Draw(rt, "for")) * time.Second),
					}
				}
				finish := func(done bool) func(rt *rapid.T) {
					return func(rt *rapid.T) {
						c := draw(rt)
						held, err := m.finish(c, done), s.Finish(t.Context(), c, done)
						if held {
							require.NoError(rt, err)
							return
						}
						require.ErrorIs(rt, err, dedup.ErrLost)
					}
				}
				rt.Repeat(map[string]func(rt *rapid.T){
					"reserve": func(rt *rapid.T) {
						c := draw(rt)
						got, err := s.Reserve(t.Context(), c)
						require.NoError(rt, err)
						want := m.reserve(c)
						require.WithinDuration(rt, want.Until, got.Until, 0)
						want.Until = got.Until
						require.Equal(rt, want, got)
					},
					"complete": finish(true), "release": finish(false),
					"pass": func(rt *rapid.T) {
						now = now.Add(time.Duration(rapid.IntRange(0, 3).Draw(rt, "seconds")) * time.Second)
					},
				})
			})
		})
	}
}
