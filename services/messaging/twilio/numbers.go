package twilio

import (
	"context"
	"errors"
	"net/url"
	"slices"

	openapi "github.com/twilio/twilio-go/rest/api/v2010"
)

// Owns reports whether a phone number is one of the account's, within the timeout and the caller's context. Short codes and names that
// texts may come from are no phone numbers.
func (c *Client) Owns(ctx context.Context, number string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	path := "/2010-04-01/Accounts/" + c.account + "/IncomingPhoneNumbers.json?" + url.Values{"PhoneNumber": {number}}.Encode()
	var listed openapi.ListIncomingPhoneNumberResponse
	if err := c.get(ctx, c.origin, path, "look the number up", &listed); err != nil {
		return false, err
	}
	if listed.IncomingPhoneNumbers == nil {
		return false, errors.New("twilio: the list of phone numbers cannot be read")
	}
	return slices.ContainsFunc(listed.IncomingPhoneNumbers, func(n openapi.ApiV2010IncomingPhoneNumber) bool {
		return value(n.PhoneNumber) == number // the filter finds parts of numbers, too
	}), nil
}
