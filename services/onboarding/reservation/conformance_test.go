package reservation_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"paceline.internal/services/onboarding/reservation"
)

const (
	minute = time.Minute
	tick   = time.Microsecond
)

// TestConformance is what the guard relies on, of every store.
func TestConformance(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		run  func(t *testing.T, s store, key string)
	}{
		{name: "AbsentKeyIsWon", run: func(t *testing.T, s store, key string) {
			wins(t, s, claim(key, "a", start))
		}},
		{name: "S1_26_HeldKeyIsInFlightUntilItsLeaseEnds", run: func(t *testing.T, s store, key string) {
			wins(t, s, claim(key, "a", start))
			for _, later := range []time.Duration{0, 30 * time.Second, minute - tick} {
				finds(t, s, claim(key, "b", start.Add(later)), reservation.Answer{Verdict: reservation.InFlight, Until: start.Add(minute)})
			}
		}},
		{name: "S1_36_LeaseThatRanOutIsAbsent", run: func(t *testing.T, s store, key string) {
			wins(t, s, claim(key, "a", start))
			wins(t, s, claim(key, "b", start.Add(minute)))
			finds(t, s, claim(key, "a", start.Add(minute)), reservation.Answer{Verdict: reservation.InFlight, Until: start.Add(2 * minute)})
		}},
		{name: "S1_27_DoneKeyIsDoneUntilItsMemoryEnds", run: func(t *testing.T, s store, key string) {
			wins(t, s, claim(key, "a", start))
			memory := start.Add(24 * time.Hour)
			require.NoError(t, s.Complete(t.Context(), reservation.Claim{Key: key, Owner: "a", Now: start, Until: memory}))
			for _, owner := range []string{"a", "b"} {
				finds(t, s, claim(key, owner, memory.Add(-tick)), reservation.Answer{Verdict: reservation.Done, Until: memory})
			}
			wins(t, s, claim(key, "b", memory))
		}},
		{name: "S1_06_ReleasedKeyIsAbsent", run: func(t *testing.T, s store, key string) {
			wins(t, s, claim(key, "a", start))
			require.NoError(t, s.Release(t.Context(), claim(key, "a", start)))
			wins(t, s, claim(key, "b", start))
		}},
		{name: "CallWhoseAnswerWasLostMayBeRepeated", run: func(t *testing.T, s store, key string) {
			wins(t, s, claim(key, "a", start))
			finds(t, s, claim(key, "a", start.Add(tick)), reservation.Answer{Verdict: reservation.Won, Until: start.Add(minute)})
			require.NoError(t, s.Complete(t.Context(), claim(key, "a", start)))
			require.NoError(t, s.Complete(t.Context(), claim(key, "a", start)))
		}},
		{name: "S1_35_StaleHolderNeitherCompletesNorReleasesTheNextOnes", run: func(t *testing.T, s store, key string) {
			wins(t, s, claim(key, "a", start))
			now := start.Add(minute)
			wins(t, s, claim(key, "b", now))
			require.ErrorIs(t, s.Complete(t.Context(), claim(key, "a", now)), reservation.ErrLost)
			require.ErrorIs(t, s.Release(t.Context(), claim(key, "a", now)), reservation.ErrLost)
			finds(t, s, claim(key, "c", now), reservation.Answer{Verdict: reservation.InFlight, Until: now.Add(minute)})
			require.NoError(t, s.Complete(t.Context(), claim(key, "b", now)))
			require.ErrorIs(t, s.Release(t.Context(), claim(key, "a", now)), reservation.ErrLost)
			require.ErrorIs(t, s.Complete(t.Context(), reservation.Claim{Key: key, Owner: "a", Now: now, Until: now.Add(time.Hour)}), reservation.ErrLost)
			finds(t, s, claim(key, "c", now), reservation.Answer{Verdict: reservation.Done, Until: now.Add(minute)})
		}},
		{name: "S1_35_LeaseThatRanOutIsLostEvenIfNobodyTookIt", run: func(t *testing.T, s store, key string) {
			wins(t, s, claim(key, "a", start))
			require.ErrorIs(t, s.Complete(t.Context(), claim(key, "a", start.Add(minute))), reservation.ErrLost)
			require.ErrorIs(t, s.Release(t.Context(), claim(key, "a", start.Add(minute))), reservation.ErrLost)
			require.NoError(t, s.Complete(t.Context(), claim(key, "a", start.Add(minute-tick))))
		}},
		{name: "WhatIsDoneCannotBeReleased", run: func(t *testing.T, s store, key string) {
			wins(t, s, claim(key, "a", start))
			require.NoError(t, s.Complete(t.Context(), claim(key, "a", start)))
			require.ErrorIs(t, s.Release(t.Context(), claim(key, "a", start)), reservation.ErrLost)
			finds(t, s, claim(key, "b", start), reservation.Answer{Verdict: reservation.Done, Until: start.Add(minute)})
		}},
		{name: "WhatNobodyReservedIsLost", run: func(t *testing.T, s store, key string) {
			require.ErrorIs(t, s.Complete(t.Context(), claim(key, "a", start)), reservation.ErrLost)
			require.ErrorIs(t, s.Release(t.Context(), claim(key, "a", start)), reservation.ErrLost)
			wins(t, s, claim(key, "a", start))
		}},
		{name: "S1_37_KeysDoNotTouchEachOther", run: func(t *testing.T, s store, key string) {
			others := []string{key + ":v2", strings.ToLower(key), key + "'); --", key + " ü\n", "x" + key}
			wins(t, s, claim(key, "a", start))
			require.NoError(t, s.Complete(t.Context(), claim(key, "a", start)))
			for _, other := range others {
				wins(t, s, claim(other, "a", start))
			}
			require.NoError(t, s.Release(t.Context(), claim(others[0], "a", start)))
			finds(t, s, claim(key, "b", start), reservation.Answer{Verdict: reservation.Done, Until: start.Add(minute)})
		}},
		{name: "CallerWhoHasGivenUpIsAnError", run: func(t *testing.T, s store, key string) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, err := s.Reserve(ctx, claim(key, "a", start))
			require.Error(t, err)
			for _, err := range []error{s.Complete(ctx, claim(key, "a", start)), s.Release(ctx, claim(key, "a", start))} {
				require.Error(t, err)
				require.NotErrorIs(t, err, reservation.ErrLost)
			}
		}},
		{name: "S1_25_OfManyAtOnceOneWins", run: func(t *testing.T, s store, key string) {
			for round, now := range []time.Time{start, start.Add(minute)} { // an absent key, and a lease that has run out
				won, others := race(t, s, key, now, fmt.Sprint("round ", round, " owner "))
				require.Len(t, won, 1)
				require.Equal(t, map[reservation.Verdict]int{reservation.InFlight: 31}, others)
				if round == 1 {
					require.NoError(t, s.Complete(t.Context(), claim(key, won[0], now)))
				}
			}
			won, others := race(t, s, key, start.Add(minute), "late owner ")
			require.Empty(t, won)
			require.Equal(t, map[reservation.Verdict]int{reservation.Done: 32}, others)
		}},
	}
	for _, k := range kinds(t) {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range cases {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					c.run(t, k.open(t), newKey())
				})
			}
		})
	}
}

// race has 32 owners ask for a key at once, and says who won it and what the others were told.
func race(t *testing.T, s store, key string, now time.Time, name string) (won []string, others map[reservation.Verdict]int) {
	t.Helper()
	type told struct {
		owner  string
		answer reservation.Answer
		err    error
	}
	begin, answers := make(chan struct{}), make(chan told, 32)
	for i := range cap(answers) {
		go func() {
			<-begin
			owner := fmt.Sprint(name, i)
			answer, err := s.Reserve(t.Context(), claim(key, owner, now))
			answers <- told{owner, answer, err}
		}()
	}
	close(begin)
	others = map[reservation.Verdict]int{}
	for range cap(answers) {
		one := <-answers
		require.NoError(t, one.err)
		if one.answer.Verdict == reservation.Won {
			won = append(won, one.owner)
			continue
		}
		others[one.answer.Verdict]++
	}
	return won, others
}

// value is what the model keeps under a key.
type value struct {
	done  bool
	owner string
	until time.Time
}

// model is a store in ten lines.
type model map[string]value

func (m model) live(c reservation.Claim) (value, bool) {
	v, found := m[c.Key]
	return v, found && v.until.After(c.Now)
}

func (m model) reserve(c reservation.Claim) reservation.Answer {
	v, live := m.live(c)
	switch {
	case !live:
		m[c.Key] = value{owner: c.Owner, until: c.Until}
		return reservation.Answer{Verdict: reservation.Won, Until: c.Until}
	case v.done:
		return reservation.Answer{Verdict: reservation.Done, Until: v.until}
	case v.owner == c.Owner:
		return reservation.Answer{Verdict: reservation.Won, Until: v.until}
	default:
		return reservation.Answer{Verdict: reservation.InFlight, Until: v.until}
	}
}

func (m model) complete(c reservation.Claim) bool {
	v, live := m.live(c)
	if !live || v.owner != c.Owner {
		return false
	}
	m[c.Key] = value{done: true, owner: c.Owner, until: c.Until}
	return true
}

func (m model) release(c reservation.Claim) bool {
	v, live := m.live(c)
	if !live || v.owner != c.Owner || v.done {
		return false
	}
	delete(m, c.Key)
	return true
}

// TestModel compares every store with the model over random histories of a few owners and keys, whose clock runs on.
func TestModel(t *testing.T) {
	t.Parallel()
	for _, k := range kinds(t) {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			s := k.open(t)
			rapid.Check(t, func(rt *rapid.T) {
				m, now, run := model{}, start, newKey()
				draw := func(rt *rapid.T) reservation.Claim {
					return reservation.Claim{
						Key: run + rapid.SampledFrom([]string{"k", "l"}).Draw(rt, "key"), Owner: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "owner"),
						Now: now, Until: now.Add(time.Duration(rapid.IntRange(1, 5).Draw(rt, "for")) * time.Second),
					}
				}
				held := func(rt *rapid.T, want bool, err error) {
					if want {
						require.NoError(rt, err)
						return
					}
					require.ErrorIs(rt, err, reservation.ErrLost)
				}
				rt.Repeat(map[string]func(rt *rapid.T){
					"reserve": func(rt *rapid.T) {
						c := draw(rt)
						got, err := s.Reserve(t.Context(), c)
						require.NoError(rt, err)
						want := m.reserve(c)
						require.Equal(rt, want.Verdict, got.Verdict)
						require.WithinDuration(rt, want.Until, got.Until, 0)
					},
					"complete": func(rt *rapid.T) {
						c := draw(rt)
						held(rt, m.complete(c), s.Complete(t.Context(), c))
					},
					"release": func(rt *rapid.T) {
						c := draw(rt)
						held(rt, m.release(c), s.Release(t.Context(), c))
					},
					"pass": func(rt *rapid.T) {
						now = now.Add(time.Duration(rapid.IntRange(0, 3).Draw(rt, "seconds")) * time.Second)
					},
				})
			})
		})
	}
}
