package senders

import (
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestChoose(t *testing.T) {
	t.Parallel()
	env := Sender{Name: "environment", Status: Active}
	older := Sender{ID: uuid.New(), Name: "older", Status: Active}
	brazil := Sender{ID: uuid.New(), Name: "brazil", Status: Active, Countries: []string{"BR", "PT"}}
	disabled := Sender{ID: uuid.New(), Name: "disabled", Status: Disabled}
	for _, c := range []struct {
		name    string
		all     []Sender
		heard   []uuid.UUID
		country string
		want    string
	}{
		{"OldestForAStranger", []Sender{older, brazil}, nil, "US", "older"},
		{"EnvironmentIsTheOldest", []Sender{env, older}, nil, "US", "environment"},
		{"CountryBeforeAge", []Sender{older, brazil}, nil, "BR", "brazil"},
		{"NobodyKnowsTheCountry", []Sender{older, brazil}, nil, "", "older"},
		{"FirstHeardBeforeCountry", []Sender{older, brazil}, []uuid.UUID{older.ID, brazil.ID}, "BR", "older"},
		{"HeardFromTheEnvironment", []Sender{env, brazil}, []uuid.UUID{uuid.Nil}, "BR", "environment"},
		{"HeardFromADisabledOne", []Sender{disabled, older, brazil}, []uuid.UUID{disabled.ID, brazil.ID}, "US", "brazil"},
		{"HeardFromOneThatIsGone", []Sender{older}, []uuid.UUID{uuid.New()}, "US", "older"},
		{"AllNameCountries", []Sender{brazil}, nil, "US", "brazil"},
		{"NoneSends", []Sender{disabled}, []uuid.UUID{disabled.ID}, "US", ""},
		{"None", nil, nil, "US", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := choose(c.all, c.heard, c.country)
			if c.want == "" {
				require.ErrorIs(t, err, ErrNoSender)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, got.Name)
		})
	}
}

// TestChoiceStays: whatever is added or disabled, a person who has heard from an active sender stays with the first of them, and nobody gets one
// that is not active.
func TestChoiceStays(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		one := rapid.Custom(func(rt *rapid.T) Sender {
			return Sender{
				ID: uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(rt, "id")), Status: rapid.SampledFrom([]Status{Active, Disabled}).Draw(rt, "status"),
				Countries: rapid.SliceOfN(rapid.SampledFrom([]string{"US", "BR"}), 0, 2).Draw(rt, "countries"),
			}
		})
		all := rapid.SliceOfNDistinct(one, 0, 6, func(s Sender) uuid.UUID { return s.ID }).Draw(rt, "senders")
		var heard []uuid.UUID
		for _, s := range all {
			if rapid.Bool().Draw(rt, "heard") {
				heard = append(heard, s.ID)
			}
		}
		heard = rapid.Permutation(heard).Draw(rt, "order")
		got, err := choose(all, heard, rapid.SampledFrom([]string{"", "US", "BR", "FR"}).Draw(rt, "country"))
		active := func(id uuid.UUID) bool {
			return slices.ContainsFunc(all, func(s Sender) bool { return s.ID == id && s.Status == Active })
		}
		if err != nil {
			require.False(rt, slices.ContainsFunc(all, func(s Sender) bool { return s.Status == Active }))
			return
		}
		require.Equal(rt, Active, got.Status)
		if i := slices.IndexFunc(heard, active); i >= 0 {
			require.Equal(rt, heard[i], got.ID)
		}
	})
}
