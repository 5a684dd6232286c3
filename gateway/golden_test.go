package gateway

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"flag"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	twiliotest "paceline.internal/emulators/twilio"
	"paceline.internal/gateway/route"
	"paceline.internal/gateway/twilio"
	"paceline.internal/platform/qstash"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// golden is one exchange: the request, the answer of the service behind it, and the outcome. The files are the
// examples of the HTTP surface too. `go test ./gateway -update` writes what came of it into them.
type golden struct {
	Name     string           `yaml:"name"`
	Request  goldenRequest    `yaml:"request"`
	Upstream map[string]reply `yaml:"upstream,omitempty"` // by Service/Method
	Want     outcome          `yaml:"want"`
}

type goldenRequest struct {
	Method  string              `yaml:"method"`
	Path    string              `yaml:"path"`
	As      string              `yaml:"as,omitempty"`   // operator, app, user: with their token
	Sign    string              `yaml:"sign,omitempty"` // see signed
	Headers map[string]string   `yaml:"headers,omitempty"`
	Body    string              `yaml:"body,omitempty"`
	Form    map[string][]string `yaml:"form,omitempty"`    // urlencoded as the body
	Size    int                 `yaml:"size,omitempty"`    // the body is made this long with spaces at its end
	Chunked bool                `yaml:"chunked,omitempty"` // no Content-Length is sent
	// Lenient is a request that is done though the description has no such: clients are told less than is taken.
	Lenient bool `yaml:"lenient,omitempty"`
}

type reply struct {
	Code       string        `yaml:"code,omitempty"`
	Reason     string        `yaml:"reason,omitempty"`
	Message    string        `yaml:"message,omitempty"`
	RetryAfter time.Duration `yaml:"retry_after,omitempty"`
	Violation  rpc.Violation `yaml:"violation,omitempty"`
	Response   string        `yaml:"response,omitempty"` // proto JSON
}

type outcome struct {
	Status  int               `yaml:"status"`
	Headers map[string]string `yaml:"headers,omitempty"` // of those that say something
	Body    string            `yaml:"body,omitempty"`    // JSON is compared as JSON
	Calls   []goldenCall      `yaml:"calls"`             // what the services were asked, in order
}

type goldenCall struct {
	RPC     string `yaml:"rpc"`
	As      string `yaml:"as"`
	Request string `yaml:"request"`
}

// shown are the headers that a golden case holds.
var shown = []string{"Content-Type", "Location", "Retry-After", "Allow", "Content-Disposition", "Www-Authenticate", "Upgrade", qstash.HeaderNonRetryable} //nolint:gochecknoglobals // a constant list

var update = flag.Bool("update", false, "write what came of the golden cases into their files") //nolint:gochecknoglobals // a flag

func TestStepCallback(t *testing.T)    { runGolden(t, "testdata/step_callback.yaml") }    //nolint:paralleltest // in runGolden
func TestStepFailure(t *testing.T)     { runGolden(t, "testdata/step_failure.yaml") }     //nolint:paralleltest // in runGolden
func TestInboundCallback(t *testing.T) { runGolden(t, "testdata/inbound_callback.yaml") } //nolint:paralleltest // in runGolden
func TestStatusCallback(t *testing.T)  { runGolden(t, "testdata/status_callback.yaml") }  //nolint:paralleltest // in runGolden
func TestKapsoWebhook(t *testing.T)    { runGolden(t, "testdata/kapso_webhook.yaml") }    //nolint:paralleltest // in runGolden
func TestShopifyWebhook(t *testing.T)  { runGolden(t, "testdata/shopify_webhook.yaml") }  //nolint:paralleltest // in runGolden
func TestWebhookJobs(t *testing.T)     { runGolden(t, "testdata/webhook_jobs.yaml") }     //nolint:paralleltest // in runGolden
func TestPeople(t *testing.T)          { runGolden(t, "testdata/people.yaml") }           //nolint:paralleltest // in runGolden
func TestOutbound(t *testing.T)        { runGolden(t, "testdata/outbound.yaml") }         //nolint:paralleltest // in runGolden
func TestSenders(t *testing.T)         { runGolden(t, "testdata/senders.yaml") }          //nolint:paralleltest // in runGolden
func TestEngagement(t *testing.T)      { runGolden(t, "testdata/engagement.yaml") }       //nolint:paralleltest // in runGolden
func TestFlows(t *testing.T)           { runGolden(t, "testdata/flows.yaml") }            //nolint:paralleltest // in runGolden
func TestTickets(t *testing.T)         { runGolden(t, "testdata/tickets.yaml") }          //nolint:paralleltest // in runGolden
func TestRuns(t *testing.T)            { runGolden(t, "testdata/runs.yaml") }             //nolint:paralleltest // in runGolden
func TestGoals(t *testing.T)           { runGolden(t, "testdata/goals.yaml") }            //nolint:paralleltest // in runGolden
func TestConnect(t *testing.T)         { runGolden(t, "testdata/connect.yaml") }          //nolint:paralleltest // in runGolden
func TestGoalCallback(t *testing.T)    { runGolden(t, "testdata/goal_callback.yaml") }    //nolint:paralleltest // in runGolden
func TestGoalFailure(t *testing.T)     { runGolden(t, "testdata/goal_failure.yaml") }     //nolint:paralleltest // in runGolden
func TestEvents(t *testing.T)          { runGolden(t, "testdata/events.yaml") }           //nolint:paralleltest // in runGolden
func TestExplain(t *testing.T)         { runGolden(t, "testdata/explain.yaml") }          //nolint:paralleltest // in runGolden
func TestAPI(t *testing.T)             { runGolden(t, "testdata/api.yaml") }              //nolint:paralleltest // in runGolden
func TestAPIKeyRoutes(t *testing.T)    { runGolden(t, "testdata/api_keys.yaml") }         //nolint:paralleltest // in runGolden
func TestOrganisations(t *testing.T)   { runGolden(t, "testdata/organisations.yaml") }    //nolint:paralleltest // in runGolden
func TestSurface(t *testing.T)         { runGolden(t, "testdata/surface.yaml") }          //nolint:paralleltest // in runGolden

// runGolden runs the cases of a file as subtests.
func runGolden(t *testing.T, file string) {
	t.Helper()
	t.Parallel()
	cases := readGolden(t, file)
	for i := range cases {
		t.Run(cases[i].Name, func(t *testing.T) {
			if !*update {
				t.Parallel()
			}
			got := cases[i].play(t)
			checkName(t, cases[i], got)
			if *update {
				cases[i].Want = got
				return
			}
			require.Equal(t, cases[i].Want, got)
		})
	}
	if *update {
		var out bytes.Buffer
		encoder := yaml.NewEncoder(&out)
		encoder.SetIndent(2)
		require.NoError(t, encoder.Encode(cases))
		require.NoError(t, os.WriteFile(file, out.Bytes(), 0o600))
	}
}

// checkName holds the outcome to what no -update may change: the status that the name promises, and that nothing is asked
// of a service for a forged callback.
func checkName(t *testing.T, c golden, got outcome) {
	t.Helper()
	if promised := regexp.MustCompile(`(?:Is|Are)([1-5]\d\d)`).FindStringSubmatch(c.Name); promised != nil {
		require.Equal(t, promised[1], strconv.Itoa(got.Status))
	}
	if strings.Contains(c.Name, "IsNeverRetried") {
		require.Equal(t, qstash.StatusNonRetryable, got.Status)
		require.Equal(t, "true", got.Headers[qstash.HeaderNonRetryable])
	} else {
		require.Empty(t, got.Headers[qstash.HeaderNonRetryable])
	}
	if how := c.Request.Sign; how != "" && !strings.HasSuffix(how, " current") && !strings.HasSuffix(how, " next") {
		require.Contains(t, []int{http.StatusUnauthorized, http.StatusForbidden}, got.Status)
		require.Empty(t, got.Calls)
	}
}

func readGolden(t *testing.T, file string) []golden {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var cases []golden
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	require.NoError(t, decoder.Decode(&cases))
	require.NotEmpty(t, cases)
	return cases
}

// play sends the request to a new gateway and returns the outcome.
func (g golden) play(t *testing.T) outcome {
	t.Helper()
	b := setup(t)
	for method, r := range g.Upstream {
		b.services.on(method, r.give)
	}
	request := g.Request.build(t, b.url)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { require.NoError(t, response.Body.Close()) }()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	if !*update { // the description's examples are made of what this writes
		asDescribed(t, request, []byte(g.Request.Body), g.Request.Lenient, response.StatusCode, response.Header, body)
	}

	got := outcome{Status: response.StatusCode, Headers: map[string]string{}, Body: readable(t, response.Header, body), Calls: []goldenCall{}}
	for _, name := range shown {
		if value := response.Header.Get(name); value != "" {
			got.Headers[name] = value
		}
	}
	for name := range response.Header {
		require.False(t, strings.HasPrefix(name, "Grpc-"), "%s is a service's own", name)
	}
	id := response.Header.Get(route.HeaderRequestID)
	require.NotEmpty(t, id)
	for _, c := range b.services.seen() {
		require.Equal(t, id, c.RequestID, "the request id goes with every call")
		asked, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(c.Request)
		require.NoError(t, err)
		got.Calls = append(got.Calls, goldenCall{
			RPC: c.Method, As: strings.TrimSpace(string(c.Principal.Role) + " " + c.Principal.Subject + " " + c.Principal.OrgID),
			Request: readableEvent(t, c.Request, indented(t, asked)),
		})
	}
	b.checkPrivacy(t)
	return got
}

// checkPrivacy holds for every exchange: no line and no span has a phone number, a text, a query or a secret in it.
func (b *bench) checkPrivacy(t *testing.T) {
	t.Helper()
	b.stop()
	said := b.log.String()
	require.Equal(t, 1, strings.Count(said, `"http.request"`), "one wide line per request")
	for _, span := range b.spans.GetSpans() {
		said += span.Name
		for _, a := range span.Attributes {
			said += " " + string(a.Key) + "=" + a.Value.String()
		}
	}
	for _, secret := range []string{
		phone, strings.TrimPrefix(phone, "+"), "hello there", currentKey, nextKey, twilioToken, serviceSecret, jwtSecret, kapsoSecret, shopifySecret, "wamid", "eyJ", "?", "open the door", "pld_",
	} {
		require.NotContains(t, said, secret)
	}
}

// give answers like a service.
func (r reply) give(context.Context) (json.RawMessage, error) {
	if r.Code == "" {
		return json.RawMessage(r.Response), nil
	}
	e := &rpc.Error{Reason: r.Reason, Domain: "paceline.test", Message: r.Message, RetryAfter: r.RetryAfter}
	if r.Violation.Field != "" {
		e.Fields = []rpc.Violation{r.Violation}
	}
	if err := e.Code.UnmarshalJSON([]byte(strconv.Quote(r.Code))); err != nil {
		return nil, err
	}
	return nil, e
}

func (r goldenRequest) build(t *testing.T, server string) *http.Request {
	t.Helper()
	body := []byte(r.Body)
	if r.Form != nil {
		body = []byte(url.Values(r.Form).Encode())
	}
	if r.Size > 0 {
		body = append(body, bytes.Repeat([]byte(" "), r.Size-len(body))...)
	}
	var reader io.Reader = bytes.NewReader(body)
	if r.Chunked {
		reader = io.MultiReader(reader)
	}
	request, err := http.NewRequestWithContext(t.Context(), r.Method, server+r.Path, reader)
	require.NoError(t, err)
	if r.Form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=UTF-8")
	}
	if as := bearer(t, r.As); as != "" {
		request.Header.Set("Authorization", as)
	}
	r.signed(t, request, body)
	for name, value := range r.Headers {
		request.Header.Set(name, value)
	}
	return request
}

// signed adds the signature that the case asks for.
func (r goldenRequest) signed(t *testing.T, request *http.Request, body []byte) {
	t.Helper()
	key, target, signedBody, at := currentKey, origin+r.Path, body, noon()
	form, token := url.Values(r.Form), twilioToken
	switch vendor, how, _ := strings.Cut(r.Sign, " "); vendor {
	case "":
		return
	case "qstash":
		switch how {
		case "current":
		case "next":
			key = nextKey
		case "forged":
			key = "sig_of_another_account"
		case "empty key":
			key = ""
		case "other url":
			target = "https://elsewhere.example" + r.Path
		case "host header": // what a verifier that trusts Host would take
			target = "http://" + request.URL.Host + r.Path
		case "other body":
			signedBody = []byte(`{}`)
		case "expired":
			at = noon().Add(-6 * time.Minute)
		default:
			t.Fatalf("no such signature: %q", r.Sign)
		}
		signature, err := qstash.Sign(key, target, signedBody, at)
		require.NoError(t, err)
		request.Header.Set(qstash.HeaderSignature, signature)
	case "twilio":
		switch how {
		case "current":
		case "forged":
			token = "fedcba98765432100123456789abcdef"
		case "empty token":
			token = ""
		case "other url":
			target = origin + twilio.PathInbound + "x"
		case "host header":
			target = "http://" + request.URL.Host + r.Path
		case "other form":
			form = url.Values{"Body": {"something else"}}
		default:
			t.Fatalf("no such signature: %q", r.Sign)
		}
		if kind, _, _ := mime.ParseMediaType(r.Headers["Content-Type"]); kind == "application/json" {
			form = nil // the hash of the body is in the path
		} else if r.Form == nil && how == "current" { // a body that is written out
			parsed, err := url.ParseQuery(string(body))
			require.NoError(t, err)
			form = parsed
		}
		request.Header.Set("X-Twilio-Signature", twiliotest.Sign(token, target, form))
	case "kapso", "shopify":
		secret := map[string]string{
			"kapso current": "before-the-change", "kapso next": kapsoSecret, "shopify current": shopifySecret,
			"kapso forged": "forged", "shopify forged": "forged", "kapso empty secret": "", "shopify empty secret": "",
			"kapso other body": kapsoSecret, "shopify other body": shopifySecret,
		}
		key, known := secret[r.Sign]
		require.True(t, known, "no such signature: %q", r.Sign)
		if how == "other body" {
			body = []byte(`{}`)
		}
		maps.Copy(request.Header, signWebhook(vendor, key, body))
	default:
		t.Fatalf("no such signature: %q", r.Sign)
	}
}

// readable is a body as a golden file holds it: JSON indented, everything long cut to its beginning.
func readable(t *testing.T, header http.Header, body []byte) string {
	t.Helper()
	if header.Get("Content-Type") == "application/json" {
		return indented(t, body)
	}
	if first, _, long := strings.Cut(string(body), "\n"); long {
		return first + "\n..."
	}
	return string(body)
}

// readableEvent shows the bytes of an event as the JSON that they are.
func readableEvent(t *testing.T, request proto.Message, text string) string {
	t.Helper()
	event, ok := request.(*onboardingv1.EnqueueWebhookJobRequest)
	if !ok || len(event.GetPayloadJson()) == 0 {
		return text
	}
	encoded := strconv.Quote(base64.StdEncoding.EncodeToString(event.GetPayloadJson()))
	require.Contains(t, text, encoded)
	return indented(t, []byte(strings.Replace(text, encoded, string(event.GetPayloadJson()), 1)))
}

// indented also undoes the random spaces of protojson.
func indented(t *testing.T, body []byte) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, json.Indent(&out, body, "", "  "))
	return out.String()
}
