package gateway

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/qstash"
)

// slowBody is one that says when somebody begins to read it, and ends when it is told to.
type slowBody struct {
	begun chan<- struct{}
	end   <-chan struct{}
}

func (b slowBody) Read([]byte) (int, error) {
	b.begun <- struct{}{}
	<-b.end
	return 0, io.EOF
}

// claimed is a request that says to be of either vendor's. Whether it is comes out when it has been read.
func claimed(r *http.Request) *http.Request {
	r.Header.Set(qstash.HeaderSignature, "forged")
	r.Header.Set(headerTwilioSignature, "forged")
	return r
}

func TestIntake(t *testing.T) {
	t.Parallel()
	// fill occupies every place of the vendor whose route this is, and returns how to leave them.
	fill := func(t *testing.T, b *bench, path string) (leave func()) {
		t.Helper()
		begun, end := make(chan struct{}), make(chan struct{})
		var working sync.WaitGroup
		for range maxCallbacks {
			request := claimed(httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, slowBody{begun, end}))
			working.Go(func() { b.handler.ServeHTTP(httptest.NewRecorder(), request) })
		}
		for range maxCallbacks {
			<-begun
		}
		return sync.OnceFunc(func() {
			close(end)
			working.Wait()
		})
	}
	// knock posts to a route with a body that must not be read while there is no place.
	knock := func(t *testing.T, b *bench, path string) *httptest.ResponseRecorder {
		t.Helper()
		answer := httptest.NewRecorder()
		b.handler.ServeHTTP(answer, claimed(httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader("x"))))
		return answer
	}
	for _, tc := range []struct{ name, full, same, other string }{
		{name: "AlarmsAreTurnedAwayAndTextsAreNot", full: pathStep, same: pathStepFailed, other: pathInbound},
		{name: "FailureCallbacksAreTurnedAwayAndReceiptsAreNot", full: pathStepFailed, same: pathStep, other: pathStatus},
		{name: "TextsAreTurnedAwayAndAlarmsAreNot", full: pathInbound, same: pathStatus, other: pathStep},
		{name: "ReceiptsAreTurnedAwayAndFailureCallbacksAreNot", full: pathStatus, same: pathInbound, other: pathStepFailed},
	} {
		t.Run("S1_33_"+tc.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			leave := fill(t, b, tc.full)
			defer leave()
			for _, path := range []string{tc.full, tc.same} {
				answer := knock(t, b, path)
				require.Equal(t, http.StatusTooManyRequests, answer.Code)
				require.Equal(t, "2", answer.Header().Get("Retry-After"))
				require.Contains(t, answer.Body.String(), reasonFull)
			}
			require.NotEqual(t, http.StatusTooManyRequests, knock(t, b, tc.other).Code)
			leave()
			require.NotEqual(t, http.StatusTooManyRequests, knock(t, b, tc.full).Code, "every place was given back")
			require.Empty(t, b.services.seen())
		})
	}

	for path, want := range map[string]int{
		pathStep: http.StatusUnauthorized, pathStepFailed: http.StatusUnauthorized, pathInbound: http.StatusForbidden, pathStatus: http.StatusForbidden,
	} {
		t.Run("S1_33_WhatHasNoSignatureIsRefusedWithoutWaitingForItsBody"+strings.ReplaceAll(path, "/", "_"), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			leave := fill(t, b, path)
			defer leave()
			answer := httptest.NewRecorder()
			b.handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, slowBody{}))
			require.Equal(t, want, answer.Code, "also when every place is taken")
		})
	}

	t.Run("S1_33_AHandlerThatPanicsGivesItsPlaceBack", func(t *testing.T) {
		t.Parallel()
		in := make(intake, 1)
		panics := in.bounded(has(qstash.HeaderSignature), maxBody, func(http.ResponseWriter, *http.Request) { panic("boom") })
		for range 2 {
			require.PanicsWithValue(t, "boom", func() {
				panics(httptest.NewRecorder(), claimed(httptest.NewRequestWithContext(t.Context(), http.MethodPost, pathStep, nil)))
			})
		}
	})
}

// What cannot be stored is not taken: the gateway has no other way of dealing with a callback than the service behind it,
// so nothing is done in its place, and the vendor brings it again.
func TestStoreThatIsDown(t *testing.T) {
	t.Parallel()
	form := map[string][]string{
		"MessageSid": {"SM1"}, "From": {phone}, "To": {"+551130000000"}, "Body": {"hello there"}, "MessageStatus": {"sent"},
	}
	for _, tc := range []struct {
		name, rpc string
		request   goldenRequest
	}{
		{name: "Text", rpc: "OnboardingService/ReceiveMessage", request: goldenRequest{Path: pathInbound, Sign: "twilio current", Form: form}},
		{name: "Receipt", rpc: "MessagingService/RecordStatus", request: goldenRequest{Path: pathStatus, Sign: "twilio current", Form: form}},
		{name: "Step", rpc: "OnboardingService/ExecuteStep", request: goldenRequest{Path: pathStep, Sign: "qstash current", Headers: headers("0", "5"), Body: aStep}},
		{name: "StepFailure", rpc: "OnboardingService/RecordStepFailure", request: goldenRequest{Path: pathStepFailed, Sign: "qstash current", Headers: headers("0", "5"), Body: aFailure}},
	} {
		t.Run("S1_30_S1_34_"+tc.name+"Is503AndNothingIsDoneInItsPlace", func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.services.on(tc.rpc, reply{Code: "UNAVAILABLE", Reason: "REASON_UNAVAILABLE", Message: "the database is down"}.give)
			response := b.ring(t, tc.request)
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
