package qstash

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

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

// Pending is a message that QStash still means to deliver.
type Pending struct {
	MessageID  string
	URL        string
	Label      string
	MaxRetries int
	CreatedAt  time.Time
	NotBefore  time.Time
}

// Message reads a message that waits for delivery. Soon after a message was delivered or has failed QStash answers
// an *Error of status 404, so this is no audit record.
func (c *Client) Message(ctx context.Context, id string) (Pending, error) {
	path, err := pathOf("/v2/messages/", id)
	if err != nil {
		return Pending{}, err
	}
	var answer pendingJSON
	if _, err := c.do(ctx, call{method: http.MethodGet, path: path}, &answer); err != nil {
		return Pending{}, err
	}
	return answer.pending(), nil
}

// Cancel asks QStash to deliver a message no more. An attempt on its way still arrives. An unknown or finished
// message is an *Error of status 404. An empty id is refused here, because at QStash it cancels every message of the account.
func (c *Client) Cancel(ctx context.Context, id string) error {
	path, err := pathOf("/v2/messages/", id)
	if err != nil {
		return err
	}
	_, err = c.do(ctx, call{method: http.MethodDelete, path: path}, nil)
	return err
}

// DeadLetter is a message whose attempts have all failed.
type DeadLetter struct {
	Pending
	// ID names the dead letter, for RetryDeadLetter.
	ID string
	// Status is that of the last answer, zero when there was none.
	Status int
}

// DeadLetters reads a page of the dead letters. The first cursor is empty, and so is the one after the last page.
func (c *Client) DeadLetters(ctx context.Context, cursor string) (letters []DeadLetter, next string, err error) {
	var answer struct {
		Cursor   string `json:"cursor"`
		Messages []struct {
			pendingJSON

			ID     string `json:"dlqId"`
			Status int    `json:"responseStatus"`
		} `json:"messages"`
	}
	path := "/v2/dlq"
	if cursor != "" {
		path += "?cursor=" + url.QueryEscape(cursor)
	}
	if _, err := c.do(ctx, call{method: http.MethodGet, path: path}, &answer); err != nil {
		return nil, "", err
	}
	for _, m := range answer.Messages {
		letters = append(letters, DeadLetter{Pending: m.pending(), ID: m.ID, Status: m.Status})
	}
	return letters, answer.Cursor, nil
}

// RetryDeadLetter publishes a dead letter again, as a new message with a new id, and removes it from the dead
// letters. It has no deduplication id, so it is never tried twice here.
func (c *Client) RetryDeadLetter(ctx context.Context, id string) (Receipt, error) {
	path, err := pathOf("/v2/dlq/retry/", id)
	if err != nil {
		return Receipt{}, err
	}
	return c.publish(ctx, call{method: http.MethodPost, path: path})
}

// pendingJSON is a message as the API shows it, with times in unix milliseconds.
type pendingJSON struct {
	MessageID  string `json:"messageId"`
	URL        string `json:"url"`
	Label      string `json:"label"`
	MaxRetries int    `json:"maxRetries"`
	CreatedAt  int64  `json:"createdAt"`
	NotBefore  int64  `json:"notBefore"`
}

func (m pendingJSON) pending() Pending {
	return Pending{
		MessageID: m.MessageID, URL: m.URL, Label: m.Label, MaxRetries: m.MaxRetries,
		CreatedAt: time.UnixMilli(m.CreatedAt).UTC(), NotBefore: time.UnixMilli(m.NotBefore).UTC(),
	}
}

// pathOf refuses an id that is empty or could change the path.
func pathOf(prefix, id string) (string, error) {
	if !plainID(id) {
		return "", fmt.Errorf("%w: %s is not an id", ErrInvalid, strconv.Quote(id[:min(len(id), 80)]))
	}
	return prefix + id, nil
}
