package chaos

import (
	"context"
	"strings"

	"paceline.internal/deploy/stack"
	"paceline.internal/emulators/wire"
)

// The vendors' wires, named as all are by who calls whom. They begin at no service: see stack.VendorConfig.
const (
	qstashToGateway = "qstash -> gateway"
	twilioToGateway = "twilio -> gateway"
)

// wiring is a wire that begins at a service, and the variable by which that service knows where it leads.
type wiring struct{ name, service, variable string }

var wirings = []wiring{
	{"gateway -> onboarding", stack.Gateway, "ONBOARDING_ADDR"},
	{"gateway -> messaging", stack.Gateway, "MESSAGING_ADDR"},
	{"onboarding -> messaging", stack.Onboarding, "MESSAGING_ADDR"},
	{"onboarding -> postgres", stack.Onboarding, "ONBOARDING_DATABASE_URL"},
	{"messaging -> postgres", stack.Messaging, "MESSAGING_DATABASE_URL"},
	{"onboarding -> qstash", stack.Onboarding, "QSTASH_URL"},
	{"messaging -> twilio", stack.Messaging, "TWILIO_API_URL"},
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
