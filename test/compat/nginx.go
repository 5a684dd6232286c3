package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"

	"paceline.internal/deploy/operator"
	"paceline.internal/deploy/stack"
	"paceline.internal/emulators/twilio"
	"paceline.internal/gateway"
)

// stranger is an address of this machine that is not the proxy's.
const stranger = "127.0.0.2"

// behindNginx is what is tried through nginx.
type behindNginx struct {
	proxy *nginxServer
	site  *site        // the gateway behind it
	echo  *nginxServer // in front of a server that answers with what arrived
}

// judgeNginx runs Debian's nginx with deploy/proxy/nginx.conf in front of a whole product, whose vendors reach it through nginx alone, and
// in front of a server that says what arrives.
func judgeNginx(ctx context.Context, _ *site) (results []result, err error) {
	binary, err := nginxBinary()
	if err != nil {
		return nil, err
	}
	version, err := nginxVersion(ctx, binary)
	if err != nil {
		return nil, err
	}
	b := &behindNginx{}
	// The address of the gateway is chosen before nginx starts, and that of nginx before the vendors do.
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	if b.proxy, err = startNginx(ctx, binary, port); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.proxy.close()) }()
	unreachable := b.call("a gateway that is down: 502 in the one shape of errors", b.answersForTheGateway(ctx))
	// The vendors' HTTP is in the clear, and dial ends it in TLS: they need not know the certificate.
	if b.site, err = openSite(ctx, stack.VendorConfig{DialQStash: b.proxy.dial, DialTwilio: b.proxy.dial}, stack.ServiceConfig{
		Addresses: stack.Addresses{Gateway: port}, Environ: map[string]string{"PUBLIC_BASE_URL": "http://" + nginxName},
	}); err != nil {
		return nil, err
	}
	b.site.vendors.Twilio.SetInboundURL("http://" + nginxName + "/api/webhooks/twilio/inbound")
	defer func() { err = errors.Join(err, b.site.close(ctx)) }()
	echo, err := serve(ctx, http.HandlerFunc(sayBack))
	if err != nil {
		return nil, err
	}
	defer echo.close()
	if b.echo, err = startNginx(ctx, binary, strings.TrimPrefix(echo.url, "http://")); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.echo.close()) }()
	results = []result{
		unreachable,
		b.call("another name, or none: no handshake", b.refusesOtherNames(ctx)),
		b.call("a conversation: every callback of QStash and Twilio verifies", b.conversation(ctx)),
		b.call("GET /v1/events:stream: an event arrives while the stream is open", b.stream(ctx)),
		b.call("GET /v1/devices/{device_id}/connect: a WebSocket is welcomed", b.device(ctx)),
		b.call("a body of 64 KiB passes, one byte more is 413; Shopify's may have 1 MiB", b.bodies(ctx)),
		b.call("a token of 8 KiB passes, a header over 32 KiB does not", b.headers(ctx)),
		b.call("path, query, body and signatures arrive as they were sent", b.raw(ctx)),
		b.call("X-Forwarded-For of a stranger is replaced, X-Request-Id is passed on", b.whoAsks(ctx)),
		b.call("connections to the gateway are kept", b.keepsConnections(ctx)),
		b.call("no log has a path, a query or a phone", b.discreet(ctx)),
	}
	for i := range results {
		results[i].Version = version
	}
	return results, nil
}

func (b *behindNginx) call(name string, err error) result {
	r := result{Tool: "nginx", Call: name, Outcome: passed}
	if err != nil {
		r.Outcome, r.Note = failed, err.Error()
	}
	return r
}

// api is /v1 through nginx, as an operator.
func (b *behindNginx) api() *operator.Client {
	return &operator.Client{BaseURL: "https://" + nginxName, Token: b.site.operator, HTTP: b.proxy.client()}
}

// conversation plays a person until the first message of the burst, which an alarm of QStash sends, was reported as delivered. The vendors
// know the gateway's origin, and sign for it; their connections end at nginx.
func (b *behindNginx) conversation(ctx context.Context) error {
	const phone = "+12025550171"
	events, err := b.follow(ctx, "message.delivered")
	if err != nil {
		return err
	}
	defer events.close()
	person, err := b.api().Enrol(ctx, operator.Person{Phone: phone, FirstName: "Ana", Locale: "en"})
	if err != nil {
		return err
	}
	if _, err := b.api().Activate(ctx, person.ProfileID); err != nil {
		return err
	}
	for _, words := range []string{"Sounds good!", "ok, go ahead"} { // each after the receipt of what it answers
		if err := events.next(); err != nil {
			return fmt.Errorf("no receipt came before %q: %w", words, err)
		}
		said, err := b.site.vendors.Twilio.ReceiveText(ctx, twilio.Incoming{From: phone, To: stack.FromNumber, Body: words})
		if err != nil {
			return err
		}
		if said.StatusCode != http.StatusOK {
			return fmt.Errorf("an inbound text was answered %d", said.StatusCode)
		}
	}
	for range 2 { // the explanation, and what the alarm has sent
		if err := events.next(); err != nil {
			return fmt.Errorf("no receipt came: %w", err)
		}
	}
	log, err := b.proxy.log()
	if posts := strings.Count(log, " POST 200 "); err == nil && posts < 8 { // 2 of the operator, 2 texts, an alarm, receipts
		err = fmt.Errorf("nginx has seen %d of the calls", posts)
	}
	return err
}

// stream opens a stream, and then has something happen.
func (b *behindNginx) stream(ctx context.Context) error {
	events, err := b.follow(ctx, "session.activated")
	if err != nil {
		return err
	}
	defer events.close()
	person, err := b.api().Enrol(ctx, operator.Person{Phone: "+12025550172", FirstName: "Bo", Locale: "en"})
	if err != nil {
		return err
	}
	if _, err := b.api().Activate(ctx, person.ProfileID); err != nil {
		return err
	}
	return events.next()
}

func (b *behindNginx) device(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, eventBound)
	defer cancel()
	person, err := b.api().Enrol(ctx, operator.Person{Phone: "+12025550173", FirstName: "Cy", Locale: "en"})
	if err != nil {
		return err
	}
	var made struct {
		Device struct {
			DeviceID string `json:"device_id"`
		}
		Token string
	}
	in := map[string]string{"profile_id": person.ProfileID, "name": "compat"}
	if err := b.api().Call(ctx, http.MethodPost, "/v1/devices", in, &made); err != nil {
		return err
	}
	path := "/v1/devices/" + made.Device.DeviceID + "/connect"
	conn, _, err := websocket.Dial(ctx, "wss://"+nginxName+path, &websocket.DialOptions{ //nolint:bodyclose // the library closes it
		HTTPClient: b.proxy.client(), HTTPHeader: http.Header{"Authorization": {"Bearer " + made.Token}},
	})
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseNow() }() // after a failure
	if err := conn.Write(ctx, websocket.MessageText, []byte(`{"hello":{"client":"compat"}}`)); err != nil {
		return err
	}
	_, frame, err := conn.Read(ctx)
	if err == nil && !bytes.Contains(frame, []byte(`"welcome"`)) {
		err = fmt.Errorf("the first frame is no welcome: %s", frame)
	}
	return errors.Join(err, conn.Close(websocket.StatusNormalClosure, ""))
}

func (b *behindNginx) bodies(ctx context.Context) error {
	bounds := gateway.ProxyBounds()
	known := http.Header{"Authorization": {"Bearer " + b.site.operator}}
	var problems []error
	for _, c := range []struct {
		path, by string
		size     int64
		want     int
	}{
		{"/v1/profiles", "paceline.onboarding.v1", bounds.Body, http.StatusBadRequest}, // read whole: it has no phone
		{"/v1/profiles", "paceline.proxy", bounds.Body + 1, http.StatusRequestEntityTooLarge},
		{bounds.Shopify, "paceline.gateway", bounds.ShopifyBody, http.StatusNotFound}, // it is not configured
		{bounds.Shopify, "paceline.proxy", bounds.ShopifyBody + 1, http.StatusRequestEntityTooLarge},
	} {
		body := "{" + strings.Repeat(" ", int(c.size)-2) + "}"
		problems = append(problems, b.refuses(ctx, http.MethodPost, c.path, known, body, c.want, c.by))
	}
	return errors.Join(problems...)
}

func (b *behindNginx) headers(ctx context.Context) error {
	long := http.Header{"Authorization": {"Bearer " + strings.Repeat("x", 8<<10)}}
	huge := maps.Clone(long)
	for _, name := range []string{"A", "B", "C", "D"} {
		huge["X-"+name] = []string{strings.Repeat("x", 8<<10)}
	}
	response, err := b.ask(ctx, b.proxy, http.MethodGet, "/v1/sessions", huge, "")
	if err == nil && response.status != http.StatusBadRequest {
		err = fmt.Errorf("40 KiB of headers are answered %d", response.status)
	}
	return errors.Join(err, b.refuses(ctx, http.MethodGet, "/v1/sessions", long, "", http.StatusUnauthorized, "paceline.gateway"))
}

// refuses makes a call whose error must come from a domain, in the one shape of errors.
func (b *behindNginx) refuses(ctx context.Context, method, path string, header http.Header, body string, status int, by string) error {
	response, err := b.ask(ctx, b.proxy, method, path, header, body)
	if err != nil {
		return err
	}
	var said struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Details []struct {
			Reason string `json:"reason"`
			Domain string `json:"domain"`
		} `json:"details"`
	}
	if err := json.Unmarshal(response.body, &said); err != nil {
		return fmt.Errorf("%s of %d bytes: %d: %w", path, len(body), response.status, err)
	}
	if response.status != status || said.Code == 0 || said.Message == "" || len(said.Details) == 0 || said.Details[0].Domain != by {
		return fmt.Errorf("%s of %d bytes: %d, want %d by %s: %+v", path, len(body), response.status, status, by, said)
	}
	return nil
}

func (b *behindNginx) answersForTheGateway(ctx context.Context) error {
	b.site = &site{}
	err := b.refuses(ctx, http.MethodGet, "/v1/sessions", nil, "", http.StatusBadGateway, "paceline.proxy")
	response, asked := b.ask(ctx, b.proxy, http.MethodGet, "/", nil, "")
	if asked == nil && response.header.Get("Retry-After") == "" {
		asked = errors.New("502 has no Retry-After")
	}
	return errors.Join(err, asked)
}

func (b *behindNginx) refusesOtherNames(ctx context.Context) error {
	for _, name := range []string{"other.example.com", ""} {
		//nolint:gosec // whose certificate would come is not asked: none may
		conn, err := (&tls.Dialer{Config: &tls.Config{ServerName: name, InsecureSkipVerify: true}}).DialContext(ctx, "tcp", b.proxy.addr)
		if err == nil {
			return errors.Join(fmt.Errorf("%q got a handshake", name), conn.Close())
		}
	}
	return nil
}

func (b *behindNginx) raw(ctx context.Context) error {
	target := "/api/onboarding//step/%2E%2e/../x%2Fy;v=1?z=%20+&z=&%41=%c3%a9"
	body := "MessageSid=SM1&Body=a+b%20c\x00\xff\r\n"
	header := http.Header{
		"X-Twilio-Signature": {"a+b/c="}, "Upstash-Signature": {"e30.e30.x_-"}, "Content-Type": {"application/x-www-form-urlencoded"},
	}
	got, err := b.arrives(ctx, http.MethodPost, target, header, body)
	if err != nil {
		return err
	}
	switch {
	case got.Target != target:
		return fmt.Errorf("the target arrives as %q", got.Target)
	case !bytes.Equal(got.Body, []byte(body)):
		return fmt.Errorf("the body arrives as %q", got.Body)
	case got.Host != nginxName:
		return fmt.Errorf("the host arrives as %q", got.Host)
	}
	for name, values := range header {
		if !slices.Equal(got.Header[name], values) {
			return fmt.Errorf("%s arrives as %q", name, got.Header[name])
		}
	}
	return nil
}

func (b *behindNginx) whoAsks(ctx context.Context) error {
	forged := http.Header{"X-Forwarded-For": {"203.0.113.9", "10.0.0.1"}, "X-Request-Id": {"mine-1"}}
	for _, target := range []string{"/v1/sessions", "/v1/events:stream", "/v1/devices/x/connect"} {
		got, err := b.arrives(ctx, http.MethodGet, target, forged, "")
		if err != nil {
			return err
		}
		if !slices.Equal(got.Header["X-Forwarded-For"], []string{stranger}) || !slices.Equal(got.Header["X-Request-Id"], []string{"mine-1"}) {
			return fmt.Errorf("%s: X-Forwarded-For arrives as %q, X-Request-Id as %q",
				target, got.Header["X-Forwarded-For"], got.Header["X-Request-Id"])
		}
	}
	return nil
}

func (b *behindNginx) keepsConnections(ctx context.Context) error {
	client, connections := b.echo.client(), map[string]bool{}
	defer client.CloseIdleConnections()
	for range 20 {
		response, err := exchange(ctx, client, http.MethodGet, "/", nil, "")
		if err != nil {
			return err
		}
		var got arrived
		if err := json.Unmarshal(response.body, &got); err != nil {
			return err
		}
		connections[got.From] = true
	}
	if len(connections) > 1 {
		return fmt.Errorf("20 calls of one client needed %d connections", len(connections))
	}
	return nil
}

func (b *behindNginx) discreet(ctx context.Context) error {
	const phone = "+12025550174"
	header := http.Header{"Authorization": {"Bearer " + b.site.operator}}
	for _, path := range []string{"/v1/consents/" + phone, "/v1/sessions?phone=" + url.QueryEscape(phone)} {
		if _, err := b.ask(ctx, b.proxy, http.MethodGet, path, header, ""); err != nil {
			return err
		}
	}
	log, err := b.proxy.log()
	if err == nil && !strings.Contains(log, " GET 404 ") {
		err = errors.New("the log does not have the call")
	}
	for _, word := range []string{"2025550174", "/v1", "phone", "Bearer"} {
		if strings.Contains(log, word) {
			err = fmt.Errorf("the log has %q", word)
		}
	}
	return err
}

// answered is an answer that was read.
type answered struct {
	status int
	header http.Header
	body   []byte
}

// ask makes one call on a connection of its own.
func (*behindNginx) ask(
	ctx context.Context, proxy *nginxServer, method, target string, header http.Header, body string,
) (answered, error) {
	client := proxy.client()
	defer client.CloseIdleConnections()
	got, err := exchange(ctx, client, method, target, header, body)
	if err != nil { // nginx may know more
		log, unread := proxy.log()
		err = errors.Join(fmt.Errorf("%w; nginx: %s", err, log[max(0, len(log)-200):]), unread)
	}
	return got, err
}

func exchange(ctx context.Context, client *http.Client, method, target string, header http.Header, body string) (_ answered, err error) {
	ctx, cancel := context.WithTimeout(ctx, eventBound)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "https://"+nginxName, strings.NewReader(body))
	if err != nil {
		return answered{}, err
	}
	request.URL.Opaque = "//" + nginxName + target // sent as it stands, whatever it holds
	if header != nil {
		request.Header = header.Clone()
	}
	response, err := client.Do(request)
	if err != nil {
		return answered{}, err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	got, err := io.ReadAll(io.LimitReader(response.Body, 4<<20))
	return answered{response.StatusCode, response.Header, got}, err
}

// arrived is a request as the server behind nginx gets it.
type arrived struct {
	From   string      `json:"from"`
	Target string      `json:"target"`
	Host   string      `json:"host"`
	Header http.Header `json:"header"`
	Body   []byte      `json:"body"`
}

func (b *behindNginx) arrives(ctx context.Context, method, target string, header http.Header, body string) (got arrived, err error) {
	response, err := b.ask(ctx, b.echo, method, target, header, body)
	if err != nil {
		return got, err
	}
	return got, json.Unmarshal(response.body, &got)
}

// sayBack answers with what arrived.
func sayBack(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(arrived{r.RemoteAddr, r.RequestURI, r.Host, r.Header, body}) // who does not read it misses it
}

// eventBound is how long anything may take that happens at once.
const eventBound = 20 * time.Second

// followed is an open stream of events.
type followed struct {
	response *http.Response
	lines    *bufio.Reader
	cancel   context.CancelFunc
}

// follow opens the stream, and returns once it has begun.
func (b *behindNginx) follow(ctx context.Context, types string) (*followed, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*eventBound)
	target := "https://" + nginxName + gateway.ProxyBounds().Events + "?types=" + types
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	if err != nil {
		cancel()
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+b.site.operator)
	response, err := b.proxy.client().Do(request) //nolint:bodyclose // close does
	if err != nil {
		cancel()
		return nil, err
	}
	f := &followed{response: response, lines: bufio.NewReader(response.Body), cancel: cancel}
	if response.StatusCode != http.StatusOK {
		f.close()
		return nil, fmt.Errorf("the stream is answered %d", response.StatusCode)
	}
	if err := f.until(": events"); err != nil { // the gateway's first words
		f.close()
		return nil, err
	}
	return f, nil
}

// next waits for an event.
func (f *followed) next() error { return f.until("data: ") }

func (f *followed) until(prefix string) error {
	for {
		line, err := f.lines.ReadString('\n')
		if err != nil || strings.HasPrefix(line, prefix) {
			return err
		}
	}
}

func (f *followed) close() {
	f.cancel()
	_ = f.response.Body.Close() // it was broken off
}

func freePort(ctx context.Context) (string, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}
