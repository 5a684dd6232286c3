package gateway

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// A store that hangs: the services accept calls and answer none.
type (
	hangingOnboarding struct {
		onboardingv1.OnboardingServiceClient
	}
	hangingMessaging struct {
		messagingv1.MessagingServiceClient
	}
	hangingJobs struct {
		onboardingv1.WebhookJobServiceClient
	}
)

func hang(ctx context.Context) error {
	<-ctx.Done()
	return status.FromContextError(ctx.Err()).Err()
}

func (hangingOnboarding) ReceiveMessage(
	ctx context.Context, _ *onboardingv1.ReceiveMessageRequest, _ ...grpc.CallOption,
) (*onboardingv1.ReceiveMessageResponse, error) {
	return nil, hang(ctx)
}

func (hangingMessaging) RecordStatus(
	ctx context.Context, _ *messagingv1.RecordStatusRequest, _ ...grpc.CallOption,
) (*messagingv1.RecordStatusResponse, error) {
	return nil, hang(ctx)
}

func (hangingJobs) EnqueueWebhookJob(
	ctx context.Context, _ *onboardingv1.EnqueueWebhookJobRequest, _ ...grpc.CallOption,
) (*onboardingv1.EnqueueWebhookJobResponse, error) {
	return nil, hang(ctx)
}

// TestStoreThatHangs checks that every webhook is answered before its vendor's timeout. A vendor that gives up gets no answer: it
// counts a failure, where a 503 would have made it try again at once.
func TestStoreThatHangs(t *testing.T) {
	t.Parallel()
	cfg := mustConfig(t)
	signatures, err := newTwilioSignatures(cfg.TwilioAuthToken)
	require.NoError(t, err)
	sources, err := openSources(cfg)
	require.NoError(t, err)
	twilio := carrier{
		signatures: signatures, places: newPlaces(maxCallbacks, 0), origin: cfg.PublicBaseURL, onboarding: hangingOnboarding{}, messaging: hangingMessaging{},
	}
	twilios := func(path string) func(*testing.T) *http.Request {
		return func(t *testing.T) *http.Request {
			t.Helper()
			request := callbacks()[path].request
			request.Method = http.MethodPost
			return request.build(t, origin)
		}
	}
	type webhook struct {
		name    string
		timeout time.Duration
		handle  http.HandlerFunc
		request func(t *testing.T) *http.Request
	}
	all := []webhook{ // Twilio waits for as long as the URL says that we give it: rt=4000
		{name: "Text", timeout: 4 * time.Second, handle: twilio.inbound().serve, request: twilios(pathInbound)},
		{name: "Receipt", timeout: 4 * time.Second, handle: twilio.receipt().serve, request: twilios(pathStatus)},
	}
	for _, s := range sources {
		all = append(all, webhook{
			name: s.name, timeout: 5 * time.Second, handle: webhooks{onboarding: hangingOnboarding{}, messaging: hangingMessaging{}, jobs: hangingJobs{}}.of(s),
			request: func(t *testing.T) *http.Request {
				t.Helper()
				return signedWebhook(t, s.name)
			},
		})
	}
	require.Len(t, all, 4)
	for _, w := range all {
		t.Run("S2_29_IsAnsweredBeforeItsVendorGivesUp_"+w.name, func(t *testing.T) {
			t.Parallel()
			request := w.request(t)
			synctest.Test(t, func(t *testing.T) {
				now, answer := time.Now, httptest.NewRecorder() // the bubble's clock
				began := now()
				w.handle(answer, request.WithContext(t.Context()))
				took := now().Sub(began)
				require.Less(t, took, w.timeout)
				require.Positive(t, took, "it did hang")
				require.Equal(t, http.StatusServiceUnavailable, answer.Code, "they come again")
			})
		})
	}
}

// signedWebhook is a delivery of a vendor whose events become jobs.
func signedWebhook(t *testing.T, vendor string) *http.Request {
	t.Helper()
	body, header, name, secret := kapsoHello, kapsoHeaders("whatsapp.message.received", "k1"), headerKapsoSignature, kapsoSecret
	if vendor == "shopify" {
		body, header, name, secret = `{"id":1}`, shopifyHeaders("app/uninstalled", "id1"), headerShopifySignature, shopifySecret
	}
	header.Set(name, signWebhook(vendor, secret, body))
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, pathWebhooks+vendor, strings.NewReader(body))
	request.Header = header
	return request
}
