package events

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"syscall"
	"time"

	"code.dny.dev/ssrf"

	"paceline.internal/platform/queue"
)

const (
	// DeliveriesTable is the queue of deliveries.
	DeliveriesTable = "event_deliveries"
	// DeliveryType is the one type of its jobs. The event's own has a column, so that a release that does not know it delivers it, too.
	DeliveryType = "delivery"

	// MediaType is an event's, by CloudEvents' binding of HTTP.
	MediaType = "application/cloudevents+json"

	// Tries is the number of tries of a delivery, over two days.
	Tries = 12
	// DeliveryTimeout bounds one try, with the connection.
	DeliveryTimeout = 15 * time.Second
	connectTimeout  = 5 * time.Second
	// noteTimeout bounds what is noted of a try that failed.
	noteTimeout = 5 * time.Second
	// textWait is the time until the text of a message that messaging could not give is asked for again.
	textWait = 10 * time.Second
	// endedWait is the time after which a delivery of an organisation that has ended is looked at again.
	endedWait = 10 * time.Minute
	// maxURL bounds the URL of a subscriber, in bytes.
	maxURL = 2000
	// maxAnswer bounds the part of an answer that is read, so that the connection can be used again.
	maxAnswer = 4 << 10
	// maxRetryAfter bounds what a subscriber may ask to be waited for.
	maxRetryAfter = time.Hour
)

// Backoff returns the wait between the n-th failure of a delivery and its next try.
func Backoff(n int) time.Duration {
	waits := []time.Duration{
		5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 4 * time.Hour,
		8 * time.Hour, 12 * time.Hour, 20 * time.Hour,
	}
	return waits[min(max(n, 1), len(waits))-1]
}

// CourierConfig configures a Courier.
type CourierConfig struct {
	Subscriptions *Store
	Messaging     messaging
	Networks      []netip.Prefix // that may be connected to although they are not public
	Logger        *slog.Logger
	Now           func() time.Time
}

// Courier posts events to their subscribers.
type Courier struct {
	CourierConfig

	routes map[string]route // by scheme
}

// route connects to subscribers.
type route struct {
	allow  func(network, address string, c syscall.RawConn) error // of a dialer
	client *http.Client
}

// NewCourier returns a courier that connects to public addresses and the allowed networks, whatever a name resolves to, and in plain text
// to the allowed networks only. It goes through no proxy, and follows no redirect.
func NewCourier(cfg CourierConfig) *Courier {
	var v4, v6 []netip.Prefix
	for _, network := range cfg.Networks {
		if network.Addr().Is4() {
			v4 = append(v4, network)
		} else {
			v6 = append(v6, network)
		}
	}
	public := ssrf.New(ssrf.WithAnyPort(), ssrf.WithAllowedV4Prefixes(v4...), ssrf.WithAllowedV6Prefixes(v6...))
	allowed := func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err == nil && slices.ContainsFunc(cfg.Networks, func(n netip.Prefix) bool { return n.Contains(at.Addr().Unmap()) }) {
			return nil
		}
		return fmt.Errorf("%s is not in EVENTS_ALLOW_PRIVATE_TARGETS", at.Addr())
	}
	c := &Courier{CourierConfig: cfg, routes: map[string]route{"https": newRoute(public.Safe)}}
	if len(cfg.Networks) > 0 {
		c.routes["http"] = newRoute(allowed)
	}
	return c
}

// errAddress reports an address that may not be called. It does not name it: who has a key is not to learn where names inside lead.
var errAddress = errors.New("the url leads to an address that may not be called; use a public one, or one of EVENTS_ALLOW_PRIVATE_TARGETS")

func newRoute(allow func(network, address string, c syscall.RawConn) error) route {
	dialer := &net.Dialer{Timeout: connectTimeout, Control: func(network, address string, c syscall.RawConn) error {
		if allow(network, address, c) != nil {
			return errAddress
		}
		return nil
	}}
	return route{allow: allow, client: &http.Client{
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSHandshakeTimeout: connectTimeout, MaxIdleConns: 100, MaxIdleConnsPerHost: 8,
			IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 16 << 10, ForceAttemptHTTP2: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       DeliveryTimeout,
	}}
}

// Close ends the connections that rest.
func (c *Courier) Close() {
	for _, r := range c.routes {
		r.client.CloseIdleConnections()
	}
}

// errPlain refuses a URL that leads outside the allowed networks in plain text.
var errPlain = errors.New("url must begin with https://; http takes a network of EVENTS_ALLOW_PRIVATE_TARGETS")

// CheckURL reports what is wrong with the URL of a subscriber.
func (c *Courier) CheckURL(raw string) error {
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" || len(raw) > maxURL {
		return fmt.Errorf("url must be an absolute URL of at most %d characters", maxURL)
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return errors.New("url must have a port of 1 to 65535, or none")
		}
	}
	if u.User != nil || u.Fragment != "" {
		return errors.New("url must have no user and no fragment; events are signed")
	}
	r, ok := c.routes[u.Scheme]
	if !ok {
		return errPlain
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return nil //nolint:nilerr // a name, which is resolved at each connection
	}
	network := "tcp6"
	if ip = ip.Unmap(); ip.Is4() {
		network = "tcp4"
	}
	if r.allow(network, netip.AddrPortFrom(ip, 443).String(), nil) != nil {
		if u.Scheme == "http" {
			return errPlain
		}
		return errors.New("url must have a public address, or one of EVENTS_ALLOW_PRIVATE_TARGETS")
	}
	return nil
}

// Deliver posts one event. The queue tries again what failed, and keeps the order of a person's events.
func (c *Courier) Deliver(ctx context.Context, j queue.Job) error {
	s, err := c.Subscriptions.Subscription(ctx, receiverOf(j))
	switch {
	case errors.Is(err, ErrNoSubscription): // its deliveries have gone with it
		return nil
	case err != nil:
		return err
	case s.Status == Paused: // most of its deliveries have gone back to the log
		return &queue.Permanent{Cause: ErrPaused}
	case s.Ended:
		return &queue.Snooze{After: endedWait, Cause: errEnded} // it may be taken back
	}
	eventID, body, err := c.body(ctx, s, j.Payload)
	if err != nil {
		return err
	}
	if err := c.post(ctx, s, eventID, body); err != nil {
		return c.failed(ctx, s, j, err)
	}
	if s.FailingSince.IsZero() {
		return nil
	}
	return c.Subscriptions.Succeeding(ctx, s.ID)
}

// body is the event as it is posted, with the text of its message if the subscription includes that.
func (c *Courier) body(ctx context.Context, s Subscription, payload json.RawMessage) (id string, body []byte, err error) {
	var event map[string]any
	if err := json.Unmarshal(payload, &event); err != nil {
		return "", nil, &queue.Permanent{Cause: fmt.Errorf("read an event: %w", err)}
	}
	id, _ = event["id"].(string)
	data, _ := event["data"].(map[string]any)
	if messageID, ok := data["message_id"].(string); ok && s.Body {
		if data["body"], err = c.Messaging.Text(ctx, s.OrgID, messageID); err != nil {
			return "", nil, &queue.Snooze{After: textWait, Cause: err} // no fault of the subscriber
		}
	}
	body, err = json.Marshal(event)
	return id, body, err
}

// refused is an answer that is no success.
type refused struct {
	status int
	after  time.Duration // that the subscriber asks for
}

func (r *refused) Error() string {
	return fmt.Sprintf("the subscriber answered %d %s", r.status, http.StatusText(r.status))
}

// post makes one request. Its errors name no URL and no address: they are shown.
func (c *Courier) post(ctx context.Context, s Subscription, eventID string, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, bytes.NewReader(body))
	if err != nil {
		return errors.New("the url of the subscription cannot be used")
	}
	r, ok := c.routes[request.URL.Scheme]
	if !ok {
		return errors.New("http is not allowed any more: EVENTS_ALLOW_PRIVATE_TARGETS is empty")
	}
	request.Header.Set("Content-Type", MediaType)
	request.Header.Set("User-Agent", "paceline")
	now := c.Now()
	Sign(request.Header, eventID, now, body, s.secretsAt(now)...)
	answer, err := r.client.Do(request)
	if err != nil {
		return unanswered(err)
	}
	defer func() { _ = answer.Body.Close() }() // whatever is left is not read
	_, _ = io.CopyN(io.Discard, answer.Body, maxAnswer)
	if answer.StatusCode/100 == 2 {
		return nil
	}
	return &refused{status: answer.StatusCode, after: retryAfter(answer.Header.Get("Retry-After"), now)}
}

// unanswered is the failure of a request, without the URL, our addresses, and those of names. It wraps nothing: an outage of the network is
// the subscriber's here, not our database's.
func unanswered(err error) error {
	if errors.Is(err, errAddress) {
		return errAddress
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return errors.New("no answer: the name in the url could not be resolved")
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	if failed, ok := errors.AsType[*net.OpError](err); ok {
		err = failed.Err
	}
	return errors.New("no answer: " + err.Error())
}

// retryAfter reads the wait that a header asks for, in seconds or as a date.
func retryAfter(header string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(header); err == nil {
		return time.Duration(min(max(seconds, 0), int(maxRetryAfter/time.Second))) * time.Second
	}
	at, err := http.ParseTime(header)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}

// failed notes a try that failed, and pauses a subscription that wants no more or has failed for too long. A subscriber may ask for a later
// try, not for an earlier one or for more of them.
func (c *Courier) failed(ctx context.Context, s Subscription, j queue.Job, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout) // the try may have used up its time
	defer cancel()
	since, err := c.Subscriptions.Failing(ctx, s.ID, c.Now())
	if err != nil {
		return err
	}
	var answer *refused
	gone := errors.As(cause, &answer) && answer.status == http.StatusGone
	reason := pausedFailing
	if gone {
		reason = pausedGone
	}
	if gone || c.Now().Sub(since) >= KeptForSubscribers {
		if _, err := c.Subscriptions.Pause(ctx, s.ID, reason, c.Now()); err != nil {
			return err
		}
		c.Logger.WarnContext(ctx, "events.subscription_paused", "subscription_id", s.ID, "reason", reason)
	}
	if wait := Backoff(j.Attempts + 1); answer != nil && answer.after > wait {
		return &queue.Later{After: answer.after, Cause: cause}
	}
	return cause
}
