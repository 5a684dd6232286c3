package qstash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// DefaultURL is the public endpoint of QStash's EU region. Regions share nothing: tokens, keys and messages of one
// are unknown to the other.
const DefaultURL = "https://qstash.upstash.io"

// maxAnswer bounds what is read of an answer, in bytes. The largest is a page of dead letters with their bodies.
const maxAnswer = 16 << 20

// Config names the QStash to speak to, and the account to speak as.
type Config struct {
	// URL is a bare origin; empty means DefaultURL. A path, query or user in it is an error, because QStash would
	// read it as part of the destination.
	URL string
	// Token is the publishing token of the same region as URL. It never appears in an error.
	Token string
	// HTTPClient carries the calls; nil means one with a connection pool and a timeout of 10 s. Redirects are never followed.
	HTTPClient *http.Client
}

// Client speaks QStash's REST API. It is safe for concurrent use.
type Client struct {
	origin string
	token  string
	http   *http.Client
}

// New checks the configuration and returns a client. It makes no call.
func New(cfg Config) (*Client, error) {
	origin, err := parseOrigin(cfg.URL)
	if err != nil {
		return nil, err
	}
	if cfg.Token == "" || strings.ContainsAny(cfg.Token, " \t\r\n") {
		return nil, errors.New("qstash: the token is empty or contains white space")
	}
	return &Client{origin: origin, token: cfg.Token, http: withoutRedirects(cfg.HTTPClient)}, nil
}

// Keys are the signing keys of the account. Both are secrets.
type Keys struct {
	Current string `json:"current"`
	Next    string `json:"next"`
}

// Keys reads the signing keys that QStash uses now, to be compared with the configured ones.
func (c *Client) Keys(ctx context.Context) (Keys, error) {
	var keys Keys
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/v2/keys"}, &keys)
	return keys, err
}

// Error is an answer of QStash other than success.
type Error struct {
	// Status is the HTTP status: 400 bad input, 401 bad token, 404 unknown (also: a token of another region),
	// 412 limit of the plan, 429 limit of the rate.
	Status int
	// Message is QStash's own explanation, shortened and without the token.
	Message string
	// RetryAfter is the wait that QStash asks for, zero when it does not say.
	RetryAfter time.Duration
}

// Error tells status and explanation.
func (e *Error) Error() string { return fmt.Sprintf("qstash: status %d: %s", e.Status, e.Message) }

// Temporary reports whether the same request may succeed later.
func (e *Error) Temporary() bool {
	return e.Status == http.StatusTooManyRequests || e.Status >= http.StatusInternalServerError
}

// call is one request to the API. The path follows the origin verbatim.
type call struct {
	method string
	path   string
	header http.Header
	body   []byte
}

// do sends one call, decodes a successful answer into answer, and returns the status.
// Whatever is no success is an *Error; a connection that failed is net/http's own error.
func (c *Client) do(ctx context.Context, send call, answer any) (int, error) {
	req, err := http.NewRequestWithContext(ctx, send.method, c.origin+send.path, bytes.NewReader(send.body))
	if err != nil {
		return 0, fmt.Errorf("%w: the request cannot be built", ErrInvalid)
	}
	// net/url may rewrite what it considers unclean; a destination must arrive, and be signed, as it was given.
	if req.URL.RequestURI() != send.path {
		return 0, fmt.Errorf("%w: the destination is not a clean URL", ErrInvalid)
	}
	if send.header != nil {
		req.Header = send.header.Clone()
	}
	req.Header.Set("Authorization", "Bearer "+c.token)

	resp, err := c.http.Do(req)
	if err != nil {
		return 0, fmt.Errorf("qstash: %w", err)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return resp.StatusCode, fmt.Errorf("qstash: reading the answer: %w", err)
	}
	if len(body) > maxAnswer {
		return resp.StatusCode, fmt.Errorf("%w: too large", errUnreadable)
	}
	if resp.StatusCode/100 != 2 {
		return resp.StatusCode, c.refusal(resp, body)
	}
	if err := json.Unmarshal(body, answer); err != nil {
		return resp.StatusCode, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	return resp.StatusCode, nil
}

// errUnreadable marks an answer that says success and is not what QStash answers, so something else is at that URL.
var errUnreadable = errors.New("qstash: unreadable answer")

// refusal builds the error from {"error": "..."} and the headers that say when to come back.
func (c *Client) refusal(resp *http.Response, body []byte) *Error {
	var said struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &said) != nil || said.Error == "" {
		said.Error = http.StatusText(resp.StatusCode)
	}
	const enough = 300
	text := strings.ReplaceAll(said.Error, c.token, "***")
	return &Error{
		Status:     resp.StatusCode,
		Message:    strings.ToValidUTF8(text[:min(len(text), enough)], ""),
		RetryAfter: retryAfter(resp.Header),
	}
}

// retryAfter reads Retry-After in seconds, else the reset instants of QStash's burst and daily limits. Those are
// unix seconds; they are compared with the answer's own Date, so that our clock's error does not matter.
func retryAfter(h http.Header) time.Duration {
	if s, err := strconv.Atoi(h.Get("Retry-After")); err == nil && s >= 0 {
		return time.Duration(s) * time.Second
	}
	date, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return 0
	}
	for _, name := range []string{"Burst-RateLimit-Reset", "RateLimit-Reset"} {
		if reset, err := strconv.ParseInt(h.Get(name), 10, 64); err == nil {
			return max(0, time.Unix(reset, 0).Sub(date))
		}
	}
	return 0
}

func parseOrigin(raw string) (string, error) {
	if raw == "" {
		return DefaultURL, nil
	}
	u, err := url.Parse(strings.TrimRight(raw, "/"))
	switch {
	case err != nil, u.Scheme != "https" && u.Scheme != "http", u.Hostname() == "":
		return "", errors.New("qstash: the URL is not an http or https origin")
	case u.User != nil, u.Path != "", u.RawQuery != "", u.Fragment != "":
		return "", errors.New("qstash: the URL must be a bare origin, without user, path, query or fragment")
	}
	return u.Scheme + "://" + u.Host, nil
}

// withoutRedirects copies the client: a redirect would take the token and the body elsewhere, and loses the method.
func withoutRedirects(given *http.Client) *http.Client {
	if given == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // the standard library's own type
		transport.MaxIdleConnsPerHost = 64
		given = &http.Client{Transport: transport, Timeout: 10 * time.Second}
	}
	own := *given
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &own
}
