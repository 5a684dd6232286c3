package qstash_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/qstash"
)

// waits publishes messages that wait for an hour, one for each label, and returns their ids.
func (r *rig) waits(labels ...string) (ids []string) {
	r.t.Helper()
	for _, label := range labels {
		m := r.message("")
		m.Delay, m.Label = time.Hour, label
		ids = append(ids, r.publish(m).MessageID)
	}
	return ids
}

func TestBulkCancellation(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, query string
		cancelled   int
	}{
		{"Alternatives", "?label=red,blue", 2},
		{"RepeatedAlternatives", "?label=red&label=blue", 2},
		{"AllMustMatch", "?label=red&callerIp=127.0.0.1&path=/hook", 1},
		{"NothingMatches", "?label=red&path=/other", 0},
		{"NoMoreThanTheCount", "?count=2", 2},
		{"BeforeTheyWerePublished", "?toDate=" + strconv.FormatInt(start.UnixMilli()-1, 10), 0},
		{"WithoutAFilterAll", "", 3},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			r := setup(t)
			ids := r.waits("red", "blue", "green")
			status, answer := r.raw(http.MethodDelete, "/v2/messages"+row.query, nil, "")
			require.Equal(t, 200, status)
			require.EqualValues(t, row.cancelled, answer["cancelled"])
			for i, id := range ids {
				status, _ := r.waiting(id)
				require.Equal(t, i < row.cancelled, status == 404, "the oldest are cancelled first")
			}
			r.run(2 * time.Hour)
			require.Len(t, r.dest.received(), 3-row.cancelled)
		})
	}
	t.Run("IdsLeaveFiltersBesideThemWithoutEffect", func(t *testing.T) {
		t.Parallel()
		r := setup(t)
		ids := r.waits("red", "blue")
		_, answer := r.raw(http.MethodDelete, "/v2/messages?label=red&messageIds="+ids[1], nil, "")
		require.EqualValues(t, 1, answer["cancelled"])
		require.Equal(t, 404, r.cancel(ids[1]))
	})
	t.Run("WhatIsInFlightIsOnlyRequested", func(t *testing.T) {
		t.Parallel()
		r := setup(t)
		arrived, answer := make(chan struct{}), make(chan struct{})
		r.dest.answers(func(w http.ResponseWriter, _ *http.Request) {
			close(arrived)
			<-answer
			w.WriteHeader(http.StatusBadGateway)
		})
		m := r.message("")
		m.Retries = 3
		id := r.publish(m).MessageID
		<-arrived
		r.raw(http.MethodDelete, "/v2/messages?messageIds="+id, nil, "")
		close(answer)
		r.run(time.Hour)
		require.Len(t, r.dest.received(), 1)
		require.Equal(t, []string{"CANCELED", "CANCEL_REQUESTED", "ACTIVE", "CREATED"}, r.states("messageId="+id))
	})
}

func TestRetryNow(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.dest.answersStatus(500, 200)
	m := r.message("")
	m.Delay, m.Retries = time.Hour, 1
	id := r.publish(m).MessageID
	for range 2 { // of the first attempt, and of the retry that waits
		status, _ := r.raw(http.MethodPost, "/v2/messages/"+id+"/retry", nil, "")
		require.Equal(t, 200, status)
		r.idle()
	}
	require.Equal(t, []time.Duration{0, 0}, r.attempts())
	require.Equal(t, "1", r.dest.received()[1].header.Get(qstash.HeaderRetried), "the attempt that it waited for")
	status, _ := r.raw(http.MethodPost, "/v2/messages/"+id+"/retry", nil, "")
	require.Equal(t, 404, status)
}

func TestBulkOfDeadLetters(t *testing.T) {
	t.Parallel()
	fail := func(t *testing.T, n int) *rig {
		t.Helper()
		r := setup(t)
		r.dest.answersStatus(500)
		for i := range n {
			m := r.message("")
			m.Label = fmt.Sprint("n", i%2)
			r.publish(m)
			r.idle()
		}
		return r
	}
	t.Run("DeletedInPages", func(t *testing.T) {
		t.Parallel()
		r := fail(t, 5)
		query, deleted := "count=2&label=n0", 0
		for cursor := ""; ; {
			status, answer := r.raw(http.MethodDelete, "/v2/dlq?"+query+"&cursor="+url.QueryEscape(cursor), nil, "")
			require.Equal(t, 200, status)
			deleted += int(answer["deleted"].(float64))
			next, more := answer["cursor"].(string)
			if !more {
				break
			}
			cursor = next
		}
		require.Equal(t, 3, deleted)
		left, _ := r.deadLetters("")
		require.Len(t, left, 2)
	})
	t.Run("RetriedUnderNewIdsAndRemoved", func(t *testing.T) {
		t.Parallel()
		r := fail(t, 3)
		old, _ := r.deadLetters("")
		r.dest.answersStatus(200)
		status, answer := r.raw(http.MethodPost, "/v2/dlq/retry?count=2", nil, "")
		require.Equal(t, 201, status)
		require.Len(t, answer["responses"], 2)
		require.Equal(t, old[1]["dlqId"], answer["cursor"])
		r.idle()
		require.Len(t, r.dest.received(), 5)
		for _, response := range answer["responses"].([]any) {
			require.NotEqual(t, old[0]["messageId"], response.(map[string]any)["messageId"])
		}
		left, _ := r.deadLetters("")
		require.Len(t, left, 1)
	})
	t.Run("OfIdsWithOneThatIsMissingNoneIsRetried", func(t *testing.T) {
		t.Parallel()
		r := fail(t, 1)
		dead, _ := r.deadLetters("")
		status, _ := r.raw(http.MethodPost, "/v2/dlq/retry?dlqIds="+dead[0]["dlqId"].(string)+",1-77", nil, "")
		require.Equal(t, 404, status)
		left, _ := r.deadLetters("")
		require.Len(t, left, 1)
	})
}

// states lists the states of the logs that a query finds.
func (r *rig) states(query string) (states []string) {
	r.t.Helper()
	_, page := r.raw(http.MethodGet, "/v2/events?"+query, nil, "")
	for _, log := range page["events"].([]any) {
		states = append(states, log.(map[string]any)["state"].(string))
	}
	return states
}

func TestLogs(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.dest.answersStatus(500, 200)
	m := r.message("")
	m.Retries, m.RetryDelay, m.Label = 1, "1000", "burst"
	id := r.publish(m).MessageID
	r.run(time.Minute)
	r.waits("other")
	life := []string{"DELIVERED", "ACTIVE", "RETRY", "ERROR", "ACTIVE", "CREATED"}
	require.Equal(t, life, r.states("messageId="+id))
	require.Equal(t, life, r.states("label=burst"))
	require.Equal(t, []string{"ACTIVE", "RETRY", "ERROR", "ACTIVE"}, r.states("label=burst&state=IN_PROGRESS"))
	require.Equal(t, append([]string{"CREATED"}, life...), r.states("path=/hook"))

	_, page := r.raw(http.MethodGet, "/v2/logs?state=ERROR", nil, "")
	log := page["logs"].([]any)[0].(map[string]any)
	require.Equal(t, []any{float64(start.UnixMilli()), 500., m.Destination}, []any{log["time"], log["responseStatus"], log["url"]})

	var seen []string
	for cursor := ""; ; {
		query := "/v2/events?label=burst&count=1"
		if cursor != "" {
			query += "&cursor=" + cursor
		}
		_, page := r.raw(http.MethodGet, query, nil, "")
		seen = append(seen, page["events"].([]any)[0].(map[string]any)["state"].(string))
		next, more := page["cursor"].(string)
		if !more {
			break
		}
		cursor = next
	}
	require.Equal(t, life, seen, "a page of one after the other")
}

// TestWhatIsNotPlayedIsRefused names it in every error, and takes nothing in.
func TestWhatIsNotPlayedIsRefused(t *testing.T) {
	t.Parallel()
	r := setup(t)
	publish := "/v2/publish/" + r.dest.url + "/hook"
	for _, row := range []struct {
		method, path string
		header       map[string]string
		body, names  string
	}{
		{"POST", publish, map[string]string{"Upstash-Flow-Control-Key": "k"}, "", "flow control"},
		{"POST", publish + "?upstash-flow-control-key=k", nil, "", "flow control"},
		{"POST", publish, map[string]string{"Upstash-Label": "a,b"}, "", "several labels"},
		{"POST", publish, map[string]string{"Upstash-Redact-Fields": "body"}, "", "Upstash-Redact-Fields"},
		{"POST", publish, map[string]string{"Upstash-Header-Forward": "true"}, "", "Upstash-Header-Forward"},
		{"POST", publish, map[string]string{"Upstash-Callback-Label": "x"}, "", "Upstash-Callback-Label"},
		{"POST", publish, map[string]string{"Upstash-Something-New": "x"}, "", "Upstash-Something-New"},
		{"POST", "/v2/publish/group", nil, "", "URL groups"},
		{"POST", "/v2/publish/api/llm", nil, "", "api/llm"},
		{"POST", "/v2/enqueue/q/" + r.dest.url, nil, "", "queues"},
		{"POST", "/v2/schedules/" + r.dest.url, nil, "", "schedules"},
		{"GET", "/v2/topics", nil, "", "URL groups"},
		{"GET", "/v2/globalParallelism", nil, "", "flow control"},
		{"GET", "/v2/dlq?queueName=q", nil, "", "the filter queueName"},
		{"GET", "/v2/events?order=asc", nil, "", "the filter order"},
		{"DELETE", "/v2/messages?flowControlKey=k", nil, "", "the filter flowControlKey"},
		{"DELETE", "/v2/messages", nil, `{"messageIds":["m"]}`, "a body"},
		{"POST", "/v2/dlq/retry", map[string]string{"Upstash-Retries": "0"}, "", "Upstash-Retries"},
	} {
		status, answer := r.raw(row.method, row.path, row.header, row.body)
		require.Equal(t, 501, status, row.path)
		require.Contains(t, answer["error"], "this emulator does not play "+row.names)
	}
	r.idle()
	require.Empty(t, r.dest.received())
}
