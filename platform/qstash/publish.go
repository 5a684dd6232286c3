package qstash

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"paceline.internal/platform/process"
)

// ErrInvalid is wrapped by every refusal of a request before it is sent.
var ErrInvalid = errors.New("qstash: invalid request")

// Receipt says that QStash has the message.
type Receipt struct {
	// MessageID names the message.
	MessageID string
	// Deduplicated means that the deduplication id was seen in the last ten minutes: MessageID is that of the earlier
	// message, delivered or not, and nothing new was accepted.
	Deduplicated bool
}

// A failed publish is tried again at once, because its deduplication id makes that harmless. The caller has an outbox
// for outages that last longer.
const (
	publishTries   = 3
	publishBackoff = 50 * time.Millisecond
	longestPause   = time.Second // of a 429, that is waited for here
)

// publish asks QStash to deliver to a destination, which is appended to the path as it is and comes back as it is in the signature. A
// connection that fails, a 5xx or a short 429 is tried again twice within ctx.
func (c *Client) publish(ctx context.Context, destination string, header http.Header, body []byte) (Receipt, error) {
	send := call{method: http.MethodPost, path: "/v2/publish/" + destination, header: header, body: body}
	for try := 1; ; try++ {
		receipt, err := c.tryPublish(ctx, send)
		if err == nil || try == publishTries || !worthAnotherTry(err) || !process.RestOnMachineClock(ctx, publishBackoff<<try, nil) {
			return receipt, err
		}
	}
}

// tryPublish is one try. A duplicate is answered 202 with the id of the message that came first.
func (c *Client) tryPublish(ctx context.Context, send call) (Receipt, error) {
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

func worthAnotherTry(err error) bool {
	if refused, ok := errors.AsType[*Error](err); ok {
		return refused.Temporary() && refused.RetryAfter <= longestPause
	}
	return !errors.Is(err, ErrInvalid) && !errors.Is(err, errUnreadable)
}
