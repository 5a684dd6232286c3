package chaos

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/url"
	"strings"

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
func (w wiring) open(ctx context.Context, environ map[string]string) (opened *wire, value string, err error) {
	to := environ[w.variable]
	scheme, addr, hasScheme := strings.Cut(to, "://")
	if scheme == "postgres" {
		return openPostgresWire(ctx, to)
	}
	if !hasScheme {
		addr = to
	}
	opened, err = openWire(ctx, "tcp", addr)
	if err != nil {
		return nil, "", err
	}
	return opened, strings.TrimSuffix(to, addr) + opened.addr, nil
}

// openPostgresWire is a wire to the server of a database, and the URL that leads over it.
func openPostgresWire(ctx context.Context, database string) (*wire, string, error) {
	u, err := url.Parse(database)
	if err != nil {
		return nil, "", errors.New("open a wire: the URL of the database cannot be read")
	}
	query := u.Query()
	network, to := "tcp", u.Host
	if folder := query.Get("host"); strings.HasPrefix(folder, "/") {
		network, to = "unix", folder+"/.s.PGSQL."+query.Get("port")
	}
	w, err := openWire(ctx, network, to)
	if err != nil {
		return nil, "", err
	}
	host, port, err := net.SplitHostPort(w.addr)
	query.Set("host", host)
	query.Set("port", port)
	query.Set("sslmode", "disable")
	u.RawQuery = query.Encode()
	return w, u.String(), err
}

// asksPostgresNothing is what may be said to Postgres before a question: the greeting, whose first message has no type, and pgx's look
// whether a connection that was idle for a second is still alive. Whether it takes either is a matter of the machine's clock.
func asksPostgresNothing(said []byte) bool {
	return said[0] == 0 || bytes.HasPrefix(said, []byte("Q")) && bytes.Contains(said, []byte("-- ping"))
}
