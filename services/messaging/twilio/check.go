package twilio

import (
	"context"
	"errors"
	"net/http"

	openapi "github.com/twilio/twilio-go/rest/api/v2010"
)

var (
	// ErrCredentials means that Twilio does not take the credentials.
	ErrCredentials = errors.New("twilio: the credentials are refused")
	// ErrForbidden means that the credentials may not do that, or that the account is suspended.
	ErrForbidden = errors.New("twilio: the credentials may not do that")
	// ErrNoResource means that the account has nothing of that name.
	ErrNoResource = errors.New("twilio: the account has no such thing")
)

// CheckAccount reads the account, which only its own auth tokens may, within the timeout and the caller's context; ErrCredentials.
func (c *Client) CheckAccount(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var account openapi.ApiV2010Account
	if err := c.get(ctx, c.origin, "/2010-04-01/Accounts/"+c.account+".json", "read the account", &account); err != nil {
		return err
	}
	if value(account.Sid) != c.account {
		return errors.New("twilio: another account was answered than the one asked for")
	}
	return nil
}

// HasService reports whether the account has a messaging service, with the numbers of that; ErrCredentials.
func (c *Client) HasService(ctx context.Context, serviceSID string) (numbers []string, found bool, err error) {
	numbers, err = c.ServiceNumbers(ctx, serviceSID)
	if errors.Is(err, ErrNoResource) {
		return nil, false, nil
	}
	return numbers, err == nil, err
}

// meaning is the sentinel of a status that says what is wrong with the request rather than with Twilio; nil for all others.
func meaning(r result, err error) error {
	switch {
	case r.status == http.StatusUnauthorized:
		return ErrCredentials
	case r.status == http.StatusForbidden:
		return ErrForbidden
	case r.status == http.StatusNotFound && refusedAsUnknown(err):
		return ErrNoResource
	}
	return nil
}

// Takes reports whether a credential has only characters that Twilio's credentials have.
func Takes(credential string) bool {
	return credential != "" && alphanumeric(credential)
}
