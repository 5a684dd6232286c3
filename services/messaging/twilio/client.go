// Package twilio sends messages through Twilio's Messages API and says of every attempt exactly one of four things:
// accepted, rejected, throttled or unknown. It also looks up what Twilio has.
package twilio

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/twilio/twilio-go/client"
	openapi "github.com/twilio/twilio-go/rest/api/v2010"
)

const (
	defaultAPIURL  = "https://api.twilio.com"
	defaultTimeout = 10 * time.Second
	// idleConnections must be at least the number of sends in flight. With Go's default of 2, three quarters of all
	// sends dial and shake hands anew, at nine times the CPU.
	idleConnections = 512
)

// Config names the account that sends, the sender that it sends as, and the origin that it sends through.
type Config struct {
	AccountSID string // required: letters and digits, beginning with "AC"
	APIKeySID  string // of the key that has AuthToken as its secret, beginning with "SK"; empty when AuthToken is the account's own
	AuthToken  string // required: letters and digits
	APIURL     string // a bare origin; default https://api.twilio.com

	// Exactly one of these is the sender.
	MessagingServiceSID string // begins with "MG"
	FromNumber          string // a number of the account, in E.164

	Timeout   time.Duration     // of one call, from dialling to the last byte of the answer; default 10 s
	Transport http.RoundTripper // default: its own, tuned for many sends in flight
}

// Client sends messages. It is safe for concurrent use. Make one with New and end it with Close.
type Client struct {
	account     string
	credentials *client.Credentials
	origin      *url.URL
	service     *string // the sender: this or from
	from        *string
	timeout     time.Duration
	transport   http.RoundTripper
}

// New checks the configuration, reporting everything wrong with it at once and never the token itself. It does not
// call Twilio.
func New(cfg Config) (*Client, error) {
	origin, err := url.Parse(cmp.Or(cfg.APIURL, defaultAPIURL))
	if err != nil || !isOrigin(origin) {
		err = errors.New("APIURL is not a bare http or https origin")
	}
	check := func(ok bool, problem string) error {
		if ok {
			return nil
		}
		return errors.New(problem)
	}
	err = errors.Join(err,
		check(strings.HasPrefix(cfg.AccountSID, "AC"), "AccountSID does not begin with AC"),
		// twilio-go refuses other characters at every call; better to know at start-up.
		check(alphanumeric(cfg.AccountSID), "AccountSID has a character that is neither letter nor digit"),
		check(cfg.APIKeySID == "" || strings.HasPrefix(cfg.APIKeySID, "SK"), "APIKeySID does not begin with SK"),
		check(alphanumeric(cfg.APIKeySID), "APIKeySID has a character that is neither letter nor digit"),
		check(cfg.AuthToken != "", "AuthToken is empty"),
		check(alphanumeric(cfg.AuthToken), "AuthToken has a character that is neither letter nor digit"),
		check((cfg.MessagingServiceSID == "") != (cfg.FromNumber == ""), "give exactly one of MessagingServiceSID and FromNumber"),
		check(cfg.MessagingServiceSID == "" || strings.HasPrefix(cfg.MessagingServiceSID, "MG"),
			"MessagingServiceSID does not begin with MG"),
		check(cfg.Timeout >= 0, "Timeout is negative"),
	)
	if err != nil {
		return nil, fmt.Errorf("twilio: %w", err)
	}
	c := &Client{
		account:     cfg.AccountSID,
		credentials: client.NewCredentials(cmp.Or(cfg.APIKeySID, cfg.AccountSID), cfg.AuthToken),
		origin:      origin,
		timeout:     cmp.Or(cfg.Timeout, defaultTimeout),
		transport:   cfg.Transport,
	}
	if cfg.MessagingServiceSID != "" {
		c.service = &cfg.MessagingServiceSID
	} else {
		c.from = &cfg.FromNumber
	}
	if c.transport == nil {
		c.transport = newTransport()
	}
	return c, nil
}

// Outgoing is one message to send.
type Outgoing struct {
	To             string // E.164
	Body           string // at most 1600 characters
	StatusCallback string // where receipts go, fragment included; empty for none
}

// Send makes one attempt, within the timeout and the caller's context, and returns its outcome. It never repeats the
// attempt itself: Twilio has no idempotency key, so that is a decision for the owner of the row.
func (c *Client) Send(ctx context.Context, out Outgoing) Outcome {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	call, handler := c.exchange(ctx, c.origin, maxAnswer)
	api := openapi.NewApiService(handler)
	params := &openapi.CreateMessageParams{
		To: &out.To, Body: &out.Body, MessagingServiceSid: c.service, From: c.from,
	}
	if out.StatusCallback != "" {
		params.StatusCallback = &out.StatusCallback
	}
	message, err := api.CreateMessage(params)
	return classify(call.result(), message, err)
}

// exchange is one call to an origin of Twilio's, which reads at most limit bytes of its answer. twilio-go takes neither a context nor a
// base URL, so each call gets its own client, a few small structs, around the exchange that adds both. The connections are shared.
func (c *Client) exchange(ctx context.Context, origin *url.URL, limit int64) (*exchange, *client.RequestHandler) {
	call := &exchange{ctx: ctx, origin: origin, transport: c.transport, limit: limit}
	base := &client.Client{Credentials: c.credentials, HTTPClient: &http.Client{Transport: call, CheckRedirect: stay}}
	base.SetAccountSid(c.account)
	return call, &client.RequestHandler{Client: base}
}

// Transport returns the connections, for a client of another account to share.
func (c *Client) Transport() http.RoundTripper { return c.transport }

// Close closes idle connections. Sends in flight are not disturbed.
func (c *Client) Close() {
	(&http.Client{Transport: c.transport}).CloseIdleConnections()
}

// stay keeps a redirect from being followed, which would send the message's form to another place.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// newTransport speaks HTTP/1.1 only: there a broken connection makes one send's outcome unknown, with HTTP/2 it would
// make that of every send in flight unknown.
//
// A connection is closed by a reset (a linger of 0). Otherwise the kernel goes on repeating, for minutes after we gave a call up and closed
// its connection, what the network did not deliver: when the network comes back, Twilio gets a message that we have sent again
// since, or after its recipient has said STOP.
func newTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, addr)
			if tcp, ok := conn.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0) // it is closed all the same
			}
			return conn, err
		},
		Protocols:           protocols,
		MaxIdleConns:        idleConnections,
		MaxIdleConnsPerHost: idleConnections,
		IdleConnTimeout:     60 * time.Second,
		TLSHandshakeTimeout: 5 * time.Second,
	}
}

func isOrigin(u *url.URL) bool {
	return (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil &&
		(u.Path == "" || u.Path == "/") && u.RawQuery == "" && u.Fragment == ""
}

func alphanumeric(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) < 0
}
