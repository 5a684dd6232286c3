package route_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"paceline.internal/gateway/kapso"
	"paceline.internal/gateway/route"
	"paceline.internal/gateway/shopify"
	"paceline.internal/platform/config"
	"paceline.internal/platform/rpc"
	"paceline.internal/platform/telemetry"
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

func noon() time.Time { return time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC) }

const phone = "+5511999998888"

// kapsoHeaders returns the headers of an event of Kapso.
func kapsoHeaders(event, key string) http.Header {
	return http.Header{"X-Webhook-Event": {event}, "X-Idempotency-Key": {key}, "Content-Type": {"application/json"}}
}

// shopifyHeaders returns the headers of a delivery of Shopify.
func shopifyHeaders(topic, id string) http.Header {
	return http.Header{
		"X-Shopify-Topic": {topic}, "X-Shopify-Webhook-Id": {id}, "X-Shopify-Shop-Domain": {"quilts.myshopify.com"},
		"Content-Type": {"application/json"},
	}
}

// A text as Kapso's docs show it, with what the docs say of it.
const kapsoHello = `{"message":{"id":"wamid.123","timestamp":"1730092800","type":"text","from":"5511999998888","text":{"body":"hello there"},
"kapso":{"direction":"inbound","status":"received","processing_status":"pending","origin":"cloud_api","has_media":false,"content":"hello there"}},
"conversation":{"id":"conv_123","phone_number":"+5511999998888","status":"active","phone_number_id":"123456789012345",
"kapso":{"messages_count":1}},"is_new_conversation":true,"phone_number_id":"123456789012345"}`

const (
	kapsoSecret   = "kapso-secret-of-the-tests"
	shopifySecret = "shopify-secret-of-the-tests"
	defaultOrgID  = "00000000-0000-7000-8000-000000000001"
	reasonReused  = "REASON_IDEMPOTENCY_KEY_REUSED"
)

// shelf stores what the services would: one payload a key, of jobs and of messages alike.
type shelf struct {
	onboardingv1.OnboardingServiceClient
	onboardingv1.WebhookJobServiceClient

	mu   sync.Mutex
	kept map[string]string // payloads by key
	keys []string          // in the order in which they came first
}

func (s *shelf) EnqueueWebhookJob(
	_ context.Context, in *onboardingv1.EnqueueWebhookJobRequest, _ ...grpc.CallOption,
) (*onboardingv1.EnqueueWebhookJobResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
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
	message := proto.CloneOf(in)
	message.Whatsapp.OfSeveral = false // how it came changes nothing
	payload, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
	if err != nil {
		return nil, err
	}
	kept, err := s.EnqueueWebhookJob(ctx, route.Enqueue("kapso", "", "kapso.message.received:"+in.GetWhatsapp().GetMessageId(), in.GetFrom(), payload))
	return &onboardingv1.ReceiveMessageResponse{JobId: kept.GetJobId(), Duplicate: kept.GetDuplicate()}, err
}

// jobOf is the id of the job of a key, the same every time and without the key in it.
func jobOf(key string) string { return uuid.NewSHA1(uuid.NameSpaceOID, []byte(key)).String() }

// knock posts a body to a source and returns the answer, and the log line of the request.
func knock(t *testing.T, queue *shelf, s route.Source, header http.Header, body io.Reader) (*httptest.ResponseRecorder, string) {
	t.Helper()
	log := new(strings.Builder)
	hooks := route.Webhooks{Onboarding: queue, Jobs: queue, DefaultOrgID: defaultOrgID}
	handler := route.Observe(telemetry.NewLogger(log, telemetry.Config{}, "gateway"), noon, nil, hooks.Of(s))
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/webhooks/"+s.Name, body)
	request.Header = header
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, request)
	return answer, log.String()
}

// vendor is a source and how a test signs for it.
type vendor struct {
	route.Source

	secret string
	header func() http.Header
	body   string
}

func vendors(t *testing.T) (ofKapso, ofShopify vendor) {
	t.Helper()
	kapsoKeys, err := route.NewKeys(config.NewSecret(kapsoSecret))
	require.NoError(t, err)
	shopifyKeys, err := route.NewKeys(config.NewSecret(shopifySecret))
	require.NoError(t, err)
	ofKapso = vendor{Source: kapso.New(kapsoKeys, route.Owners{"123456789012345": ""}), secret: kapsoSecret, body: kapsoHello}
	ofKapso.header = func() http.Header { return kapsoHeaders("whatsapp.message.received", "k1") }
	ofShopify = vendor{Source: shopify.New(shopifyKeys, nil), secret: shopifySecret}
	ofShopify.header = func() http.Header { return shopifyHeaders("app/uninstalled", "id1") }
	ofShopify.body = `{"id":1,"phone":"+5511999998888"}`
	return ofKapso, ofShopify
}

// signed are the headers of a body that the vendor has signed.
func (v vendor) signed(body string) http.Header {
	header := v.header()
	header.Set(v.Signature, signWebhook(v.Name, v.secret, body))
	return header
}

// accepted is the answer to events that were taken.
type accepted struct {
	Status  string     `json:"status"`
	Results []answered `json:"results"`
}

type answered struct {
	Event  string `json:"event"`
	Result string `json:"result"`
	JobID  string `json:"job_id"`
}

// results returns an answer that accepts the events.
func results(t *testing.T, answer *httptest.ResponseRecorder) accepted {
	t.Helper()
	require.Equal(t, http.StatusAccepted, answer.Code, answer.Body)
	require.Equal(t, "application/json", answer.Header().Get("Content-Type"))
	var got accepted
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &got))
	return got
}

// TestWebhooks holds what the golden cases of the gateway do not: the log, signatures that are none, and a source that is off.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	ofKapso, ofShopify := vendors(t)
	for _, v := range []vendor{ofKapso, ofShopify} {
		t.Run("S2_31_SignedIs202AndARepeatIsHarmless_"+v.Name, func(t *testing.T) {
			t.Parallel()
			queue := new(shelf)
			answer, line := knock(t, queue, v.Source, v.signed(v.body), strings.NewReader(v.body))
			got := results(t, answer)
			require.Equal(t, route.ResultProcessed, got.Status)
			require.Len(t, got.Results, 1)
			require.Equal(t, jobOf(queue.keys[0]), got.Results[0].JobID)
			for _, secret := range []string{phone, "5511999998888", "hello there", "wamid", v.secret} {
				require.NotContains(t, line, secret)
			}
			require.Contains(t, line, `"result":"processed"`)
			for range 3 {
				answer, _ = knock(t, queue, v.Source, v.signed(v.body), strings.NewReader(v.body))
				require.Equal(t, route.ResultDuplicate, results(t, answer).Status)
			}
			require.Len(t, queue.keys, 1)
		})
		for name, forge := range map[string]func(http.Header){
			"Missing":          func(h http.Header) { h.Del(v.Signature) },
			"NoEncoding":       func(h http.Header) { h.Set(v.Signature, "§") },
			"Cut":              func(h http.Header) { h.Set(v.Signature, h.Get(v.Signature)[:8]) },
			"OfAnotherSecret":  func(h http.Header) { h.Set(v.Signature, signWebhook(v.Name, "forged", v.body)) },
			"OfTheEmptySecret": func(h http.Header) { h.Set(v.Signature, signWebhook(v.Name, "", v.body)) },
			"OfAnotherBody":    func(h http.Header) { h.Set(v.Signature, signWebhook(v.Name, v.secret, v.body+" ")) },
			"OfTheOtherVendor": func(h http.Header) {
				h.Set(v.Signature, signWebhook(v.Name, map[string]string{"kapso": shopifySecret, "shopify": kapsoSecret}[v.Name], v.body))
			},
		} {
			t.Run("S2_31_SignatureThatIs"+name+"Is401_"+v.Name, func(t *testing.T) {
				t.Parallel()
				queue, header := new(shelf), v.signed(v.body)
				forge(header)
				answer, _ := knock(t, queue, v.Source, header, strings.NewReader(v.body))
				require.Equal(t, http.StatusUnauthorized, answer.Code)
				require.Contains(t, answer.Body.String(), route.ReasonUnauthenticated)
				require.Empty(t, queue.keys)
			})
		}
		t.Run("SecretOfAnOrganisationSignsForItAlone_"+v.Name, func(t *testing.T) {
			t.Parallel()
			const acme, bob = "01900000-0000-7000-8000-0000000000aa", "01900000-0000-7000-8000-0000000000bb"
			for _, tc := range []struct {
				secrets, owner string
				want           int
			}{
				{bob + "=" + v.secret, acme, 401},
				{bob + "=" + v.secret, "", 401},
				{acme + "=" + v.secret, acme, 202},
				{bob + "=other," + acme + "=" + v.secret, acme, 202},
				{defaultOrgID + "=" + v.secret, "", 202},
				{v.secret, acme, 202},
			} {
				keys, err := route.NewKeys(config.NewSecret(tc.secrets))
				require.NoError(t, err)
				queue, owners := new(shelf), route.Owners{"123456789012345": tc.owner, "quilts.myshopify.com": tc.owner}
				source := map[string]route.Source{"kapso": kapso.New(keys, owners), "shopify": shopify.New(keys, owners)}[v.Name]
				answer, line := knock(t, queue, source, v.signed(v.body), strings.NewReader(v.body))
				require.Equal(t, tc.want, answer.Code, tc)
				require.Equal(t, tc.want == 401, len(queue.keys) == 0)
				require.Equal(t, tc.want == 401, strings.Contains(line, "the secret is of another organisation"))
			}
		})
		t.Run("S2_31_WithoutASecretTheSourceIs404_"+v.Name, func(t *testing.T) {
			t.Parallel()
			off := v.Source
			off.Keys = nil
			header := v.header()
			header.Set(v.Signature, signWebhook(v.Name, "", v.body))
			answer, _ := knock(t, new(shelf), off, header, strings.NewReader(v.body))
			require.Equal(t, http.StatusNotFound, answer.Code)
			require.Contains(t, answer.Body.String(), route.ReasonSourceOff)
		})
	}
}

func TestKapsoWebhooks(t *testing.T) {
	t.Parallel()
	ofKapso, _ := vendors(t)

	t.Run("S2_02_AnotherPayloadUnderOneKeyIs409", func(t *testing.T) {
		t.Parallel()
		queue := new(shelf)
		for _, tc := range []struct {
			body string
			want int
		}{{kapsoHello, 202}, {strings.ReplaceAll(kapsoHello, "hello there", "something else"), 409}, {kapsoHello, 202}} {
			header := kapsoHeaders("whatsapp.message.received", "k1")
			header.Set("X-Webhook-Signature", signWebhook(ofKapso.Name, kapsoSecret, tc.body))
			answer, line := knock(t, queue, ofKapso.Source, header, strings.NewReader(tc.body))
			require.Equal(t, tc.want, answer.Code)
			if tc.want == http.StatusConflict {
				require.Contains(t, answer.Body.String(), reasonReused)
				require.Contains(t, line, `"level":"ERROR"`, "an operator has to act")
			}
		}
		require.Contains(t, queue.kept[queue.keys[0]], "hello there", "the first is kept")
	})

	t.Run("S2_28_ABatchIsStoredInItsOrderAndAgainByItself", func(t *testing.T) {
		t.Parallel()
		second := strings.ReplaceAll(kapsoHello, "wamid.123", "wamid.124")
		outbound := strings.ReplaceAll(strings.ReplaceAll(kapsoHello, "wamid.123", "wamid.125"), "inbound", "outbound")
		batch := `{"type":"whatsapp.message.received","batch":true,"data":[` + kapsoHello + `,` + outbound + `,` + second + `]}`
		queue := new(shelf)
		post := func(body string) accepted {
			header := kapsoHeaders("whatsapp.message.received", "k1")
			header.Set("X-Webhook-Signature", signWebhook(ofKapso.Name, kapsoSecret, body))
			answer, _ := knock(t, queue, ofKapso.Source, header, strings.NewReader(body))
			return results(t, answer)
		}
		got := post(second)
		require.Equal(t, route.ResultProcessed, got.Status)
		got = post(batch)
		require.Equal(t, route.ResultProcessed, got.Status)
		require.Equal(t, []string{route.ResultProcessed, route.ResultIgnored, route.ResultDuplicate},
			[]string{got.Results[0].Result, got.Results[1].Result, got.Results[2].Result})
		require.Equal(t, []string{"kapso.message.received:wamid.124", "kapso.message.received:wamid.123"}, queue.keys)
	})
}
