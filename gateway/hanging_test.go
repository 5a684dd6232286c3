package gateway

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"paceline.internal/gateway/route"
	"paceline.internal/gateway/twilio"
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

		left *time.Duration // for the record ahead of onboarding, when it was asked for
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

func (m hangingMessaging) RecordInbound(
	ctx context.Context, _ *messagingv1.RecordInboundRequest, _ ...grpc.CallOption,
) (*messagingv1.RecordInboundResponse, error) {
	deadline, _ := ctx.Deadline()
	now := time.Now
	*m.left = deadline.Sub(now())
	return nil, hang(ctx)
}

func (hangingJobs) EnqueueWebhookJob(
	ctx context.Context, _ *onboardingv1.EnqueueWebhookJobRequest, _ ...grpc.CallOption,
) (*onboardingv1.EnqueueWebhookJobResponse, error) {
	return nil, hang(ctx)
}

// hangingSenders hangs too.
type hangingSenders struct {
	messagingv1.SenderServiceClient
}

func (hangingSenders) GetCallbackAccount(
	ctx context.Context, _ *messagingv1.GetCallbackAccountRequest, _ ...grpc.CallOption,
) (*messagingv1.GetCallbackAccountResponse, error) {
	return nil, hang(ctx)
}

// fixed is a clock that stands still.
func fixed() time.Time { return time.Unix(1_800_000_000, 0) }

// TestStoreThatHangs checks that every webhook is answered before its vendor's timeout. A vendor that gives up gets no answer: it
// counts a failure, where a 503 would have made it try again at once.
func TestStoreThatHangs(t *testing.T) {
	t.Parallel()
	cfg := mustConfig(t)
	var left time.Duration
	carrier, err := twilio.New(twilio.Config{
		AuthTokens: cfg.TwilioAuthToken, Origin: cfg.PublicBaseURL, Onboarding: hangingOnboarding{}, Messaging: hangingMessaging{left: &left},
		Senders: hangingSenders{}, Moved: func(context.Context, string) bool { return false }, Admit: func(context.Context) error { return nil }, Now: fixed,
	})
	require.NoError(t, err)
	sources, err := openSources(cfg)
	require.NoError(t, err)
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
		{name: "Text", timeout: 4 * time.Second, handle: carrier.Routes()[twilio.PathInbound], request: twilios(twilio.PathInbound)},
		{name: "Receipt", timeout: 4 * time.Second, handle: carrier.Routes()[twilio.PathStatus], request: twilios(twilio.PathStatus)},
	}
	for _, s := range sources {
		all = append(all, webhook{
			name: s.Name, timeout: 5 * time.Second, handle: route.Webhooks{Onboarding: hangingOnboarding{}, Messaging: hangingMessaging{}, Jobs: hangingJobs{}}.Of(s),
			request: func(t *testing.T) *http.Request {
				t.Helper()
				return signedWebhook(t, s.Name)
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
				if w.name == "Text" {
					require.GreaterOrEqual(t, left, 400*time.Millisecond, "enough to record a STOP")
				}
			})
		})
	}
}

// signedWebhook returns a genuine delivery of a vendor.
func signedWebhook(t *testing.T, vendor string) *http.Request {
	t.Helper()
	body, secret := `{"message":{"id":"wamid.1","from":"5511999998888"},"phone_number_id":"123456789012345"}`, kapsoSecret
	more := http.Header{"X-Webhook-Event": {"whatsapp.message.received"}}
	if vendor == "shopify" {
		body, secret = `{"id":1}`, shopifySecret
		more = http.Header{"X-Shopify-Topic": {"app/uninstalled"}, "X-Shopify-Webhook-Id": {"id1"}, "X-Shopify-Shop-Domain": {"quilts.myshopify.com"}}
	}
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, route.PathWebhooks+vendor, strings.NewReader(body))
	request.Header = signWebhook(vendor, secret, []byte(body))
	maps.Copy(request.Header, more)
	return request
}
