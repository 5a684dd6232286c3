package hours_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/hours"
)

func TestPeriods(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 10, 26, 12, 20, 30, 1, time.UTC) // the day after Europe's clocks were put back
	for _, tt := range []struct {
		span, zone         string
		periods            int
		first, last, until string
	}{
		{"", "", 24, "2026-10-25T13:00:00Z", "2026-10-26T12:00:00Z", "2026-10-26T13:00:00Z"},
		{"day", "Asia/Kathmandu", 24, "2026-10-25T19:00:00+05:45", "2026-10-26T18:00:00+05:45", "2026-10-26T19:00:00+05:45"},
		{"day", "Europe/Berlin", 24, "2026-10-25T14:00:00+01:00", "2026-10-26T13:00:00+01:00", "2026-10-26T14:00:00+01:00"},
		{"week", "Europe/Berlin", 28, "2026-10-20T00:00:00+02:00", "2026-10-26T18:00:00+01:00", "2026-10-27T00:00:00+01:00"},
		{"month", "Europe/Berlin", 30, "2026-09-27T00:00:00+02:00", "2026-10-26T00:00:00+01:00", "2026-10-27T00:00:00+01:00"},
	} {
		edges, err := hours.Periods(now, tt.span, tt.zone)
		require.NoError(t, err)
		require.Len(t, edges, tt.periods+1, tt.span)
		n := len(edges)
		require.Equal(t, []string{tt.first, tt.last, tt.until}, []string{
			edges[0].Format(time.RFC3339), edges[n-2].Format(time.RFC3339), edges[n-1].Format(time.RFC3339),
		}, tt.span)
		for i, at := range edges[1:] {
			require.True(t, at.After(edges[i]))
			require.Equal(t, at, at.Truncate(hours.Quarter))
		}
	}
	_, err := hours.Periods(now, "year", "")
	require.EqualError(t, err, "span must be day, week or month")
	_, err = hours.Periods(now, "day", "Local")
	require.ErrorContains(t, err, "time_zone must be an IANA name")
}
