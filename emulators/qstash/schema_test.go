package qstash_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/qstash"
)

// TestAnswersFitTheVendorsTypes holds the answers to what Upstash's SDK declares: nothing is missing, nothing is unknown.
func TestAnswersFitTheVendorsTypes(t *testing.T) {
	t.Parallel()
	document, err := openapi3.NewLoader().LoadFromFile("testdata/sdk_types.json")
	require.NoError(t, err)
	require.NoError(t, document.Validate(t.Context()))
	r := setup(t)
	r.dest.answersStatus(500)
	header := map[string]string{
		"Upstash-Label": "burst", "Upstash-Retries": "1", "Upstash-Retry-Delay": "1000", "Upstash-Callback": r.dest.url + "/callback",
		"Upstash-Failure-Callback": r.dest.url + "/failed", "Upstash-Forward-X-Mine": "1", "Content-Type": "text/plain",
	}
	_, published := r.rawPublish(header)
	r.run(time.Minute)
	dead, _ := r.deadLetters("")
	header["Upstash-Delay"] = "1h"
	_, waits := r.rawPublish(header)
	batch := `[{"destination":"` + r.dest.url + `/hook","headers":{"upstash-delay":"1h"},"body":"x"},{"destination":"ftp://x"}]`
	dlq := "/v2/dlq/" + dead[0]["dlqId"].(string)

	for _, call := range []struct {
		method, path, body, schema string
		status                     int
	}{
		{"POST", "/v2/publish/" + r.dest.url + "/hook?x=1", "x", "Published", 200},
		{"POST", "/v2/publish/ftp://x", "x", "Error", 400},
		{"POST", "/v2/batch", batch, "Batch", 200},
		{"GET", "/v2/keys", "", "Keys", 200},
		{"GET", "/v2/messages/" + waits["messageId"].(string), "", "Message", 200},
		{"GET", "/v2/messages/" + published["messageId"].(string), "", "Error", 404},
		{"GET", "/v2/dlq?count=1", "", "DlqPage", 200},
		{"GET", dlq, "", "DlqMessage", 200},
		{"GET", "/v2/events?count=5", "", "Events", 200},
		{"GET", "/v2/events?messageId=" + published["messageId"].(string), "", "Events", 200},
		{"POST", "/v2/dlq/retry?dlqIds=" + dead[0]["dlqId"].(string), "", "Retried", 201},
		{"POST", "/v2/dlq/retry/1-1", "", "Error", 404},
		{"DELETE", "/v2/dlq", "", "Deleted", 200},
		{"GET", "/v2/schedules", "", "Error", 501},
		{"DELETE", "/v2/messages/" + waits["messageId"].(string), "", "Cancelled", 200},
		{"DELETE", "/v2/messages?label=burst", "", "Cancelled", 200},
	} {
		request, err := http.NewRequestWithContext(t.Context(), call.method, r.url+call.path, bytes.NewBufferString(call.body))
		require.NoError(t, err)
		request.Header.Set("Authorization", "Bearer "+qstash.DevToken)
		response, err := newHTTPClient(t).Do(request)
		require.NoError(t, err)
		var answer any
		require.NoError(t, json.NewDecoder(response.Body).Decode(&answer))
		require.NoError(t, response.Body.Close())
		require.Equal(t, call.status, response.StatusCode, call.path)
		require.NoError(t, document.Components.Schemas[call.schema].Value.VisitJSON(answer), "%s %s", call.method, call.path)
	}
}
