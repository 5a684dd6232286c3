package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// unsent is a body that must not be waited for.
type unsent struct{}

func (unsent) Read([]byte) (int, error) { panic("the body was read") }

// callbacks are one genuine request to each route of QStash and Twilio, and the RPC that it becomes.
func callbacks() map[string]struct {
	rpc     string
	request goldenRequest
} {
	form := map[string][]string{
		"MessageSid": {"SM1"}, "From": {phone}, "To": {"+551130000000"}, "Body": {"hello there"}, "MessageStatus": {"sent"},
	}
	return map[string]struct {
		rpc     string
		request goldenRequest
	}{
		pathInbound: {"OnboardingService/ReceiveMessage", goldenRequest{Path: pathInbound, Sign: "twilio current", Form: form}},
		pathStatus:  {"MessagingService/RecordStatus", goldenRequest{Path: pathStatus, Sign: "twilio current", Form: form}},
		pathStep: {"OnboardingService/ExecuteStep", goldenRequest{
			Path: pathStep, Sign: "qstash current", Headers: headers("0", "5"), Body: aStep,
		}},
		pathStepFailed: {"OnboardingService/RecordStepFailure", goldenRequest{
			Path: pathStepFailed, Sign: "qstash current", Headers: headers("0", "5"), Body: aFailure,
		}},
	}
}

func TestCallbacks(t *testing.T) {
	t.Parallel()
	// post is a genuine callback.
	post := func(t *testing.T, b *bench, path string) *httptest.ResponseRecorder {
		t.Helper()
		request := callbacks()[path].request
		request.Method = http.MethodPost
		answer := httptest.NewRecorder()
		b.handler.ServeHTTP(answer, request.build(t, b.url))
		return answer
	}
	// fill occupies every place of the vendor whose route this is, the last of them by a callback, and returns how to leave them.
	fill := func(t *testing.T, b *bench, path string) (leave func()) {
		t.Helper()
		places := b.gateway.ofTwilio
		if strings.HasPrefix(path, pathStep) {
			places = b.gateway.ofQStash
		}
		occupy(t, places, places.free-1)
		places.room = 0
		begun, end := make(chan struct{}), make(chan struct{})
		b.services.on(callbacks()[path].rpc, func(context.Context) (json.RawMessage, error) {
			close(begun)
			<-end
			return json.RawMessage(`{}`), nil
		})
		var working sync.WaitGroup
		working.Go(func() { post(t, b, path) })
		<-begun
		return sync.OnceFunc(func() {
			b.services.on(callbacks()[path].rpc, nil)
			close(end)
			working.Wait()
			require.Equal(t, 1, places.free, "it gave its place back")
		})
	}
	for _, tc := range []struct{ name, full, same, other string }{
		{name: "AlarmsAreRefusedAndMessagesAreNot", full: pathStep, same: pathStepFailed, other: pathInbound},
		{name: "FailureCallbacksAreRefusedAndReceiptsAreNot", full: pathStepFailed, same: pathStep, other: pathStatus},
		{name: "MessagesAreRefusedAndAlarmsAreNot", full: pathInbound, same: pathStatus, other: pathStepFailed},
		{name: "ReceiptsAreRefusedAndFailureCallbacksAreNot", full: pathStatus, same: pathInbound, other: pathStepFailed},
	} {
		t.Run("S1_33_"+tc.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			leave := fill(t, b, tc.full)
			defer leave()
			asked := len(b.services.seen())
			for _, path := range []string{tc.full, tc.same} {
				answer := post(t, b, path)
				require.Equal(t, http.StatusTooManyRequests, answer.Code)
				require.Equal(t, "2", answer.Header().Get("Retry-After"))
				require.Contains(t, answer.Body.String(), reasonFull)
			}
			require.Len(t, b.services.seen(), asked)
			require.Equal(t, http.StatusOK, post(t, b, tc.other).Code)
			leave()
			require.NotEqual(t, http.StatusTooManyRequests, post(t, b, tc.full).Code, "there is a place again")
		})
	}

	t.Run("AGoalsAlarmThatFindsNoPlaceIsTriedAgainByItsOwnBackoff", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		occupy(t, b.gateway.ofQStash, maxAlarms)
		b.gateway.ofQStash.room = 0
		alarm := goldenRequest{
			Method: http.MethodPost, Path: pathGoal, Sign: "qstash current", Headers: headers("0", "5"),
			Body: `{"goal_id":"01900000-0000-7000-8000-0000000000f1"}`,
		}
		answer := httptest.NewRecorder()
		b.handler.ServeHTTP(answer, alarm.build(t, b.url))
		require.Equal(t, http.StatusTooManyRequests, answer.Code)
		require.Empty(t, answer.Header().Get("Retry-After"))
		require.NotContains(t, answer.Body.String(), "retry_delay")
	})

	for path, forged := range map[string]goldenRequest{
		pathInbound: {Path: pathInbound, Sign: "twilio forged", Form: map[string][]string{"Body": {"x"}}},
		pathStep:    {Path: pathStep, Sign: "qstash forged", Headers: headers("0", "5"), Body: aStep},
	} {
		t.Run("R_15_NoCallerTakesAPlaceWithoutASignature"+strings.ReplaceAll(path, "/", "_"), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			leave := fill(t, b, path)
			defer leave()
			forged.Method = http.MethodPost
			answer := httptest.NewRecorder()
			b.handler.ServeHTTP(answer, forged.build(t, b.url))
			require.Contains(t, []int{http.StatusUnauthorized, http.StatusForbidden}, answer.Code, "its signature is looked at first")
		})
	}

	for path, want := range map[string]int{
		pathStep: http.StatusUnauthorized, pathStepFailed: http.StatusUnauthorized, pathInbound: http.StatusForbidden, pathStatus: http.StatusForbidden,
	} {
		t.Run("S1_33_WhatHasNoSignatureIsRefusedWithoutWaitingForItsBody"+strings.ReplaceAll(path, "/", "_"), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			answer := httptest.NewRecorder()
			b.handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, unsent{}))
			require.Equal(t, want, answer.Code)
		})
	}

	t.Run("S1_33_AHandlerThatPanicsReleasesItsPlace", func(t *testing.T) {
		t.Parallel()
		places := newPlaces(1, 0)
		cfg := mustConfig(t)
		signatures, err := newTwilioSignatures(cfg.TwilioAuthToken)
		require.NoError(t, err)
		c := carrier{places: places, signatures: signatures, origin: cfg.PublicBaseURL} // its services are nil
		request := callbacks()[pathInbound].request
		request.Method = http.MethodPost
		for range 2 {
			require.Panics(t, func() { c.inbound().serve(httptest.NewRecorder(), request.build(t, origin)) })
			require.Equal(t, 1, places.free)
		}
	})
}

// What cannot be stored is refused: the gateway can pass a callback to the service behind it and do nothing else,
// so the vendor sends it again.
func TestStoreThatIsDown(t *testing.T) {
	t.Parallel()
	form := map[string][]string{
		"MessageSid": {"SM1"}, "From": {phone}, "To": {"+551130000000"}, "Body": {"hello there"}, "MessageStatus": {"sent"},
	}
	for _, tc := range []struct {
		name, rpc string
		request   goldenRequest
	}{
		{name: "Message", rpc: "OnboardingService/ReceiveMessage", request: goldenRequest{Path: pathInbound, Sign: "twilio current", Form: form}},
		{name: "Receipt", rpc: "MessagingService/RecordStatus", request: goldenRequest{Path: pathStatus, Sign: "twilio current", Form: form}},
		{name: "Step", rpc: "OnboardingService/ExecuteStep", request: goldenRequest{Path: pathStep, Sign: "qstash current", Headers: headers("0", "5"), Body: aStep}},
		{name: "StepFailure", rpc: "OnboardingService/RecordStepFailure", request: goldenRequest{Path: pathStepFailed, Sign: "qstash current", Headers: headers("0", "5"), Body: aFailure}},
	} {
		t.Run("S1_30_S1_34_"+tc.name+"Is503AndNothingIsDoneInItsPlace", func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.services.on(tc.rpc, reply{Code: "UNAVAILABLE", Reason: "REASON_UNAVAILABLE", Message: "the database is down"}.give)
			response := b.deliver(t, tc.request)
			require.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
			if strings.HasPrefix(tc.request.Sign, "qstash") { // Twilio has a schedule of its own
				require.Equal(t, "2", response.Header.Get("Retry-After"))
			}
			for _, call := range b.services.seen() {
				require.Equal(t, tc.rpc, call.Method)
			}
			require.NotEmpty(t, b.services.seen())
			b.checkPrivacy(t)
		})
	}
}
