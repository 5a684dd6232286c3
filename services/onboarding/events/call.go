package events

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"paceline.internal/platform/queue"
)

// maxReply bounds the answer of a call.
const maxReply = 64 << 10

// ErrNoSecret refuses a call to a host that the organisation has no subscription of, so that there is no secret to sign with.
var ErrNoSecret = errors.New("no active subscription of the organisation has this host: its secret would sign the call")

// Call posts a body to the host application in the form of a webhook, and returns the body of its answer. It is signed with the secret of
// the organisation's newest active subscription of the same scheme, host and port: a host without one gets nothing (ErrNoSecret), and a
// *queue.Snooze says that this is not known now. The key is the webhook's id, the same for each try. An answer that is not 2xx or is longer
// than 64 KiB is an error; errors name no URL.
func (c *Courier) Call(ctx context.Context, orgID, address, key string, timeout time.Duration, body []byte) ([]byte, error) {
	if err := c.CheckURL(address); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	s, err := c.subscriptionOf(ctx, orgID, address)
	if errors.Is(err, ErrNoSecret) {
		return nil, err
	}
	if err != nil { // no fault of the host application: it was not called
		return nil, &queue.Snooze{After: textWait, Cause: err}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("the url of the call cannot be used")
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "paceline")
	now := c.Now()
	Sign(request.Header, key, now, body, s.secretsAt(now)...)
	answer, err := c.routes[request.URL.Scheme].client.Do(request)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err
		}
		return nil, fmt.Errorf("no answer: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	reply, err := io.ReadAll(io.LimitReader(answer.Body, maxReply+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the answer: %w", err)
	case answer.StatusCode/100 != 2:
		return nil, fmt.Errorf("the host application answered %d", answer.StatusCode)
	case len(reply) > maxReply:
		return nil, fmt.Errorf("the answer is longer than %d bytes", maxReply)
	}
	return reply, nil
}

// subscriptionOf returns the newest active subscription of the origin of a URL.
func (c *Courier) subscriptionOf(ctx context.Context, orgID, address string) (Subscription, error) {
	of, err := url.Parse(address)
	if err != nil {
		return Subscription{}, errors.New("the url of the call cannot be used")
	}
	all, err := c.Subscriptions.Subscriptions(ctx, orgID)
	if err != nil {
		return Subscription{}, err
	}
	var newest Subscription
	for _, s := range all {
		at, err := url.Parse(s.URL)
		if err == nil && s.Status == Active && at.Scheme == of.Scheme && at.Host == of.Host && !s.CreatedAt.Before(newest.CreatedAt) {
			newest = s
		}
	}
	if newest.ID == "" {
		return Subscription{}, ErrNoSecret
	}
	return newest, nil
}
