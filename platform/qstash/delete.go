package qstash

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// Delete withdraws a message that was published and is not delivered yet. One that is gone already is no error. ErrInvalid without an id.
func (c *Client) Delete(ctx context.Context, messageID string) error {
	if messageID == "" { // QStash would delete every message of the account
		return fmt.Errorf("%w: a message to delete needs an id", ErrInvalid)
	}
	var nothing struct{}
	_, err := c.do(ctx, call{method: http.MethodDelete, path: "/v2/messages/" + url.PathEscape(messageID)}, &nothing)
	if refused, ok := errors.AsType[*Error](err); ok && refused.Status == http.StatusNotFound {
		return nil
	}
	return err
}
