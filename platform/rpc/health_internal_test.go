package rpc

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// Health is open to every caller, so it must not be a way to ask the database.
func TestHealthOfTheDatabaseIsAskedOnceASecond(t *testing.T) {
	t.Parallel()
	now, asked, away := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), 0, error(nil)
	h := &healthServer{
		Server: health.NewServer(), now: func() time.Time { return now }, asking: make(chan struct{}, 1),
		database: func(ctx context.Context) error {
			asked++ // by one at a time
			_, ok := ctx.Deadline()
			require.True(t, ok, "the question ends")
			return away
		},
	}
	says := func(service string) healthpb.HealthCheckResponse_ServingStatus {
		answer, err := h.Check(t.Context(), &healthpb.HealthCheckRequest{Service: service})
		require.NoError(t, err)
		return answer.GetStatus()
	}
	var together sync.WaitGroup
	for range 20 {
		together.Go(func() { _, _ = h.Check(t.Context(), &healthpb.HealthCheckRequest{Service: HealthDatabase}) })
	}
	together.Wait()
	require.Equal(t, 1, asked)

	away = errors.New("the database at 10.0.0.7 refuses connections")
	now = now.Add(databaseTrust)
	require.Equal(t, healthpb.HealthCheckResponse_SERVING, says(HealthDatabase), "the answer is believed for a second")
	now = now.Add(1)
	require.Equal(t, healthpb.HealthCheckResponse_NOT_SERVING, says(HealthDatabase))
	require.Equal(t, healthpb.HealthCheckResponse_SERVING, says(""), "a process is not restarted because its database is away")
	require.Equal(t, 2, asked)

	h.asking <- struct{}{} // another call asks the database
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := h.Check(gone, &healthpb.HealthCheckRequest{Service: HealthDatabase})
	require.Equal(t, codes.Canceled, status.Code(err))
}
