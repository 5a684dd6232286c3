package route

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// occupy acquires so many slots, which are free.
func occupy(t *testing.T, l *Limiter, count int) {
	t.Helper()
	for range count {
		require.True(t, l.Acquire(t.Context(), 0, 0, time.Time{}))
	}
}

func TestLimiterOrder(t *testing.T) {
	t.Parallel()
	// one is a callback that comes while the only slot is taken; its due time is in seconds from noon.
	type one struct {
		name     string
		priority int
		due      int
	}
	for _, tc := range []struct {
		name    string
		room    int
		come    []one
		refused []string // before their time is over
		want    []string // in the order in which they get the slot
	}{
		{name: "ByTheirDueTimes", room: 5, come: []one{{"c", 0, 3}, {"a", 0, 1}, {"d", 0, 4}, {"b", 0, 2}}, want: []string{"a", "b", "c", "d"}},
		{name: "AmongEqualsTheFirstToCome", room: 5, come: []one{{"c", 0, 1}, {"a", 0, 1}, {"b", 0, 1}}, want: []string{"c", "a", "b"}},
		{
			name: "WhenTheRoomIsFullTheLastOneDueIsRefused", room: 2, come: []one{{"b", 0, 2}, {"c", 0, 3}, {"a", 0, 1}, {"d", 0, 4}},
			refused: []string{"c", "d"}, want: []string{"a", "b"},
		},
		{
			name: "ByPriorityBeforeTheirDueTimes", room: 4, come: []one{{"receipt 1", 1, 0}, {"receipt 2", 1, 1}, {"STOP", 0, 2}, {"hello", 0, 3}},
			want: []string{"STOP", "hello", "receipt 1", "receipt 2"},
		},
		{
			name: "TheLowerPriorityKeepsNoHigherOneOut", room: 2, come: []one{{"receipt 1", 1, 0}, {"receipt 2", 1, 1}, {"STOP", 0, 2}},
			refused: []string{"receipt 2"}, want: []string{"STOP", "receipt 1"},
		},
		{name: "WithoutRoomNobodyWaits", come: []one{{"a", 0, 1}}, refused: []string{"a"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := NewLimiter(1, tc.room)
				occupy(t, l, 1)
				var refused, got []string
				for _, c := range tc.come {
					go func() {
						if !l.Acquire(t.Context(), time.Hour, c.priority, noon().Add(time.Duration(c.due)*time.Second)) {
							refused = append(refused, c.name)
							return
						}
						got = append(got, c.name)
						l.Release()
					}()
					synctest.Wait()
				}
				require.Empty(t, got)
				require.Equal(t, tc.refused, refused)
				l.Release()
				synctest.Wait()
				require.Equal(t, tc.want, got)
				require.Equal(t, 1, l.free)
				require.Empty(t, l.waiting)
			})
		})
	}
}

func TestLimiterWait(t *testing.T) {
	t.Parallel()
	t.Run("S1_33_EndsAfterItsTime", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			l := NewLimiter(1, 2)
			occupy(t, l, 1)
			began := time.Now() //nolint:forbidigo // the bubble's clock
			require.False(t, l.Acquire(t.Context(), time.Second, 0, time.Time{}))
			require.Equal(t, time.Second, time.Since(began)) //nolint:forbidigo // the bubble's clock
			require.Empty(t, l.waiting)
		})
	})

	t.Run("EndsWhenItsCallerGoes", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			l := NewLimiter(1, 3)
			occupy(t, l, 1)
			gone, goes := context.WithCancel(t.Context())
			acquired := map[string]chan bool{"first": make(chan bool, 1), "goes": make(chan bool, 1), "last": make(chan bool, 1)}
			for i, name := range []string{"first", "goes", "last"} {
				ctx := t.Context()
				if name == "goes" {
					ctx = gone
				}
				go func() { acquired[name] <- l.Acquire(ctx, time.Hour, 0, noon().Add(time.Duration(i))) }()
				synctest.Wait()
			}
			goes()
			require.False(t, <-acquired["goes"])
			require.Len(t, l.waiting, 2)
			for _, name := range []string{"first", "last"} {
				l.Release()
				require.True(t, <-acquired[name])
			}
			l.Release()
			require.Equal(t, 1, l.free)
		})
	})

	t.Run("ThatIsDecidedInTheInstantInWhichItsCallerGoesHasTheSlot", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			l := NewLimiter(1, 1)
			occupy(t, l, 1)
			ctx, goes := context.WithCancel(t.Context())
			acquired := make(chan bool, 1)
			go func() { acquired <- l.Acquire(ctx, time.Hour, 0, noon()) }()
			synctest.Wait()
			l.Release()
			goes()
			require.True(t, <-acquired)
			l.Release()
			require.Equal(t, 1, l.free, "no slot is lost")
		})
	})
}
