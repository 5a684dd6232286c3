package gateway

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"

	callback "paceline.internal/gateway/qstash"
	"paceline.internal/gateway/route"
	"paceline.internal/platform/qstash"
)

const (
	aStep = `{"profile_id":"01900000-0000-7000-8000-000000000001","session_id":"01900000-0000-7000-8000-0000000000b1",` +
		`"step_id":"onboarding_message_2","expected_state_token":"onboarding:awaiting_burst","idempotency_key":"k"}`
	aFailure = `{"status":503,"retried":2,"maxRetries":2,"sourceMessageId":"msg_source","dlqId":"1-0","sourceBody":"bm90IGEgc3RlcA=="}`
	aHash    = "0123456789abcdef"
)

// deliver sends one request and waits until it is over, its log line included.
func (b *bench) deliver(t *testing.T, r goldenRequest) *http.Response {
	t.Helper()
	r.Method = http.MethodPost
	response, err := http.DefaultClient.Do(r.build(t, b.url))
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, response.Body)
	require.NoError(t, errors.Join(err, response.Body.Close()))
	b.stop()
	return response
}

// said are the attributes of the span of a route.
func (b *bench) said(path string) map[attribute.Key]attribute.Value {
	found := map[attribute.Key]attribute.Value{}
	for _, span := range b.spans.GetSpans() {
		if span.Name == "POST "+path {
			for _, a := range span.Attributes {
				found[a.Key] = a.Value
			}
		}
	}
	return found
}

// lines are the log lines with a message.
func (b *bench) lines(t *testing.T, message string) []map[string]any {
	t.Helper()
	var found []map[string]any
	for text := range strings.Lines(b.log.String()) {
		var line map[string]any
		require.NoError(t, json.Unmarshal([]byte(text), &line))
		if line["msg"] == message {
			found = append(found, line)
		}
	}
	return found
}

// headers returns those of a delivery of our publisher.
func headers(retried, maxRetries string) map[string]string {
	return map[string]string{
		qstash.HeaderMessageID: "msg_1", qstash.HeaderRetried: retried,
		qstash.HeaderMaxRetries: maxRetries, qstash.HeaderDedupHash: aHash,
	}
}

func TestSpanOfADelivery(t *testing.T) {
	t.Parallel()
	var (
		sent    = reply{Response: `{"outcome":"STEP_OUTCOME_SENT"}`}
		skipped = func(reason string) reply {
			return reply{Response: `{"outcome":"STEP_OUTCOME_SKIPPED","skip_reason":"` + reason + `"}`}
		}
		busy     = reply{Code: "UNAVAILABLE", Reason: "REASON_UNAVAILABLE"}
		mismatch = reply{Code: "INVALID_ARGUMENT", Reason: "REASON_KEY_MISMATCH"}
	)
	type said struct {
		Attempt, MaxRetries   int64
		Final, DLQ, Duplicate bool
		Dedup                 string
	}
	for _, tc := range []struct {
		name   string
		header map[string]string
		sign   string // qstash current, unless it is given
		path   string // callback.PathStep, unless it is given
		answer reply
		want   said
	}{
		{name: "S0_04_S1_12_S1_13_S1_14_S1_15_S1_16_First", header: headers("0", "5"), answer: sent, want: said{Attempt: 1, MaxRetries: 5, Dedup: aHash}},
		{name: "S1_14_LastButOne", header: headers("4", "5"), answer: busy, want: said{Attempt: 5, MaxRetries: 5, Dedup: aHash}},
		{name: "S1_14_Last", header: headers("5", "5"), answer: busy, want: said{Attempt: 6, MaxRetries: 5, Final: true, Dedup: aHash}},
		{name: "S1_14_LastThatSucceeds", header: headers("5", "5"), answer: sent, want: said{Attempt: 6, MaxRetries: 5, Final: true, Dedup: aHash}},
		{name: "S1_14_OnlyOne", header: headers("0", "0"), answer: sent, want: said{Attempt: 1, Final: true, Dedup: aHash}},
		{name: "S1_13_WithoutOurHeadersThePolicyIsAssumed", header: map[string]string{qstash.HeaderMessageID: "msg_1", qstash.HeaderRetried: "5"}, answer: sent, want: said{Attempt: 6, MaxRetries: 5, Final: true}},
		{name: "S1_13_RetriesThatAreNoNumber", header: headers("1", "many"), answer: sent, want: said{Attempt: 2, MaxRetries: 5, Dedup: aHash}},
		{name: "S1_13_NegativeRetries", header: headers("1", "-1"), answer: sent, want: said{Attempt: 2, MaxRetries: 5, Dedup: aHash}},
		{name: "S1_16_AHashThatIsNone", header: map[string]string{qstash.HeaderMessageID: "msg_1", qstash.HeaderDedupHash: "onboarding-s1-ab"}, answer: sent, want: said{Attempt: 1, MaxRetries: 5}},
		{name: "S1_16_AHashThatIsTooLong", header: map[string]string{qstash.HeaderMessageID: "msg_1", qstash.HeaderDedupHash: aHash + "0"}, answer: sent, want: said{Attempt: 1, MaxRetries: 5}},
		{name: "S0_11_S1_15_NeverRetried", header: headers("0", "5"), answer: mismatch, want: said{Attempt: 1, MaxRetries: 5, DLQ: true, Dedup: aHash}},
		{name: "S0_09_S1_14_ForgedIsNeverFinal", header: headers("5", "5"), sign: "qstash forged", want: said{Attempt: 6}},
		{name: "AlreadySentIsADuplicate", header: headers("0", "5"), answer: skipped("already_sent"), want: said{Attempt: 1, MaxRetries: 5, Duplicate: true, Dedup: aHash}},
		{name: "StaleIsADuplicate", header: headers("0", "5"), answer: skipped("stale"), want: said{Attempt: 1, MaxRetries: 5, Duplicate: true, Dedup: aHash}},
		{name: "PausedIsNone", header: headers("0", "5"), answer: skipped("paused"), want: said{Attempt: 1, MaxRetries: 5, Dedup: aHash}},
		{name: "FailureCallback", path: callback.PathStepFailed, header: headers("1", "5"), want: said{Attempt: 2, MaxRetries: 5, Dedup: aHash}},
		{name: "S1_27_RepeatedFailureCallback", path: callback.PathStepFailed, header: headers("1", "5"), answer: reply{Response: `{"duplicate":true}`}, want: said{Attempt: 2, MaxRetries: 5, Duplicate: true, Dedup: aHash}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := goldenRequest{Path: callback.PathStep, Sign: "qstash current", Headers: tc.header, Body: aStep}
			if tc.path != "" {
				r.Path, r.Body = tc.path, aFailure
			}
			if tc.sign != "" {
				r.Sign = tc.sign
			}
			b := setup(t)
			b.services.on("OnboardingService/ExecuteStep", tc.answer.give)
			if tc.answer != (reply{}) {
				b.services.on("OnboardingService/RecordStepFailure", tc.answer.give)
			}
			b.deliver(t, r)
			got := b.said(r.Path)
			require.Equal(t, tc.want, said{
				Attempt: got["qstash.attempt"].AsInt64(), MaxRetries: got["qstash.max_retries"].AsInt64(),
				Final: got["qstash.final_attempt"].AsBool(), DLQ: got["qstash.dlq"].AsBool(), Duplicate: got["qstash.duplicate"].AsBool(),
				Dedup: got["qstash.dedup_id"].AsString(),
			})
			require.Equal(t, "msg_1", got["qstash.message_id"].AsString())
			require.Equal(t, r.Path, got["http.route"].AsString())
		})
	}
}

func TestTraceOfADelivery(t *testing.T) {
	t.Parallel()
	const published = "0123456789abcdef0123456789abcdef"
	for _, tc := range []struct {
		name, sign string
		want       bool
	}{
		{name: "R_21_AGenuineStepJoinsItsConversation", sign: "qstash current", want: true},
		{name: "R_21_AForgedStepJoinsNoTraceOfItsCallers", sign: "qstash forged"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			header := headers("0", "5")
			header["Traceparent"] = "00-" + published + "-0123456789abcdef-01"
			b.deliver(t, goldenRequest{Path: callback.PathStep, Sign: tc.sign, Headers: header, Body: aStep})
			b.stop()
			joined := false
			for _, span := range b.spans.GetSpans() {
				joined = joined || span.SpanContext.TraceID().String() == published
			}
			require.Equal(t, tc.want, joined)
		})
	}
}

func TestFinalFailure(t *testing.T) {
	t.Parallel()
	const stepEvent, callbackEvent = "onboarding.step_failed_finally", "onboarding.step_failure_not_recorded"
	busy := reply{Code: "UNAVAILABLE", Reason: "REASON_UNAVAILABLE"}
	sent := reply{Response: `{"outcome":"STEP_OUTCOME_SENT"}`}
	for _, tc := range []struct {
		name    string
		request goldenRequest
		answer  reply
		want    map[string]any // nil for no line
	}{
		{
			name:    "LastAttemptThatFails",
			request: goldenRequest{Headers: headers("5", "5"), Body: aStep}, answer: busy,
			want: map[string]any{"status": 503.0, "reason": "REASON_UNAVAILABLE", "attempt": 6.0, "max_retries": 5.0, "dedup_id": aHash, "verified": true},
		},
		{
			name:    "LastAttemptThatFailsInside",
			request: goldenRequest{Headers: headers("0", "0"), Body: aStep}, answer: reply{Code: "INTERNAL"},
			want: map[string]any{"status": 500.0, "reason": "REASON_INTERNAL", "attempt": 1.0, "max_retries": 0.0, "dedup_id": aHash, "verified": true},
		},
		{
			name:    "FirstAttemptThatIsForbiddenToRetry",
			request: goldenRequest{Headers: headers("0", "5"), Body: aStep}, answer: reply{Code: "FAILED_PRECONDITION", Reason: "REASON_UNDELIVERABLE"},
			want: map[string]any{"status": 489.0, "reason": "REASON_UNDELIVERABLE", "attempt": 1.0, "max_retries": 5.0, "dedup_id": aHash, "verified": true},
		},
		{
			name:    "MalformedPayload",
			request: goldenRequest{Headers: headers("0", "5"), Body: `{}`},
			want:    map[string]any{"status": 489.0, "reason": "REASON_INVALID", "attempt": 1.0, "max_retries": 5.0, "dedup_id": aHash, "verified": true, "session_id": "", "step_id": ""},
		},
		{
			name:    "OversizedBodyIsMarkedAsNotVerified",
			request: goldenRequest{Headers: headers("0", "5"), Body: aStep, Size: route.MaxBody + 1},
			want:    map[string]any{"status": 489.0, "reason": "REASON_TOO_LARGE", "attempt": 1.0, "max_retries": 5.0, "dedup_id": "", "verified": false, "session_id": "", "step_id": ""},
		},
		{name: "NoneForAnAttemptThatIsNotTheLast", request: goldenRequest{Headers: headers("4", "5"), Body: aStep}, answer: busy},
		{name: "NoneForALastAttemptThatSucceeds", request: goldenRequest{Headers: headers("5", "5"), Body: aStep}, answer: sent},
		{name: "NoneForAForgedLastAttempt", request: goldenRequest{Headers: headers("5", "5"), Body: aStep, Sign: "qstash forged"}},
	} {
		t.Run("S1_17_"+tc.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.services.on("OnboardingService/ExecuteStep", tc.answer.give)
			tc.request.Path = callback.PathStep
			if tc.request.Sign == "" {
				tc.request.Sign = "qstash current"
			}
			b.deliver(t, tc.request)
			require.Empty(t, b.lines(t, callbackEvent))
			got := b.lines(t, stepEvent)
			if tc.want == nil {
				require.Empty(t, got)
				return
			}
			require.Len(t, got, 1)
			want := map[string]any{
				"level": "ERROR", "msg": stepEvent, "qstash_message_id": "msg_1",
				"session_id": "01900000-0000-7000-8000-0000000000b1", "step_id": "onboarding_message_2",
			}
			maps.Copy(want, tc.want)
			for _, name := range []string{"time", "service", "trace_id", "request_id"} {
				delete(got[0], name)
			}
			require.Equal(t, want, got[0])
		})
	}

	t.Run("S1_17_ACallbackThatIsLostForGoodIsAnEventOfItsOwn", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.services.on("OnboardingService/RecordStepFailure", busy.give)
		b.deliver(t, goldenRequest{Path: callback.PathStepFailed, Sign: "qstash current", Headers: headers("5", "5"), Body: aFailure})
		require.Len(t, b.lines(t, callbackEvent), 1)
		require.Empty(t, b.lines(t, stepEvent))
	})
}

func TestSignatureIsNotLogged(t *testing.T) {
	t.Parallel()
	valid, err := qstash.Sign("sig_of_another_account", origin+callback.PathStep, []byte(aStep), noon())
	require.NoError(t, err)
	for name, signature := range map[string]string{
		"Forged": valid, "NoToken": "0123456789abcdef0123456789abcdef", "OtherMethod": "eyJhbGciOiJub25lIn0.e30.c2lnbmF0dXJlLXRoYXQtaXMtbm9uZQ",
	} {
		t.Run("S1_23_"+name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			header := headers("0", "5")
			header[qstash.HeaderSignature] = signature
			response := b.deliver(t, goldenRequest{Path: callback.PathStep, Headers: header, Body: aStep})
			require.Equal(t, http.StatusUnauthorized, response.StatusCode)
			said := b.log.String()
			for part := range strings.SplitSeq(signature, ".") {
				if len(part) > 8 {
					require.NotContains(t, said, part)
				}
			}
			sum := sha256.Sum256([]byte(signature))
			mark := hex.EncodeToString(sum[:])
			require.Equal(t, mark[:8], b.lines(t, "http.request")[0]["signature_sha256"])
			require.NotContains(t, said, mark[:9])
		})
	}

	t.Run("S1_23_AMissingOneHasNoMark", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.deliver(t, goldenRequest{Path: callback.PathStep, Headers: headers("0", "5"), Body: aStep})
		require.NotContains(t, b.log.String(), "signature_sha256")
	})
}

func TestAStrangersWordsAreCutShort(t *testing.T) {
	t.Parallel()
	algorithm := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"` + strings.Repeat("c", 5_000) + `"}`))
	for _, request := range []struct {
		method, path string
		header       map[string]string
	}{
		{method: strings.Repeat("A", 20_000), path: callback.PathStep},
		{method: http.MethodPost, path: callback.PathStep, header: map[string]string{"Upstash-Message-Id": strings.Repeat("b", 20_000)}},
		{method: http.MethodPost, path: callback.PathStep, header: map[string]string{"Upstash-Signature": algorithm + ".e30.x"}},
	} {
		b := setup(t)
		r, err := http.NewRequestWithContext(t.Context(), request.method, b.url+request.path, strings.NewReader("x"))
		require.NoError(t, err)
		for name, value := range request.header {
			r.Header.Set(name, value)
		}
		response, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		b.stop()
		require.Less(t, len(b.log.String()), 1_000)
	}
}
