package qstash_test

import (
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	emulator "paceline.internal/emulators/qstash"
	"paceline.internal/platform/qstash"
)

func item17Deduplication(t *testing.T) {
	t.Parallel()
	t.Run("SecondPublishNamesTheFirstMessage", func(t *testing.T) {
		t.Parallel()
		r := setup(t)
		first := r.publish(r.message("a"))
		require.False(t, first.Deduplicated)
		require.Equal(t, qstash.Receipt{MessageID: first.MessageID, Deduplicated: true}, r.publish(r.message("a")))
		require.NotEqual(t, first.MessageID, r.publish(r.message("b")).MessageID)
		r.idle()
		require.Len(t, r.dest.received(), 2)
		status, answer := r.rawPublish(map[string]string{"Upstash-Deduplication-Id": "a"})
		require.Equal(t, 202, status)
		require.Equal(t, true, answer["deduplicated"])
	})
	t.Run("ExpiresAfterTenMinutes", func(t *testing.T) {
		t.Parallel()
		r := setup(t)
		r.publish(r.message("a"))
		r.run(10*time.Minute - time.Second)
		require.True(t, r.publish(r.message("a")).Deduplicated)
		r.run(time.Second)
		require.False(t, r.publish(r.message("a")).Deduplicated)
		r.idle()
		require.Len(t, r.dest.received(), 2)
	})
	t.Run("FailedMessageStillBlocks", func(t *testing.T) {
		t.Parallel()
		r := setup(t)
		r.dest.answersStatus(500)
		r.publish(r.message("a"))
		r.idle()
		require.Len(t, r.emulator.Record().Of(emulator.DeadLettered), 1)
		require.True(t, r.publish(r.message("a")).Deduplicated)
	})
}

func item18ColonInDeduplicationID(t *testing.T) {
	t.Parallel()
	r := setup(t)
	status, answer := r.rawPublish(map[string]string{"Upstash-Deduplication-Id": "a:b"})
	require.Equal(t, 400, status)
	require.Equal(t, "DeduplicationId cannot contain ':'", answer["error"])
}

func item19ContentBasedDeduplication(t *testing.T) {
	t.Parallel()
	first := map[string]string{
		"Upstash-Content-Based-Deduplication": "True", "Content-Type": "text/plain", "Upstash-Forward-X-A": "1",
	}
	cases := []struct {
		name         string
		path, body   string
		header       map[string]string
		deduplicated bool
	}{
		{name: "Same", path: "/hook", body: "hello", deduplicated: true},
		{name: "OtherRetrySettings", path: "/hook", body: "hello", header: map[string]string{"Upstash-Retries": "9"}, deduplicated: true},
		{name: "OtherDestination", path: "/other", body: "hello"},
		{name: "OtherBody", path: "/hook", body: "hullo"},
		{name: "OtherContentType", path: "/hook", body: "hello", header: map[string]string{"Content-Type": "text/html"}},
		{name: "OtherForwardedHeader", path: "/hook", body: "hello", header: map[string]string{"Upstash-Forward-X-A": "2"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := setup(t)
			_, before := r.raw(http.MethodPost, "/v2/publish/"+r.dest.url+"/hook", first, "hello")
			header := map[string]string{}
			maps.Copy(header, first)
			maps.Copy(header, c.header)
			_, after := r.raw(http.MethodPost, "/v2/publish/"+r.dest.url+c.path, header, c.body)
			require.Equal(t, c.deduplicated, before["messageId"] == after["messageId"])
			require.Equal(t, c.deduplicated, after["deduplicated"] == true)
		})
	}
}
