package chaos

import (
	"context"
	"strings"

	"paceline.internal/emulators/wire"
	"paceline.internal/test/stack"
)

// The wires between the services and to what they stand on, named by who calls whom.
const (
	gatewayToOnboarding   = "gateway -> onboarding"
	gatewayToMessaging    = "gateway -> messaging"
	onboardingToMessaging = "onboarding -> messaging"
	onboardingToPostgres  = "onboarding -> postgres"
	messagingToPostgres   = "messaging -> postgres"
	onboardingToQStash    = "onboarding -> qstash"
	messagingToTwilio     = "messaging -> twilio"
	qstashToGateway       = "qstash -> gateway"
	twilioToGateway       = "twilio -> gateway"
)

// wiring is a wire that begins at a service, and the variable by which that service knows where it leads. The vendors' begin at no
// service: see stack.VendorConfig.
type wiring struct{ name, service, variable string }

var wirings = []wiring{
	{gatewayToOnboarding, stack.Gateway, "ONBOARDING_ADDR"},
	{gatewayToMessaging, stack.Gateway, "MESSAGING_ADDR"},
	{onboardingToMessaging, stack.Onboarding, "MESSAGING_ADDR"},
	{onboardingToPostgres, stack.Onboarding, "ONBOARDING_DATABASE_URL"},
	{messagingToPostgres, stack.Messaging, "MESSAGING_DATABASE_URL"},
	{onboardingToQStash, stack.Onboarding, "QSTASH_URL"},
	{messagingToTwilio, stack.Messaging, "TWILIO_API_URL"},
}

// open puts a wire in the place to which the variable leads in environ, and returns what the variable is with it.
func (w wiring) open(ctx context.Context, environ map[string]string) (opened *wire.Wire, value string, err error) {
	to := environ[w.variable]
	scheme, addr, hasScheme := strings.Cut(to, "://")
	if scheme == "postgres" {
		return wire.OpenPostgres(ctx, to)
	}
	if !hasScheme {
		addr = to
	}
	opened, err = wire.Open(ctx, "tcp", addr)
	if err != nil {
		return nil, "", err
	}
	return opened, strings.TrimSuffix(to, addr) + opened.Addr, nil
}
