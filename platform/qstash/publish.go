package qstash

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// ErrInvalid is wrapped by every refusal of a request before it is sent.
var ErrInvalid = errors.New("qstash: invalid request")

// DefaultRetries asks for the number of retries of QStash's plan; see Message.Retries.
const DefaultRetries = -1

// Message is one HTTP request that QStash is to deliver later, at least once.
type Message struct {
	// Destination is the absolute http or https URL to deliver to. It is appended to the publish path as it is, and
	// comes back as it is in the signature.
	Destination string
	// Body is forwarded byte for byte.
	Body []byte
	// ContentType is forwarded; empty forwards none.
	ContentType string
	// Delay counts from when QStash accepts. QStash knows whole seconds, so it is rounded up: never early.
	Delay time.Duration
	// NotBefore is an absolute time, rounded up to the second, and wins over Delay. Zero means unset.
	NotBefore time.Time
	// Retries is the number of attempts after the first. Zero means none, DefaultRetries what the plan gives.
	Retries int
	// RetryDelay is QStash's expression for the pause before a retry, in milliseconds, over the variable retried,
	// which is 0 before the first retry. Empty means the default of e^(2.5n) seconds.
	RetryDelay string
	// DeduplicationID makes a repeated publish harmless for ten minutes. It is required and of [A-Za-z0-9._-].
	DeduplicationID string
	// FailureCallback is the URL that is told, once, when all attempts have failed; see DecodeFailure.
	FailureCallback string
	// FailureCallbackHeaders configure the delivery of the failure callback, which is a message of its own: "Retries" is
	// its HeaderRetries, "Forward-X" sends X along. Without them it gets the defaults of the plan.
	FailureCallbackHeaders map[string]string
	// Label is what logs and dead letters can be filtered by.
	Label string
	// Timeout bounds one attempt, rounded up to the second. Zero leaves the limit of the plan.
	Timeout time.Duration
	// ForwardHeaders are sent to the destination under their own names.
	ForwardHeaders map[string]string
}

// Receipt says that QStash has the message.
type Receipt struct {
	// MessageID names the message.
	MessageID string
	// Deduplicated means that the deduplication id was seen in the last ten minutes: MessageID is that of the earlier
	// message, whatever became of it, and nothing new was accepted.
	Deduplicated bool
}

// A failed publish is tried again at once, because its deduplication id makes that harmless. The caller has an outbox
// for outages that last longer.
const (
	publishTries   = 3
	publishBackoff = 50 * time.Millisecond
	longestPause   = time.Second // of a 429, that is waited for here
)

// Publish hands a message to QStash. A connection that fails, a 5xx or a short 429 is tried again twice within ctx.
// It returns an error wrapping ErrInvalid for a message that QStash would refuse, and an *Error for an answer that
// is no success.
func (c *Client) Publish(ctx context.Context, m Message) (Receipt, error) {
	header, err := m.header()
	if err != nil {
		return Receipt{}, err
	}
	send := call{method: http.MethodPost, path: "/v2/publish/" + m.Destination, header: header, body: m.Body}
	for try := 1; ; try++ {
		receipt, err := c.publish(ctx, send)
		if err == nil || try == publishTries || !worthAnotherTry(err) || !wait(ctx, publishBackoff<<try) {
			return receipt, err
		}
	}
}

// publish is one try. A duplicate is answered 202 with the id of the message that came first.
func (c *Client) publish(ctx context.Context, send call) (Receipt, error) {
	var answer struct {
		MessageID    string `json:"messageId"`
		Deduplicated bool   `json:"deduplicated"`
	}
	status, err := c.do(ctx, send, &answer)
	if err != nil {
		return Receipt{}, err
	}
	if answer.MessageID == "" {
		return Receipt{}, fmt.Errorf("%w: no message id", errUnreadable)
	}
	return Receipt{MessageID: answer.MessageID, Deduplicated: answer.Deduplicated || status == http.StatusAccepted}, nil
}

// header renders the message as the headers of a publish request, or says what is wrong with it.
func (m Message) header() (http.Header, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	h := http.Header{}
	set := func(name, value string) {
		if value != "" {
			h.Set(name, value)
		}
	}
	for name, value := range m.ForwardHeaders {
		h.Set(HeaderForwardPrefix+name, value)
	}
	for name, value := range m.FailureCallbackHeaders {
		h.Set(HeaderFailureCallbackPrefix+name, value)
	}
	set("Content-Type", m.ContentType)
	set(HeaderDeduplicationID, m.DeduplicationID)
	set(HeaderRetryDelay, m.RetryDelay)
	set(HeaderFailureCallback, m.FailureCallback)
	set(HeaderLabel, m.Label)
	if m.Delay > 0 {
		h.Set(HeaderDelay, wholeSeconds(m.Delay))
	}
	if !m.NotBefore.IsZero() {
		h.Set(HeaderNotBefore, strconv.FormatInt(m.NotBefore.Add(time.Second-time.Nanosecond).Unix(), 10))
	}
	if m.Timeout > 0 {
		h.Set(HeaderTimeout, wholeSeconds(m.Timeout))
	}
	if m.Retries >= 0 {
		h.Set(HeaderRetries, strconv.Itoa(m.Retries))
	}
	return h, nil
}

// check refuses what QStash would refuse, and what it would accept and get wrong.
func (m Message) check() error {
	switch {
	case !absoluteURL(m.Destination):
		return fmt.Errorf("%w: the destination is not an absolute http or https URL", ErrInvalid)
	case m.FailureCallback != "" && !absoluteURL(m.FailureCallback):
		return fmt.Errorf("%w: the failure callback is not an absolute http or https URL", ErrInvalid)
	case m.DeduplicationID == "":
		return fmt.Errorf("%w: the deduplication id is missing", ErrInvalid)
	case strings.Contains(m.DeduplicationID, ":"):
		return fmt.Errorf("%w: the deduplication id contains a colon, which QStash refuses", ErrInvalid)
	case !plainID(m.DeduplicationID):
		return fmt.Errorf("%w: the deduplication id has characters outside [A-Za-z0-9._-]", ErrInvalid)
	case m.Delay < 0 || m.Timeout < 0:
		return fmt.Errorf("%w: a negative delay or timeout", ErrInvalid)
	}
	return nil
}

func worthAnotherTry(err error) bool {
	if refused, ok := errors.AsType[*Error](err); ok {
		return refused.Temporary() && refused.RetryAfter <= longestPause
	}
	return !errors.Is(err, ErrInvalid) && !errors.Is(err, errUnreadable)
}

// wait reports whether d passed before ctx ended.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func absoluteURL(raw string) bool {
	u, err := url.Parse(raw)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.Fragment == ""
}

// plainID reports whether s is a name of [A-Za-z0-9._-] that cannot vanish from a path.
func plainID(s string) bool {
	strange := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-')
	}
	return s != "" && s != "." && s != ".." && !strings.ContainsFunc(s, strange)
}

func wholeSeconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10) + "s"
}
