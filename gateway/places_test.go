package gateway

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"paceline.internal/platform/qstash"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// occupy takes so many places, which are free.
func occupy(t *testing.T, p *places, count int) {
	t.Helper()
	for range count {
		require.True(t, p.enter(t.Context(), 0, 0, time.Time{}))
	}
}

// worked are what the services were called with, in their order.
type (
	worked           struct{ names []string } // one callback is worked on at a time
	workedOnboarding struct {
		onboardingv1.OnboardingServiceClient
		*worked
	}
	workedMessaging struct {
		messagingv1.MessagingServiceClient
		*worked
	}
)

func (w workedOnboarding) ExecuteStep(
	_ context.Context, in *onboardingv1.ExecuteStepRequest, _ ...grpc.CallOption,
) (*onboardingv1.ExecuteStepResponse, error) {
	w.names = append(w.names, in.GetStepId())
	return &onboardingv1.ExecuteStepResponse{Outcome: onboardingv1.StepOutcome_STEP_OUTCOME_SENT}, nil
}

func (w workedOnboarding) ReceiveMessage(
	_ context.Context, in *onboardingv1.ReceiveMessageRequest, _ ...grpc.CallOption,
) (*onboardingv1.ReceiveMessageResponse, error) {
	w.names = append(w.names, in.GetBody())
	return &onboardingv1.ReceiveMessageResponse{}, nil
}

func (w workedMessaging) RecordStatus(
	_ context.Context, in *messagingv1.RecordStatusRequest, _ ...grpc.CallOption,
) (*messagingv1.RecordStatusResponse, error) {
	w.names = append(w.names, in.GetTwilioSid())
	return &messagingv1.RecordStatusResponse{}, nil
}

// TestPlaces has one callback worked on at a time, whose place the test holds while the others come.
func TestPlaces(t *testing.T) {
	t.Parallel()
	cfg := mustConfig(t)
	signatures, err := newTwilioSignatures(cfg.TwilioAuthToken)
	require.NoError(t, err)
	verifier, err := qstash.NewVerifier(qstash.VerifierConfig{CurrentKey: currentKey, NextKey: nextKey, Now: noon})
	require.NoError(t, err)
	// one is a callback that comes, by a name; its due time is in seconds from noon.
	type one struct {
		name  string
		step  bool
		due   string
		reply bool
		sign  string // the vendor's own unless it says another
	}
	step := func(name, due string) one { return one{name: name, step: true, due: due} }
	request := func(t *testing.T, c one) *http.Request {
		t.Helper()
		r := goldenRequest{Method: http.MethodPost, Path: pathStatus, Sign: "twilio current", Form: map[string][]string{
			"MessageSid": {c.name}, "From": {phone}, "To": {"+551130000000"}, "Body": {c.name}, "MessageStatus": {"sent"},
		}}
		switch {
		case c.step:
			r = goldenRequest{Method: http.MethodPost, Path: pathStep, Sign: "qstash current", Headers: headers("0", "5")}
			r.Body = `{"profile_id":"p","session_id":"s","step_id":"` + c.name + `","expected_state_token":"t","idempotency_key":"k"}`
			if c.due != "" {
				r.Headers[qstash.HeaderDue] = c.due
			}
		case c.reply:
			r.Path = pathInbound
		}
		if c.sign != "" {
			r.Sign = c.sign
		}
		return r.build(t, origin)
	}
	for _, tc := range []struct {
		name    string
		room    int
		come    []one
		refused map[string]int // by name, at once
		want    []string       // in the order in which they are worked on
	}{
		{
			name: "AlarmsGoInTheOrderOfTheirDueTimes", room: 5,
			come: []one{step("c", "2026-03-04T11:59:59.002Z"), step("a", "2026-03-04T11:00:00Z"), step("d", "2026-03-04T12:00:01Z"), step("b", "2026-03-04T11:59:59.001Z")},
			want: []string{"a", "b", "c", "d"},
		},
		{
			name: "AmongEqualsTheFirstToCome", room: 5,
			come: []one{step("c", "2026-03-04T11:00:00Z"), step("a", "2026-03-04T11:00:00Z"), step("b", "2026-03-04T11:00:00Z")},
			want: []string{"c", "a", "b"},
		},
		{
			name: "AnAlarmThatDoesNotSayIsDueWhenItComes", room: 5,
			come: []one{step("late", "2026-03-04T12:00:00.001Z"), step("silent", ""), step("nonsense", "yesterday"), step("early", "2026-03-04T11:59:59.999Z")},
			want: []string{"early", "silent", "nonsense", "late"},
		},
		{
			name: "AForgedAlarmHasNoTurn", room: 1,
			come:    []one{step("true", "2026-03-04T11:59:00Z"), {name: "forged", step: true, due: "1970-01-01T00:00:00Z", sign: "qstash forged"}},
			refused: map[string]int{"forged": http.StatusUnauthorized}, want: []string{"true"},
		},
		{
			name: "WhenTheLineIsFullTheLastOneDueIsRefused", room: 2,
			come:    []one{step("b", "2026-03-04T11:00:02Z"), step("c", "2026-03-04T11:00:03Z"), step("a", "2026-03-04T11:00:01Z"), step("d", "2026-03-04T11:00:04Z")},
			refused: map[string]int{"c": http.StatusTooManyRequests, "d": http.StatusTooManyRequests}, want: []string{"a", "b"},
		},
		{
			name: "AReplyGoesBeforeAReceipt", room: 4,
			come: []one{{name: "receipt 1"}, {name: "receipt 2"}, {name: "STOP", reply: true}, {name: "hello", reply: true}},
			want: []string{"STOP", "hello", "receipt 1", "receipt 2"},
		},
		{
			name: "ReceiptsKeepNoReplyOut", room: 2,
			come:    []one{{name: "receipt 1"}, {name: "receipt 2"}, {name: "STOP", reply: true}},
			refused: map[string]int{"receipt 2": http.StatusTooManyRequests}, want: []string{"STOP", "receipt 1"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p, seen := newPlaces(1, tc.room), new(worked)
			a := alarms{
				verifier: verifier, onboarding: workedOnboarding{worked: seen}, origin: cfg.PublicBaseURL, places: p, now: noon, log: setup(t).logger,
			}
			c := carrier{
				signatures: signatures, onboarding: workedOnboarding{worked: seen}, messaging: workedMessaging{worked: seen}, origin: cfg.PublicBaseURL, places: p,
			}
			mux := http.NewServeMux()
			mux.HandleFunc(pathStep, a.step().serve)
			mux.HandleFunc(pathInbound, c.inbound().serve)
			mux.HandleFunc(pathStatus, c.receipt().serve)
			requests := make([]*http.Request, len(tc.come))
			for i, one := range tc.come {
				requests[i] = request(t, one)
			}
			synctest.Test(t, func(t *testing.T) {
				occupy(t, p, 1)
				answers := make([]*httptest.ResponseRecorder, len(tc.come))
				for i, r := range requests {
					answers[i] = httptest.NewRecorder()
					go mux.ServeHTTP(answers[i], r.WithContext(t.Context()))
					synctest.Wait()
				}
				require.Empty(t, seen.names)
				p.leave()
				synctest.Wait()
				require.Equal(t, tc.want, seen.names)
				for i, one := range tc.come {
					want := http.StatusOK
					if refused := tc.refused[one.name]; refused != 0 {
						want = refused
					}
					require.Equal(t, want, answers[i].Code, one.name)
				}
				require.Equal(t, 1, p.free)
				require.Empty(t, p.line)
			})
		})
	}

	t.Run("S1_33_WhatFindsNoPlaceInItsTimeIsRefused", func(t *testing.T) {
		t.Parallel()
		p := newPlaces(1, 2)
		r := request(t, one{name: "STOP", reply: true})
		synctest.Test(t, func(t *testing.T) {
			occupy(t, p, 1)
			now, answer := time.Now, httptest.NewRecorder() // the bubble's clock
			began := now()
			carrier{signatures: signatures, origin: cfg.PublicBaseURL, places: p}.inbound().serve(answer, r.WithContext(t.Context()))
			require.Equal(t, http.StatusTooManyRequests, answer.Code)
			require.Equal(t, "2", answer.Header().Get("Retry-After"))
			require.Equal(t, twilioTimeout/waitShare, now().Sub(began))
			require.Empty(t, p.line)
		})
	})

	t.Run("ACallerWhoGoesAwayLeavesTheLine", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p := newPlaces(1, 3)
			occupy(t, p, 1)
			gone, goes := context.WithCancel(t.Context())
			entered := map[string]chan bool{"first": make(chan bool, 1), "goes": make(chan bool, 1), "last": make(chan bool, 1)}
			for i, name := range []string{"first", "goes", "last"} {
				ctx := t.Context()
				if name == "goes" {
					ctx = gone
				}
				go func() { entered[name] <- p.enter(ctx, time.Hour, 0, noon().Add(time.Duration(i))) }()
				synctest.Wait()
			}
			goes()
			require.False(t, <-entered["goes"])
			require.Len(t, p.line, 2)
			p.leave()
			require.True(t, <-entered["first"])
			p.leave()
			require.True(t, <-entered["last"])
			p.leave()
			require.Equal(t, 1, p.free)
		})
	})

	t.Run("WhoIsCalledInTheInstantInWhichItGoesAwayHasThePlace", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p := newPlaces(1, 1)
			occupy(t, p, 1)
			ctx, goes := context.WithCancel(t.Context())
			entered := make(chan bool, 1)
			go func() { entered <- p.enter(ctx, time.Hour, 0, noon()) }()
			synctest.Wait()
			p.leave()
			goes()
			require.True(t, <-entered)
			p.leave()
			require.Equal(t, 1, p.free, "no place is lost")
		})
	})
}
