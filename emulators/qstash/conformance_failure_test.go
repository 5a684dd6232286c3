package qstash_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	emulator "paceline.internal/emulators/qstash"
	"paceline.internal/platform/qstash"
)

func item27DeadLetters(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.dest.answers(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Why", "down")
		w.WriteHeader(http.StatusBadGateway)
		_, _ = w.Write([]byte("no upstream"))
	})
	first, second := r.message("a"), r.message("b")
	first.Label, second.Label = "burst", "other"
	firstID := r.publish(first).MessageID
	r.idle()
	r.clock.Advance(time.Second)
	r.publish(second)
	r.idle()

	_, page := r.raw(http.MethodGet, "/v2/dlq?label=burst,unused&responseStatus=502&messageId="+firstID, nil, "")
	row := page["messages"].([]any)[0].(map[string]any)
	require.Len(t, page["messages"], 1)
	require.Equal(t, firstID, row["messageId"])
	require.Equal(t, first.Destination, row["url"])
	require.Equal(t, `{"step":1}`, row["body"])
	require.EqualValues(t, 502, row["responseStatus"])
	require.Equal(t, "no upstream", row["responseBody"])
	require.Equal(t, []any{"down"}, row["responseHeader"].(map[string]any)["X-Why"])
	require.Regexp(t, `^\d+-\d+$`, row["dlqId"])

	for query, want := range map[string]int{
		"label=nothing": 0, "responseStatus=500": 0, "url=" + first.Destination: 2,
		"fromDate=" + strconv.FormatInt(start.Add(time.Second).UnixMilli(), 10): 1,
		"toDate=" + strconv.FormatInt(start.UnixMilli(), 10):                    1,
	} {
		_, page = r.raw(http.MethodGet, "/v2/dlq?"+query, nil, "")
		require.Len(t, page["messages"], want, query)
	}

	_, page = r.raw(http.MethodGet, "/v2/dlq?count=1", nil, "")
	cursor := fmt.Sprint(page["cursor"])
	require.Equal(t, row["dlqId"], cursor)
	dead, next := r.deadLetters(cursor)
	require.Empty(t, next)
	require.Len(t, dead, 1)
	require.Equal(t, "other", dead[0]["label"])

	status, _ := r.raw(http.MethodDelete, fmt.Sprint("/v2/dlq/", dead[0]["dlqId"]), nil, "")
	require.Equal(t, 200, status)
	status, _ = r.raw(http.MethodGet, fmt.Sprint("/v2/dlq/", dead[0]["dlqId"]), nil, "")
	require.Equal(t, 404, status)

	r.dest.answersStatus(200)
	status, again := r.raw(http.MethodPost, "/v2/dlq/retry/"+cursor, nil, "")
	require.Equal(t, 201, status)
	require.NotEqual(t, firstID, again["messageId"])
	r.idle()
	all := r.dest.received()
	require.Equal(t, again["messageId"], all[len(all)-1].header.Get(qstash.HeaderMessageID))
	require.Equal(t, "0", all[len(all)-1].header.Get(qstash.HeaderRetried))
	status, _ = r.raw(http.MethodPost, "/v2/dlq/retry/"+cursor, nil, "")
	require.Equal(t, 404, status)
}

func item28Callbacks(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.dest.answers(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/hook" {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte{0xff, 'x'})
		}
	})
	callback, failed := r.dest.url+"/answered", r.dest.url+"/failed?x=1"
	status, answer := r.rawPublish(map[string]string{
		"Upstash-Retries": "1", "Upstash-Retry-Delay": "1000", "Upstash-Callback": callback, "Upstash-Failure-Callback": failed,
		"Upstash-Failure-Callback-Forward-X-Why": "because", "Upstash-Failure-Callback-Method": "PUT",
		"Content-Type": "text/plain",
	})
	require.Equal(t, 200, status)
	r.run(time.Minute)

	require.Len(t, r.dest.at("/hook"), 2)
	require.Len(t, r.dest.at("/answered"), 2, "one per attempt")
	callbacks := r.dest.at("/failed?x=1")
	require.Len(t, callbacks, 1, "once")
	require.Equal(t, "PUT", callbacks[0].method)
	require.Equal(t, "because", callbacks[0].header.Get("X-Why"))
	require.NotEqual(t, answer["messageId"], callbacks[0].header.Get(qstash.HeaderMessageID), "a message of its own")
	v := r.verifier(qstash.Keys{Current: emulator.DevCurrentKey, Next: emulator.DevNextKey})
	require.NoError(t, v.Verify(callbacks[0].header.Get(qstash.HeaderSignature), callbacks[0].body, failed))

	dead, _ := r.deadLetters("")
	failure, err := qstash.DecodeFailure(callbacks[0].body)
	require.NoError(t, err)
	require.Equal(t, answer["messageId"], failure.SourceMessageID)
	require.Equal(t, dead[0]["dlqId"], failure.DeadLetterID)
	require.Equal(t, r.dest.url+"/hook", failure.URL)
	require.Equal(t, "hello", string(failure.SourceBody))
	require.Equal(t, "text/plain", failure.SourceHeader.Get("Content-Type"))
	require.Equal(t, 503, failure.Status)
	require.Equal(t, []byte{0xff, 'x'}, failure.Body)
	require.Equal(t, []int{1, 1}, []int{failure.Retried, failure.MaxRetries})
	require.Equal(t, start, failure.CreatedAt)

	var wire map[string]any
	require.NoError(t, json.Unmarshal(callbacks[0].body, &wire))
	require.Equal(t, base64.StdEncoding.EncodeToString([]byte("hello")), wire["sourceBody"])

	status, _ = r.rawPublish(map[string]string{"Upstash-Callback": "nowhere"})
	require.Equal(t, 400, status)
	status, _ = r.rawPublish(map[string]string{"Upstash-Callback": callback, "Upstash-Callback-Delay": "5s"})
	require.Equal(t, 400, status)
}

func item37AtLeastOnce(t *testing.T) {
	t.Parallel()
	t.Run("DuplicateAfterSuccessHasTheSameMessageID", func(t *testing.T) {
		t.Parallel()
		r := setup(t)
		r.emulator.SetFaults(emulator.Script{OnDeliver: emulator.Every(emulator.DeliverFault{Repeats: 1, RepeatAfter: time.Second})})
		receipt := r.publish(r.message("a"))
		r.run(time.Minute)
		got := r.dest.received()
		require.Len(t, got, 2)
		for _, a := range got {
			require.Equal(t, receipt.MessageID, a.header.Get(qstash.HeaderMessageID))
			require.Equal(t, "0", a.header.Get(qstash.HeaderRetried))
		}
		require.NotEqual(t, got[0].header.Get(qstash.HeaderSignature), got[1].header.Get(qstash.HeaderSignature))
		require.Equal(t, []time.Duration{0, time.Second}, r.attempts())
		require.Len(t, r.emulator.Record().Of(emulator.Delivered), 1)
	})
	t.Run("CrashRepeatsWhatWasInFlight", func(t *testing.T) {
		t.Parallel()
		r := setup(t)
		arrived := make(chan struct{})
		r.dest.answers(func(_ http.ResponseWriter, req *http.Request) {
			select {
			case arrived <- struct{}{}: // the first one is at work when QStash crashes
				<-req.Context().Done()
			case <-req.Context().Done():
			}
		})
		receipt := r.publish(r.message("a"))
		<-arrived
		r.dest.answersStatus(200)
		r.emulator.Restart()
		r.idle()

		got := r.dest.received()
		require.Len(t, got, 2)
		require.Equal(t, receipt.MessageID, got[1].header.Get(qstash.HeaderMessageID))
		require.Equal(t, "0", got[1].header.Get(qstash.HeaderRetried))
		require.Len(t, r.emulator.Record().Of(emulator.Delivered), 1)
		require.Empty(t, r.emulator.Record().Of(emulator.DeadLettered), "the dropped attempt counts for nothing")
	})
}
