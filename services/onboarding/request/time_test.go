package request_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/services/onboarding/request"
)

func TestTime(t *testing.T) {
	t.Parallel()
	for _, at := range []time.Time{time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), time.Date(2200, 12, 31, 0, 0, 0, 0, time.UTC)} {
		require.NoError(t, request.Time("at", timestamppb.New(at)), at)
	}
	for name, at := range map[string]*timestamppb.Timestamp{
		"Zero": timestamppb.New(time.Time{}), "Epoch": {}, "LastYear": timestamppb.New(time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)),
		"Milliseconds": {Seconds: 1_795_000_000_000}, "OutOfRange": {Seconds: 1 << 60}, "Nanos": {Seconds: 1_795_000_000, Nanos: -1},
	} {
		require.ErrorContains(t, request.Time("scheduled_for", at), "scheduled_for must be a time of the years 2000 to 2200", name)
	}
}
