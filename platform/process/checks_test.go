package process_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/process"
)

// database has a clock that is wrong by skew, or that does not answer.
type database struct {
	postgres.DB

	skew time.Duration
	err  error
}

// QueryRow answers what time it is there.
func (d database) QueryRow(context.Context, string, ...any) pgx.Row { return d }

// Scan implements pgx.Row.
func (d database) Scan(dest ...any) error {
	*dest[0].(*time.Time) = time.Now().Add(d.skew)
	return d.err
}

func TestLookAtClock(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		skew time.Duration
		want process.State
	}{
		{"Right", 0, process.Well},
		{"ALittleFast", 100 * time.Millisecond, process.Well},
		{"Fast", 700 * time.Millisecond, process.Doubtful},
		{"Slow", -2 * time.Second, process.Doubtful},
		{"FarTooFast", 6 * time.Second, process.Unwell},
		{"FarTooSlow", -time.Hour, process.Unwell},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			findings := process.Examine(t.Context(), "thing", process.Check{
				Name: "clock", Look: func(ctx context.Context) (string, error) { return process.LookAtClock(ctx, database{skew: tt.skew}) }, Mend: "set the clock",
			})
			require.Len(t, findings, 1)
			require.Equal(t, tt.want, findings[0].State, findings[0].Why)
		})
	}

	t.Run("ADatabaseThatDoesNotSayIsAnError", func(t *testing.T) {
		t.Parallel()
		_, err := process.LookAtClock(t.Context(), database{err: errors.New("gone")})
		require.ErrorContains(t, err, "gone")
		findings := process.Examine(t.Context(), "thing", process.Check{
			Name: "clock", Look: func(context.Context) (string, error) { return "", err }, Mend: "set the clock",
		})
		require.Equal(t, "mend what is wrong with the database, above", findings[0].Mend, "the clock is not at fault")
	})
}
