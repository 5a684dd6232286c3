package gateway

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"paceline.internal/platform/config"
	"paceline.internal/platform/rpc"
	"paceline.internal/platform/telemetry"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

func macOf(secret string, body []byte) []byte {
	sum := hmac.New(sha256.New, []byte(secret))
	sum.Write(body)
	return sum.Sum(nil)
}

// signWebhook signs a body as a vendor does.
func signWebhook(vendor, secret, body string) string {
	mac := macOf(secret, []byte(body))
	if vendor == "kapso" {
		return hex.EncodeToString(mac)
	}
	return base64.StdEncoding.EncodeToString(mac)
}

// requireKept checks that an event can be stored: every string of its request, and of a job also its key and its payload.
func requireKept(t *testing.T, hook webhook) {
	t.Helper()
	require.NoError(t, checkEventName(hook.eventType))
	if hook.result != "" {
		require.Nil(t, hook.request)
		return
	}
	wire, err := proto.Marshal(hook.request)
	require.NoError(t, err, "text that is not UTF-8")
	require.NotEmpty(t, wire)
	switch request := hook.request.(type) {
	case *onboardingv1.ReceiveMessageRequest:
		require.NotEmpty(t, request.GetWhatsapp().GetMessageId())
		require.Empty(t, request.GetTwilioSid(), "so that the release before refuses it")
		for _, text := range []string{request.GetFrom(), request.GetTo(), request.GetBody(), request.GetWhatsapp().GetType()} {
			requireStorable(t, text)
		}
		require.True(t, request.GetWhatsapp().GetSentAt() == nil || request.GetWhatsapp().GetSentAt().IsValid())
	case *messagingv1.RecordStatusRequest:
		require.NotEmpty(t, request.GetTwilioSid())
		require.Contains(t, kapsoStatuses, request.GetStatus())
		for _, text := range request.GetRaw() {
			requireStorable(t, text)
		}
	case *onboardingv1.EnqueueWebhookJobRequest:
		require.NotEmpty(t, request.GetIdempotencyKey())
		require.LessOrEqual(t, len(request.GetIdempotencyKey()), 255)
		requireStorable(t, request.GetIdempotencyKey())
		requireStorable(t, request.GetSubject())
		payload := request.GetPayloadJson()
		require.True(t, json.Valid(payload))
		requireStorable(t, string(payload))
		require.NotContains(t, strings.ReplaceAll(string(payload), `\\`, ""), `\u0000`, "jsonb refuses it")
		require.Equal(t, byte('{'), payload[0])
	default:
		t.Fatalf("no service takes a %T", request)
	}
}

func TestWebhookKeys(t *testing.T) {
	t.Parallel()
	body := []byte("the raw bytes")

	t.Run("NoSecretIsNoKey", func(t *testing.T) {
		t.Parallel()
		keys, err := newWebhookKeys(config.Secret{})
		require.NoError(t, err)
		require.Empty(t, keys)
		require.False(t, keys.signed(body, macOf("", body)), "a stranger can sign with an empty key")
	})
	t.Run("EachOfSeveralIsAcceptedDuringARotation", func(t *testing.T) {
		t.Parallel()
		keys, err := newWebhookKeys(config.NewSecret("old , new"))
		require.NoError(t, err)
		require.True(t, keys.signed(body, macOf("old", body)))
		require.True(t, keys.signed(body, macOf("new", body)))
		require.False(t, keys.signed(body, macOf("older", body)))
	})
	for _, secret := range []string{"a,", ",a", "a,,b", " ", ","} {
		t.Run("AnEmptyOneIsRefused", func(t *testing.T) {
			t.Parallel()
			_, err := newWebhookKeys(config.NewSecret(secret))
			require.EqualError(t, err, "has an empty secret among those that its commas part")
		})
	}
}

const (
	kapsoSecret   = "kapso-secret-of-the-tests"
	shopifySecret = "shopify-secret-of-the-tests"
	reasonReused  = "REASON_IDEMPOTENCY_KEY_REUSED"
)

// shelf stores what the services would: one payload a key, of jobs and of messages alike, and the receipts.
type shelf struct {
	onboardingv1.OnboardingServiceClient
	onboardingv1.WebhookJobServiceClient
	messagingv1.MessagingServiceClient

	mu       sync.Mutex
	before   bool              // onboarding is of the release before, which refuses a WhatsApp message
	kept     map[string]string // payloads by key
	keys     []string          // in the order in which they came first
	receipts []*messagingv1.RecordStatusRequest
	down     error
}

func (s *shelf) EnqueueWebhookJob(
	_ context.Context, in *onboardingv1.EnqueueWebhookJobRequest, _ ...grpc.CallOption,
) (*onboardingv1.EnqueueWebhookJobResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil {
		return nil, s.down
	}
	key, sent := in.GetIdempotencyKey(), string(in.GetPayloadJson())
	payload, known := s.kept[key]
	if known && payload != sent {
		return nil, &rpc.Error{Code: codes.AlreadyExists, Reason: reasonReused, Domain: "paceline.test", Message: "another payload"}
	}
	if !known {
		if s.kept == nil {
			s.kept = map[string]string{}
		}
		s.kept[key], s.keys = sent, append(s.keys, key)
	}
	return &onboardingv1.EnqueueWebhookJobResponse{JobId: jobOf(key), Duplicate: known}, nil
}

func (s *shelf) ReceiveMessage(
	ctx context.Context, in *onboardingv1.ReceiveMessageRequest, _ ...grpc.CallOption,
) (*onboardingv1.ReceiveMessageResponse, error) {
	if s.before && in.GetTwilioSid() == "" {
		return nil, &rpc.Error{Code: codes.InvalidArgument, Reason: reasonInvalid, Domain: "paceline.test", Message: "MessageSid is required"}
	}
	kept, err := s.EnqueueWebhookJob(ctx, queuedText(in))
	return &onboardingv1.ReceiveMessageResponse{JobId: kept.GetJobId(), Duplicate: kept.GetDuplicate()}, err
}

func (s *shelf) RecordStatus(
	_ context.Context, in *messagingv1.RecordStatusRequest, _ ...grpc.CallOption,
) (*messagingv1.RecordStatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil {
		return nil, s.down
	}
	s.receipts = append(s.receipts, in)
	return &messagingv1.RecordStatusResponse{}, nil
}

// jobOf is the id of the job of a key, the same every time and without the key in it.
func jobOf(key string) string { return uuid.NewSHA1(uuid.NameSpaceOID, []byte(key)).String() }

// knock posts a body to a source and returns the answer, and the log line of the request.
func knock(t *testing.T, queue *shelf, s source, header http.Header, body io.Reader) (*httptest.ResponseRecorder, string) {
	t.Helper()
	log := new(lines)
	handler := observe(telemetry.NewLogger(log, telemetry.Config{}, "gateway"), noon, nil, webhooks{onboarding: queue, messaging: queue, jobs: queue}.of(s))
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/webhooks/"+s.name, body)
	request.Header = header
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, request)
	return answer, log.String()
}

// vendor is a source and how a test signs for it.
type vendor struct {
	source

	secret, signature string
	header            func() http.Header
	body              string
}

func vendors(t *testing.T) (kapso, shopify vendor) {
	t.Helper()
	kapsoKeys, err := newWebhookKeys(config.NewSecret(kapsoSecret))
	require.NoError(t, err)
	shopifyKeys, err := newWebhookKeys(config.NewSecret(shopifySecret))
	require.NoError(t, err)
	kapso = vendor{source: newKapso(kapsoKeys, "123456789012345"), secret: kapsoSecret, signature: headerKapsoSignature, body: kapsoHello}
	kapso.header = func() http.Header { return kapsoHeaders("whatsapp.message.received", "k1") }
	shopify = vendor{source: newShopify(shopifyKeys), secret: shopifySecret, signature: headerShopifySignature}
	shopify.header = func() http.Header { return shopifyHeaders("app/uninstalled", "id1") }
	shopify.body = `{"id":1,"phone":"+5511999998888"}`
	return kapso, shopify
}

// signed are the headers of a body that the vendor has signed.
func (v vendor) signed(body string) http.Header {
	header := v.header()
	header.Set(v.signature, signWebhook(v.name, v.secret, body))
	return header
}

// results is an answer that accepts the events.
func results(t *testing.T, answer *httptest.ResponseRecorder) accepted {
	t.Helper()
	require.Equal(t, http.StatusAccepted, answer.Code, answer.Body)
	require.Equal(t, "application/json", answer.Header().Get("Content-Type"))
	var got accepted
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &got))
	return got
}

func TestWebhooks(t *testing.T) {
	t.Parallel()
	ofKapso, ofShopify := vendors(t)
	for _, v := range []vendor{ofKapso, ofShopify} {
		t.Run("S2_31_SignedIs202AndARepeatIsHarmless_"+v.name, func(t *testing.T) {
			t.Parallel()
			queue := new(shelf)
			answer, line := knock(t, queue, v.source, v.signed(v.body), strings.NewReader(v.body))
			got := results(t, answer)
			require.Equal(t, resultProcessed, got.Status)
			require.Len(t, got.Results, 1)
			require.Equal(t, jobOf(queue.keys[0]), got.Results[0].JobID)
			for _, secret := range []string{phone, "5511999998888", "hello there", "wamid", v.secret} {
				require.NotContains(t, line, secret)
			}
			require.Contains(t, line, `"result":"processed"`)
			for range 3 {
				answer, _ = knock(t, queue, v.source, v.signed(v.body), strings.NewReader(v.body))
				require.Equal(t, resultDuplicate, results(t, answer).Status)
			}
			require.Len(t, queue.keys, 1)
		})
		for name, forge := range map[string]func(http.Header){
			"Missing":          func(h http.Header) { h.Del(v.signature) },
			"NoEncoding":       func(h http.Header) { h.Set(v.signature, "§") },
			"Cut":              func(h http.Header) { h.Set(v.signature, h.Get(v.signature)[:8]) },
			"OfAnotherSecret":  func(h http.Header) { h.Set(v.signature, signWebhook(v.name, "forged", v.body)) },
			"OfTheEmptySecret": func(h http.Header) { h.Set(v.signature, signWebhook(v.name, "", v.body)) },
			"OfAnotherBody":    func(h http.Header) { h.Set(v.signature, signWebhook(v.name, v.secret, v.body+" ")) },
			"OfTheOtherVendor": func(h http.Header) {
				h.Set(v.signature, signWebhook(v.name, map[string]string{"kapso": shopifySecret, "shopify": kapsoSecret}[v.name], v.body))
			},
		} {
			t.Run("S2_31_SignatureThatIs"+name+"Is401_"+v.name, func(t *testing.T) {
				t.Parallel()
				queue, header := new(shelf), v.signed(v.body)
				forge(header)
				answer, _ := knock(t, queue, v.source, header, strings.NewReader(v.body))
				require.Equal(t, http.StatusUnauthorized, answer.Code)
				require.Contains(t, answer.Body.String(), reasonUnauthenticated)
				require.Empty(t, queue.keys)
			})
		}
		t.Run("S2_31_WhatCannotBeReadIs400AndAForgedOneIs401_"+v.name, func(t *testing.T) {
			t.Parallel()
			for _, body := range []string{"", "hello there", "[]", "null"} {
				answer, line := knock(t, new(shelf), v.source, v.signed(body), strings.NewReader(body))
				require.Equal(t, http.StatusBadRequest, answer.Code)
				require.NotContains(t, answer.Body.String()+line, "hello there")
				answer, _ = knock(t, new(shelf), v.source, v.header(), strings.NewReader(body))
				require.Equal(t, http.StatusUnauthorized, answer.Code, "nothing is read before it is known to be signed")
			}
		})
		t.Run("S2_31_TooLargeIs413BeforeItIsRead_"+v.name, func(t *testing.T) {
			t.Parallel()
			body := v.body + strings.Repeat(" ", int(v.limit)-len(v.body))
			answer, _ := knock(t, new(shelf), v.source, v.signed(body), strings.NewReader(body))
			results(t, answer)
			answer, _ = knock(t, new(shelf), v.source, v.signed(body+" "), strings.NewReader(body+" "))
			require.Equal(t, http.StatusRequestEntityTooLarge, answer.Code)
			require.Contains(t, answer.Body.String(), reasonTooLarge)
			answer, _ = knock(t, new(shelf), v.source, v.signed(body+" "), io.MultiReader(strings.NewReader(body+" "))) // of unknown length
			require.Equal(t, http.StatusRequestEntityTooLarge, answer.Code)
		})
		t.Run("S2_31_WithoutASecretTheSourceIs404_"+v.name, func(t *testing.T) {
			t.Parallel()
			off := v.source
			off.keys = nil
			header := v.header()
			header.Set(v.signature, signWebhook(v.name, "", v.body))
			answer, _ := knock(t, new(shelf), off, header, strings.NewReader(v.body))
			require.Equal(t, http.StatusNotFound, answer.Code)
			require.Contains(t, answer.Body.String(), reasonSourceOff)
		})
		t.Run("S2_29_WhatCannotBeStoredNowIs503_"+v.name, func(t *testing.T) {
			t.Parallel()
			queue := &shelf{down: &rpc.Error{Code: codes.Unavailable, Reason: reasonUnavailable, Domain: "paceline.test", Message: "down"}}
			answer, _ := knock(t, queue, v.source, v.signed(v.body), strings.NewReader(v.body))
			require.Equal(t, http.StatusServiceUnavailable, answer.Code)
			require.Equal(t, "2", answer.Header().Get("Retry-After"))
			queue.down = errors.New("a defect")
			answer, _ = knock(t, queue, v.source, v.signed(v.body), strings.NewReader(v.body))
			require.Equal(t, http.StatusInternalServerError, answer.Code)
			require.NotContains(t, answer.Body.String(), "a defect")
		})
	}
}

func TestKapsoWebhooks(t *testing.T) {
	t.Parallel()
	ofKapso, _ := vendors(t)

	t.Run("S2_28_AMessageIsKeptOnceWhileOnboardingIsUpgraded", func(t *testing.T) {
		t.Parallel()
		queue := new(shelf)
		for _, tc := range []struct {
			before bool
			want   string
		}{{true, resultProcessed}, {false, resultDuplicate}, {true, resultDuplicate}} {
			queue.before = tc.before
			header := kapsoHeaders("whatsapp.message.received", "k1")
			header.Set(headerKapsoSignature, signWebhook(ofKapso.name, kapsoSecret, kapsoHello))
			answer, _ := knock(t, queue, ofKapso.source, header, strings.NewReader(kapsoHello))
			require.Equal(t, tc.want, results(t, answer).Status)
		}
		require.Equal(t, []string{"kapso.message.received:wamid.123"}, queue.keys)
	})

	t.Run("S2_28_AReceiptIs202OnceMessagingHasIt", func(t *testing.T) {
		t.Parallel()
		body := `{"message":{"id":"wamid.9","kapso":{"direction":"outbound"}},"phone_number_id":"123456789012345"}`
		header := kapsoHeaders("whatsapp.message.delivered", "k1")
		header.Set(headerKapsoSignature, signWebhook(ofKapso.name, kapsoSecret, body))
		queue := &shelf{down: &rpc.Error{Code: codes.Unavailable, Reason: reasonUnavailable, Domain: "paceline.test", Message: "down"}}
		answer, _ := knock(t, queue, ofKapso.source, header, strings.NewReader(body))
		require.Equal(t, http.StatusServiceUnavailable, answer.Code, "Kapso comes again")
		require.Equal(t, "2", answer.Header().Get("Retry-After"))
		queue.down = nil
		answer, _ = knock(t, queue, ofKapso.source, header, strings.NewReader(body))
		require.Equal(t, []answered{{Event: "kapso.message.delivered", Result: resultProcessed}}, results(t, answer).Results)
		require.Len(t, queue.receipts, 1)
		require.Equal(t, []string{"wamid.9", "delivered"}, []string{queue.receipts[0].GetTwilioSid(), queue.receipts[0].GetStatus()})
		require.Empty(t, queue.keys)
	})

	t.Run("S2_02_AnotherPayloadUnderOneKeyIs409", func(t *testing.T) {
		t.Parallel()
		queue := new(shelf)
		for _, tc := range []struct {
			body string
			want int
		}{{kapsoHello, 202}, {strings.ReplaceAll(kapsoHello, "hello there", "something else"), 409}, {kapsoHello, 202}} {
			header := kapsoHeaders("whatsapp.message.received", "k1")
			header.Set(headerKapsoSignature, signWebhook(ofKapso.name, kapsoSecret, tc.body))
			answer, line := knock(t, queue, ofKapso.source, header, strings.NewReader(tc.body))
			require.Equal(t, tc.want, answer.Code)
			if tc.want == http.StatusConflict {
				require.Contains(t, answer.Body.String(), reasonReused)
				require.Contains(t, line, `"level":"ERROR"`, "an operator has to act")
			}
		}
		require.Contains(t, queue.kept[queue.keys[0]], "hello there", "the first is kept")
	})

	t.Run("S2_31_UnknownPhoneAndOutboundAre202AndNotStored", func(t *testing.T) {
		t.Parallel()
		for from, want := range map[string]string{`"phone_number_id":"123456789012345"}`: resultUnknownPhone, `"direction":"inbound"`: resultIgnored} {
			body := strings.ReplaceAll(kapsoHello, from, map[string]string{
				resultUnknownPhone: `"phone_number_id":"999"}`, resultIgnored: `"direction":"outbound"`,
			}[want])
			queue, header := new(shelf), kapsoHeaders("whatsapp.message.received", "k1")
			header.Set(headerKapsoSignature, signWebhook(ofKapso.name, kapsoSecret, body))
			answer, line := knock(t, queue, ofKapso.source, header, strings.NewReader(body))
			require.Equal(t, accepted{Status: want, Results: []answered{{Event: "kapso.message.received", Result: want}}}, results(t, answer))
			require.Empty(t, queue.keys)
			require.Equal(t, want == resultUnknownPhone, strings.Contains(line, `"level":"WARN"`))
		}
	})

	t.Run("S2_28_ABatchIsStoredInItsOrderAndAgainByItself", func(t *testing.T) {
		t.Parallel()
		second := strings.ReplaceAll(kapsoHello, "wamid.123", "wamid.124")
		outbound := strings.ReplaceAll(strings.ReplaceAll(kapsoHello, "wamid.123", "wamid.125"), "inbound", "outbound")
		batch := `{"type":"whatsapp.message.received","batch":true,"data":[` + kapsoHello + `,` + outbound + `,` + second + `]}`
		queue := new(shelf)
		post := func(body string) accepted {
			header := kapsoHeaders("whatsapp.message.received", "k1")
			header.Set(headerKapsoSignature, signWebhook(ofKapso.name, kapsoSecret, body))
			answer, _ := knock(t, queue, ofKapso.source, header, strings.NewReader(body))
			return results(t, answer)
		}
		got := post(second)
		require.Equal(t, resultProcessed, got.Status)
		got = post(batch)
		require.Equal(t, resultProcessed, got.Status)
		require.Equal(t, []string{resultProcessed, resultIgnored, resultDuplicate},
			[]string{got.Results[0].Result, got.Results[1].Result, got.Results[2].Result})
		require.Equal(t, []string{"kapso.message.received:wamid.124", "kapso.message.received:wamid.123"}, queue.keys)
	})
}
