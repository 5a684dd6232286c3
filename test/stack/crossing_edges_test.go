package stack_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/stack"
	"paceline.internal/emulators/twilio"
	"paceline.internal/platform/qstash"
	"paceline.internal/services/messaging/senders"
)

// edges are the parts of the gateway that take no token of /v1, attacked with what another organisation has.
type edges struct {
	b       *bundle
	p       *person
	loot    loot
	said    strings.Builder // all that was posted: it may be shown again
	calls   int
	crossed []string
}

// TestCrossingEdges attacks an organisation through the console, with the session of an operator of another one, through the stream of
// events, and through every callback, signed with what the other one has. The routes are those of the gateway's sources.
func TestCrossingEdges(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	keyset, err := senders.NextKeyset("")
	require.NoError(t, err)
	b, ours := prepare(t), uuid.NewString()
	b.start(t, "SENDER_KEYSET", keyset, "CONSOLE", "on", "CONSOLE_KEY", strings.Repeat("0123456789abcdef", 4), "KAPSO_WEBHOOK_SECRET", kapsoSecret, "KAPSO_PHONE_NUMBER_ID", whatsAppID,
		"SHOPIFY_WEBHOOK_SECRET", shopifySecret, "SHOPIFY_SHOPS", "ours.myshopify.com="+ours+",theirs.myshopify.com", "CONSOLE_HANDSETS_URL", b.vendors.TwilioURL)
	p := b.begin(t)
	b.queue(t, map[string]any{"to": p.phone, "purpose": "otp", "body": "Your code is 1234.", "idempotency_key": "theirs-1"})
	b.settles(t)
	e := &edges{b: b, p: p, loot: b.robbed(t, b.operatorOrg())}
	before := b.standing(t, b.operatorOrg())
	operator := b.token(t, "operator", ours, "mallory")
	e.callbacks(t, operator)
	e.keys(t, operator)
	e.events(t, operator)
	e.console(t, operator)
	b.rest(t)
	t.Logf("%d calls with what is another organisation's", e.calls)
	require.Greater(t, e.calls, 300)
	require.Empty(t, e.crossed)
	require.Equal(t, before, b.standing(t, b.operatorOrg()), "nothing there has changed")
}

// saw keeps what an answer holds of the other.
func (e *edges) saw(what, asked, answer string) {
	e.calls++
	if leaked := e.loot.leaks(asked+e.said.String(), answer); len(leaked) > 0 {
		e.crossed = append(e.crossed, fmt.Sprintf("%s: %v: %.2000s", what, leaked, answer))
	}
}

// sources are the matches of a pattern in the sources of the gateway.
func sources(t *testing.T, pattern, expression string) (found []string) {
	t.Helper()
	files, err := filepath.Glob("../../gateway/" + pattern)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, match := range regexp.MustCompile(expression).FindAllStringSubmatch(string(text), -1) {
			if !slices.Contains(found, match[1]) {
				found = append(found, match[1])
			}
		}
	}
	require.NotEmpty(t, found, expression)
	slices.Sort(found)
	return found
}

// callbacks posts to every route of vendors what names the other, signed with our own token. A route that is missing here has no attack.
func (e *edges) callbacks(t *testing.T, operator string) {
	t.Helper()
	second, first := stack.Second(), stack.Credentials()["TWILIO_ACCOUNT_SID"]
	for key, secret := range second.APIKeys {
		status, answer := e.b.try(t, operator, http.MethodPost, "/v1/senders", map[string]any{
			"name": "ours", "account_sid": second.SID, "api_key_sid": key, "api_key_secret": secret, "auth_token": second.AuthToken,
			"messaging_service_sid": slices.Sorted(maps.Keys(second.Services))[0],
		})
		require.Equal(t, http.StatusCreated, status, "%s", answer)
	}
	message := e.loot.of("message_id")
	form := func(account string, more url.Values) url.Values {
		f := url.Values{"AccountSid": {account}, "MessageSid": {e.loot.of("twilio_sid")}, "From": {e.p.phone}, "To": {stack.FromNumber}, "Body": {"STOP"}}
		maps.Copy(f, more)
		return f
	}
	receipt := url.Values{"MessageStatus": {"undelivered"}, "ErrorCode": {"21610"}}
	step := e.p.payload(t, e.loot.of("session_id"), "onboarding_message_1")
	signed := map[string][]struct { // by the route
		body string
		of   func(target, body string) (header, signature string)
		want int
	}{}
	byTwilio := func(path, query string, f url.Values, want int) {
		signed[path] = append(signed[path], struct {
			body string
			of   func(target, body string) (header, signature string)
			want int
		}{f.Encode(), func(target, _ string) (string, string) {
			return "X-Twilio-Signature", twilio.Sign(second.AuthToken, target+query, f)
		}, want})
	}
	byTwilio("/api/webhooks/twilio/inbound", "", form(first, nil), http.StatusForbidden)
	byTwilio("/api/webhooks/twilio/inbound", "", form("", nil), http.StatusForbidden)
	byTwilio("/api/webhooks/twilio/inbound", "", form(second.SID, url.Values{"MessageSid": {"SM" + strings.Repeat("9", 32)}}), http.StatusOK)
	about := "?message_id=" + message
	byTwilio("/api/webhooks/twilio/status", about, form(first, receipt), http.StatusForbidden)
	byTwilio("/api/webhooks/twilio/status", about, form(second.SID, receipt), http.StatusOK)
	for _, path := range []string{"/api/onboarding/step", "/api/onboarding/step/failed", "/api/goals/execute", "/api/goals/execute/failed"} {
		signed[path] = append(signed[path], struct {
			body string
			of   func(target, body string) (header, signature string)
			want int
		}{step, func(target, body string) (string, string) {
			signature, err := qstash.Sign(second.AuthToken, target, []byte(body), e.b.clock.Now())
			require.NoError(t, err)
			return qstash.HeaderSignature, signature
		}, http.StatusUnauthorized})
	}
	routes := append(sources(t, "*/*.go", `"(/api/[a-z/]+[a-z])"`), "/api/webhooks/kapso", "/api/webhooks/shopify")
	for _, path := range routes {
		target := e.b.services.URL() + path
		if vendor, ok := strings.CutPrefix(path, "/api/webhooks/"); ok && !strings.Contains(vendor, "/") {
			e.vendor(t, vendor, target, second.AuthToken)
			continue
		}
		require.NotEmpty(t, signed[path], "%s has no attack", path)
		for _, one := range signed[path] {
			name, signature := one.of(target, one.body)
			header := http.Header{name: {signature}, "Content-Type": {"application/x-www-form-urlencoded"}}
			if strings.HasPrefix(one.body, "{") {
				header.Set("Content-Type", "application/json")
			}
			to := target
			if strings.HasSuffix(path, "/status") {
				to += about
			}
			status, _, answer := e.b.post(t, to, header, one.body)
			require.Equal(t, one.want, status, "%s: %s", path, answer)
			e.saw(path, one.body, answer)
		}
	}
}

// vendor posts to a route that is signed with one secret of the deployment.
func (e *edges) vendor(t *testing.T, name, target, secret string) {
	t.Helper()
	switch name {
	case "kapso":
		status, _ := e.b.kapso(t, secret, "k", whatsApp(t, "wamid.1", strings.TrimPrefix(e.p.phone, "+"), "STOP"))
		require.Equal(t, http.StatusUnauthorized, status)
	case "shopify":
		status, _, _ := e.b.post(t, target, http.Header{"X-Shopify-Hmac-Sha256": {secret}}, `{}`)
		require.Equal(t, http.StatusUnauthorized, status)
		// What one shop was signed for is not another one's, and what ours asks for is done to our people alone.
		for _, one := range []struct {
			shop, signed string
			want         int
		}{{"theirs", "ours", http.StatusBadRequest}, {"ours", "ours", http.StatusAccepted}} {
			body := `{"shop_domain":"` + one.signed + `.myshopify.com","customer":{"phone":"` + e.p.phone + `"}}`
			status, answer := e.b.shopify(t, one.shop+".myshopify.com", one.shop, body)
			require.Equal(t, one.want, status, "%s", answer)
			e.saw(target, body, answer)
		}
	default:
		require.Failf(t, "no attack", "%s", name)
	}
	e.calls++
}

// keys uses the other's idempotency key with the same words: it finds nothing of the other, and makes a text for us.
func (e *edges) keys(t *testing.T, operator string) {
	t.Helper()
	body := map[string]any{"to": "+14155550133", "purpose": "otp", "body": "Your code is 1234.", "idempotency_key": "theirs-1"}
	status, answer := e.b.try(t, operator, http.MethodPost, "/v1/outbound", body)
	require.Contains(t, []int{http.StatusOK, http.StatusCreated}, status, "%s", answer)
	require.NotContains(t, string(answer), e.loot.of("text_id"))
	_, again := e.b.try(t, operator, http.MethodPost, "/v1/outbound", body)
	require.JSONEq(t, withoutTimes(t, answer), withoutTimes(t, again), "and finds that again")
	e.calls += 2
	e.said.WriteString("Your code is 1234.") // is ours by now, too
}

// withoutTimes is an answer's id alone.
func withoutTimes(t *testing.T, answer []byte) string {
	t.Helper()
	var made struct {
		Text struct {
			TextID string `json:"text_id"`
		} `json:"text"`
	}
	require.NoError(t, json.Unmarshal(answer, &made))
	return fmt.Sprintf("%q", made.Text.TextID)
}

// events reads the stream of events from its beginning, and from the other's place.
func (e *edges) events(t *testing.T, operator string) {
	t.Helper()
	for _, after := range []string{"0", "5", "1000000"} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.b.services.URL()+"/v1/events:stream", nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+operator)
		req.Header.Set("Last-Event-ID", after)
		resp, err := e.b.http.Do(req)
		require.NoError(t, err)
		heard, _ := io.ReadAll(resp.Body) // until it is cut off
		require.NoError(t, resp.Body.Close())
		cancel()
		e.saw("/v1/events:stream", "", string(heard))
	}
}

// console asks for every page, and does every deed, with the other's ids in its path and in each field of its form.
func (e *edges) console(t *testing.T, operator string) {
	t.Helper()
	mine := e.session(t, operator)
	theirs := e.session(t, e.b.operator)
	words := map[string]string{"{deed}": "hold", "{kind}": "profiles", "{preference}": "reminders", "{name}": "x", "{flow}": "welcome"}
	fields := sources(t, "console/pages/*.html", `name="(\w+)"`)
	paths := append(sources(t, "console/*.go", `root \+ "(/[^"]*)"`), sources(t, "console/operations/*.go", `p\.Root \+ "(/[^"]*)"`)...)
	for _, method := range []string{http.MethodGet, http.MethodPost} { // what was posted may be shown
		for _, path := range append(paths, "") {
			if method == http.MethodGet && (path == "/live" || path == "/audit") {
				continue // a stream, and what we have asked for ourselves
			}
			for _, guess := range e.loot.first {
				address := "/console" + parameters.ReplaceAllStringFunc(path, func(name string) string {
					if word := words[name]; word != "" {
						return word
					}
					return guess
				})
				form := url.Values{}
				for _, field := range fields {
					form.Set(field, cmp.Or(e.loot.of(field), guess))
				}
				form.Del("back")
				if method == http.MethodGet {
					e.visit(t, mine, method, address+"?"+form.Encode(), nil)
				} else {
					e.visit(t, mine, method, address, form)
				}
				if !strings.Contains(path, "{") {
					break
				}
			}
		}
	}
	// Our page cannot have their reader post a form, whatever the cookie.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.b.services.URL()+"/console/people/"+e.p.id+"/hold", nil)
	require.NoError(t, err)
	req.Header.Set("Sec-Fetch-Site", "cross-site")
	req.AddCookie(theirs)
	status, _ := e.b.send(t, req)
	require.Equal(t, http.StatusForbidden, status)
	// Their notice, which may hold a secret, is shown to them alone, also when we sign in to the same browser.
	_, kept := e.cookies(t, http.MethodPost, "/console/people/"+uuid.NewString()+"/hold", url.Values{}, theirs)
	require.Contains(t, kept, "paceline-notice")
	for _, reader := range []struct {
		session *http.Cookie
		shown   bool
	}{{mine, false}, {theirs, true}} {
		_, taken := e.cookies(t, http.MethodGet, "/console/people", nil, reader.session, kept["paceline-notice"])
		_, shown := taken["paceline-notice"] // a notice that was shown is taken back
		require.Equal(t, reader.shown, shown)
	}
}

// cookies makes one request of the console and returns its status with the cookies of the answer.
func (e *edges) cookies(t *testing.T, method, address string, form url.Values, with ...*http.Cookie) (int, map[string]*http.Cookie) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, e.b.services.URL()+address, strings.NewReader(form.Encode()))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for _, cookie := range with {
		req.AddCookie(cookie)
	}
	resp, err := e.b.http.Transport.RoundTrip(req) // the answer may lead on, and has the cookies
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	e.calls++
	all := map[string]*http.Cookie{}
	for _, cookie := range resp.Cookies() {
		all[cookie.Name] = cookie
	}
	return resp.StatusCode, all
}

// session signs in to the console and returns the cookie.
func (e *edges) session(t *testing.T, token string) *http.Cookie {
	t.Helper()
	status, given := e.cookies(t, http.MethodPost, "/console/sign-in", url.Values{"token": {token}, "to": {"/console"}})
	require.Equal(t, http.StatusSeeOther, status)
	require.Contains(t, given, "paceline")
	return given["paceline"]
}

func (e *edges) visit(t *testing.T, as *http.Cookie, method, address string, form url.Values) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, e.b.services.URL()+address, strings.NewReader(form.Encode()))
	require.NoError(t, err)
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	req.AddCookie(as)
	status, answer := e.b.send(t, req)
	require.NotZero(t, status, "%s %s: %s", method, address, answer)
	asked, err := url.QueryUnescape(address + form.Encode())
	require.NoError(t, err)
	if method == http.MethodPost {
		e.said.WriteString(asked)
	}
	e.saw(method+" "+address, asked, string(answer))
}
