package qstash

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric/noop"

	"paceline.internal/gateway/route"
	"paceline.internal/platform/config"
	"paceline.internal/platform/qstash"
)

const (
	origin     = "https://paceline.example"
	currentKey = "sig_current_7kYjw48mhY7kAjqNGcy6cr29"
	aStep      = `{"profile_id":"p","session_id":"s","step_id":"onboarding_message_2","expected_state_token":"t","idempotency_key":"k"}`
)

func noon() time.Time { return time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC) }

// newAlarms returns alarms without services behind them, and their log.
func newAlarms(t *testing.T) (*Alarms, *bytes.Buffer) {
	t.Helper()
	public, err := config.ParseOrigin(origin)
	require.NoError(t, err)
	log := new(bytes.Buffer)
	a, err := New(Config{
		CurrentKey: config.NewSecret(currentKey), NextKey: config.NewSecret("sig_next_5ZB6DVzB1wjE8S6rZ7eenA8Pdnh"), Origin: public,
		Meter: noop.NewMeterProvider().Meter(""), Now: noon, Log: slog.New(slog.NewJSONHandler(log, nil)),
	})
	require.NoError(t, err)
	return a, log
}

// posts gives a route a request that is signed for the body signed, and has the body sent.
func posts(t *testing.T, a *Alarms, path, signed string, sent io.Reader, header map[string]string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(signed))
	if sent != nil {
		r.Body = io.NopCloser(sent)
	}
	signature, err := qstash.Sign(currentKey, origin+path, []byte(signed), noon())
	require.NoError(t, err)
	r.Header.Set(qstash.HeaderSignature, signature)
	r.Header.Set(qstash.HeaderMessageID, "msg_1")
	for name, value := range header {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	route.Observe(a.Log, noon, nil, a.Routes()[path]).ServeHTTP(w, r)
	return w
}

func requireNeverRetried(t *testing.T, answer *httptest.ResponseRecorder) {
	t.Helper()
	require.Equal(t, qstash.StatusNonRetryable, answer.Code)
	require.Equal(t, "true", answer.Header().Get(qstash.HeaderNonRetryable))
}

func TestBodies(t *testing.T) {
	t.Parallel()

	t.Run("S1_20_S1_21_TheVerifierIsNeverCalledForAnOversizedBody", func(t *testing.T) {
		t.Parallel()
		a, _ := newAlarms(t)
		a.verifier = nil // a call would panic
		large := aStep + strings.Repeat(" ", route.MaxBody)
		requireNeverRetried(t, posts(t, a, PathStep, large, nil, nil))
		requireNeverRetried(t, posts(t, a, PathStep, large, io.MultiReader(strings.NewReader(large)), nil))
		require.Equal(t, http.StatusInternalServerError, posts(t, a, PathStep, aStep, nil, nil).Code, "it panics for one that is not")
	})

	for name, body := range map[string]io.Reader{
		"BodyThatBreaksOff":     io.MultiReader(strings.NewReader(aStep[:40]), iotest.ErrReader(io.ErrUnexpectedEOF)),
		"BodyThatTimesOut":      iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader(aStep))),
		"BodyThatWasClosed":     iotest.ErrReader(http.ErrBodyReadAfterClose),
		"BodyThatWasReadBefore": bytes.NewReader(nil),
	} {
		t.Run("S1_22_"+name+"IsNeverRetried", func(t *testing.T) {
			t.Parallel()
			a, _ := newAlarms(t)
			answer := posts(t, a, PathStep, aStep, body, nil)
			requireNeverRetried(t, answer)
			require.Contains(t, answer.Body.String(), "the body did not arrive whole")
		})
	}

	t.Run("S1_22_FailureCallbackThatBreaksOffIsLoggedAsLost", func(t *testing.T) {
		t.Parallel()
		a, log := newAlarms(t)
		requireNeverRetried(t, posts(t, a, PathStepFailed, aStep, iotest.ErrReader(io.ErrUnexpectedEOF), nil))
		require.Equal(t, 1, strings.Count(log.String(), `"onboarding.step_failure_not_recorded"`), "nothing brings it again")
		require.Contains(t, log.String(), `"qstash_message_id":"msg_1"`)
	})
}

func TestAPanicInTheLastAttemptIsLogged(t *testing.T) {
	t.Parallel()
	t.Run("S1_17", func(t *testing.T) {
		t.Parallel()
		a, log := newAlarms(t) // without a service the call panics
		last := map[string]string{qstash.HeaderRetried: "5", qstash.HeaderMaxRetries: "5"}
		require.Equal(t, http.StatusInternalServerError, posts(t, a, PathStep, aStep, nil, last).Code)
		require.Equal(t, 1, strings.Count(log.String(), `"onboarding.step_failed_finally"`))
		require.Equal(t, 1, strings.Count(log.String(), `"http.request"`))
	})
}

func TestAlarmsWaitInTheOrderOfTheirDueTimes(t *testing.T) {
	t.Parallel()
	a, _ := newAlarms(t)
	for header, want := range map[string]time.Time{
		"2026-03-04T11:00:00Z": noon().Add(-time.Hour), "": noon(), "yesterday": noon(),
	} {
		d := readDelivery(http.Header{})
		d.verified(http.Header{http.CanonicalHeaderKey(qstash.HeaderDue): {header}})
		for _, c := range []route.Callback[*delivery]{a.step(), a.stepFailed(), a.goal(), a.goalFailed()} {
			require.Equal(t, want, c.Due(d), header)
			require.Same(t, a.limiter, c.Limiter)
		}
	}
}
