package qstash

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/qstash"
)

func TestAttemptOf(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, retried string
		want          int
	}{
		{name: "FirstAttempt", retried: "0", want: 1},
		{name: "ThirdAttempt", retried: "2", want: 3},
		{name: "Absent", retried: "", want: 1},
		{name: "NoNumber", retried: "NaN", want: 1},
		{name: "Negative", retried: "-3", want: 1},
		{name: "Fraction", retried: "1.5", want: 1},
		{name: "Huge", retried: "99999999999999999999", want: 1},
	} {
		t.Run("S1_12_"+tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, attemptOf(tc.retried))
		})
	}
}

// FuzzDelivery checks that what is read from a delivery's headers, which a stranger may have written, fits a span.
func FuzzDelivery(f *testing.F) {
	f.Fuzz(func(t *testing.T, id, retried, maxRetries, hash string) {
		header := http.Header{}
		for name, value := range map[string]string{
			qstash.HeaderMessageID: id, qstash.HeaderRetried: retried, qstash.HeaderMaxRetries: maxRetries, qstash.HeaderDedupHash: hash,
		} {
			header.Set(name, value)
		}
		d := readDelivery(header)
		require.False(t, d.final(), "nothing is known before it is verified")
		require.Empty(t, d.dedupHash)
		require.Equal(t, qstash.PolicyRetries, d.maxRetries)
		d.verified(header)
		require.Positive(t, d.attempt)
		require.GreaterOrEqual(t, d.maxRetries, 0)
		require.Equal(t, d.attempt > d.maxRetries, d.final())
		if d.dedupHash != "" {
			require.Regexp(t, "^[0-9a-f]{16}$", d.dedupHash)
			require.Equal(t, hash, d.dedupHash)
		}
		if n, err := strconv.Atoi(retried); err == nil && n >= 0 && n < 1000 && retried == strconv.Itoa(n) {
			require.Equal(t, n+1, d.attempt)
		}
		require.Equal(t, strings.TrimSpace(d.messageID), d.messageID)
	})
}
