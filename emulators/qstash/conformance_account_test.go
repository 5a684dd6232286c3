package qstash_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	emulator "paceline.internal/emulators/qstash"
	"paceline.internal/platform/qstash"
)

func item23ReadAndCancel(t *testing.T) {
	t.Parallel()
	t.Run("ReadableUntilDelivered", func(t *testing.T) {
		t.Parallel()
		r := setup(t)
		m := r.message("a")
		m.Delay, m.Label, m.Retries = time.Minute, "burst", 5
		receipt := r.publish(m)
		status, got := r.waiting(receipt.MessageID)
		require.Equal(t, 200, status)
		for name, want := range map[string]any{
			"messageId": receipt.MessageID, "url": m.Destination, "label": "burst", "maxRetries": 5.,
			"createdAt": float64(start.UnixMilli()), "notBefore": float64(start.Add(time.Minute).UnixMilli()),
		} {
			require.Equal(t, want, got[name], name)
		}
		r.run(time.Minute)
		status, _ = r.waiting(receipt.MessageID)
		require.Equal(t, 404, status)
		require.Equal(t, 404, r.cancel(receipt.MessageID))
	})
	t.Run("CancelledIsNeverDelivered", func(t *testing.T) {
		t.Parallel()
		r := setup(t)
		m := r.message("a")
		m.Delay = time.Minute
		receipt := r.publish(m)
		require.Less(t, r.cancel(receipt.MessageID), 300)
		require.Equal(t, 404, r.cancel(receipt.MessageID))
		r.run(time.Hour)
		require.Empty(t, r.dest.received())
	})
	t.Run("WhatTheClientOfTheServicesWithdrawsIsNeverDelivered", func(t *testing.T) {
		t.Parallel()
		r := setup(t)
		m := r.message("a")
		m.Delay = time.Minute
		receipt := r.publish(m)
		require.NoError(t, r.client.Delete(t.Context(), receipt.MessageID))
		status, _ := r.waiting(receipt.MessageID)
		require.Equal(t, 404, status)
		require.NoError(t, r.client.Delete(t.Context(), receipt.MessageID), "one that is gone is withdrawn")
		other := r.message("b")
		other.Delay = time.Minute
		r.publish(other)
		require.ErrorIs(t, r.client.Delete(t.Context(), ""), qstash.ErrInvalid)
		r.run(time.Hour)
		require.Len(t, r.dest.received(), 1, "no other one is withdrawn")
	})
	t.Run("WithoutAnIDEverythingIsCancelled", func(t *testing.T) {
		t.Parallel()
		r := setup(t)
		for _, id := range []string{"a", "b"} {
			m := r.message(id)
			m.Delay = time.Minute
			r.publish(m)
		}
		status, answer := r.raw(http.MethodDelete, "/v2/messages/", nil, "")
		require.Equal(t, 200, status)
		require.EqualValues(t, 2, answer["cancelled"])
	})
}

func item39DevelopmentDefaults(t *testing.T) {
	t.Parallel()
	// The JavaScript SDK finds its development server ready when the keys are the published ones.
	r := setup(t)
	keys, err := r.client.Keys(t.Context())
	require.NoError(t, err)
	require.Equal(t, qstash.Keys{
		Current: "sig_7kYjw48mhY7kAjqNGcy6cr29RJ6r", Next: "sig_5ZB6DVzB1wjE8S6rZ7eenA8Pdnhs",
	}, keys)
	require.Equal(t, "127.0.0.1:8080", emulator.DevAddr)
	status, _ := r.raw(http.MethodGet, "/v2/keys", map[string]string{
		"Authorization": "Bearer eyJVc2VySUQiOiJkZWZhdWx0VXNlciIsIlBhc3N3b3JkIjoiZGVmYXVsdFBhc3N3b3JkIn0=",
	}, "")
	require.Equal(t, 200, status)
}
