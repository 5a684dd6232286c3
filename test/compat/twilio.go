package main

import (
	"context"
	"errors"

	"paceline.internal/emulators/clock"
	"paceline.internal/emulators/twilio"
)

// The account that the Twilio judge has. Its numbers are of the range reserved for fiction.
const (
	accountSID = "ACfeedfacefeedfacefeedfacefeedface"
	authToken  = "0123456789abcdef0123456789abcdef"
	serviceSID = "MG0123456789abcdef0123456789abcdef"
)

// judgeTwilio plays the twilio package against its own emulator. Its validators judge what that signs, and what they sign is posted
// to the gateway, which has the same token.
func judgeTwilio(ctx context.Context, s *site) (results []result, err error) {
	account, err := twilio.New(twilio.Config{
		Clock: clock.System(), AccountSID: accountSID, AuthToken: authToken, Numbers: []string{"+12025550110", "+12025550111"},
		Services: map[string][]string{serviceSID: {"+12025550112", "55501"}},
	})
	if err != nil {
		return nil, err
	}
	defer account.Close()
	served, err := serve(ctx, account)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, served.close()) }()
	return node(
		ctx, "twilio", "twilio.mjs", "TWILIO_API_URL="+served.url, "TWILIO_ACCOUNT_SID="+accountSID, "TWILIO_AUTH_TOKEN="+authToken,
		"TWILIO_SERVICE_SID="+serviceSID, "GATEWAY_URL="+s.services.URL(),
	)
}
