package gateway

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"paceline.internal/gateway/qstash"
	"paceline.internal/gateway/twilio"
	"paceline.internal/platform/config"
	"paceline.internal/platform/process"
	platform "paceline.internal/platform/qstash"
	"paceline.internal/platform/telemetry"
)

// doctorTimeout bounds one check across the network.
const doctorTimeout = 3 * time.Second

// Doctor checks everything that the gateway needs. It changes nothing.
func Doctor(ctx context.Context, cfg Config) process.Findings {
	tel, err := telemetry.New(ctx, telemetry.Options{Service: "gateway-doctor", Output: io.Discard, Registry: telemetry.NewRegistry()})
	if err != nil {
		return process.Environment("gateway", err)
	}
	defer func() { _ = tel.Shutdown(ctx) }() // it exports nothing
	checks := []process.Check{
		{Name: "configuration", Look: func(context.Context) (string, error) { return "every variable is set and well-formed", nil }},
		{Name: "service keys", Look: func(context.Context) (string, error) { return process.LookAtKeys(cfg.keys()) }},
		process.Settings(&cfg),
		{
			Name: "public origin", Look: cfg.lookAtOrigin,
			Mend: "QStash and Twilio must reach PUBLIC_BASE_URL from the internet; use https and a public name, or emulators on this machine",
		},
		{Name: "tls", Look: cfg.lookAtTLS, Mend: "give all three GRPC_TLS_* files of this process, or none"},
		{
			Name: "onboarding", Look: cfg.lookAtUpstream(tel, cfg.OnboardingAddr.String(), toOnboarding),
			Mend: "start the onboarding service, or set ONBOARDING_ADDR to where it is",
		},
		{
			Name: "messaging", Look: cfg.lookAtUpstream(tel, cfg.MessagingAddr.String(), toMessaging),
			Mend: "start the messaging service, or set MESSAGING_ADDR to where it is",
		},
	}
	if cfg.JWKSURL != "" {
		checks = append(checks, process.Check{
			Name: "api keys", Look: cfg.lookAtAPIKeys,
			Mend: "open API_JWKS_URL from this machine; it must answer with a JSON Web Key Set",
		})
	}
	if provider := cfg.provider(); cfg.Console == "on" && provider.Issuer != "" {
		checks = append(checks, process.Check{
			Name: "sign-in", Look: func(ctx context.Context) (string, error) {
				return "OIDC_ISSUER tells its endpoints", provider.Look(ctx)
			},
			Mend: "open OIDC_ISSUER/.well-known/openid-configuration from this machine; it must name the same issuer, letter by letter",
		})
	}
	return process.Examine(ctx, "gateway", checks...)
}

func (c *Config) lookAtTLS(context.Context) (string, error) {
	return process.LookAtTLS(c.TLS, config.Addr{}, c.OnboardingAddr, c.MessagingAddr)
}

func toOnboarding(onboarding, _ *grpc.ClientConn) *grpc.ClientConn { return onboarding }

func toMessaging(_, messaging *grpc.ClientConn) *grpc.ClientConn { return messaging }

// lookAtUpstream asks a service for its health, which proves the network and mTLS; and makes a call that changes nothing,
// which proves that it is that service and that it accepts our tokens.
func (c *Config) lookAtUpstream(
	tel *telemetry.Telemetry, addr string, pick func(onboarding, messaging *grpc.ClientConn) *grpc.ClientConn,
) func(context.Context) (string, error) {
	return func(whole context.Context) (found string, err error) {
		ctx, cancel := context.WithTimeout(whole, doctorTimeout)
		defer cancel()
		now := time.Now // tokens live by the host's clock, which the service's has to agree with
		_, onboarding, messaging, err := dial(*c, process.Deps{Now: now}, tel)
		if err != nil {
			return "", err
		}
		defer func() { err = errors.Join(err, onboarding.Close(), messaging.Close()) }()
		conn := pick(onboarding, messaging)
		if answer, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}); err != nil ||
			answer.GetStatus() != healthpb.HealthCheckResponse_SERVING {
			return "", cmp.Or(c.oneSidedTLS(whole, addr, err), err, errors.New(answer.GetStatus().String()))
		}
		name := "messaging"
		if conn == onboarding {
			name = "onboarding"
		}
		return "serving at " + addr, believed(addr, probe(ctx, name, conn))
	}
}

// oneSidedTLS explains a call that failed because either the gateway or the service there uses TLS and the other does not; nil otherwise.
func (c *Config) oneSidedTLS(ctx context.Context, addr string, failed error) error {
	if failed == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, doctorTimeout)
	defer cancel()
	there, known := speaksTLS(ctx, addr)
	here := c.TLS.Cert != ""
	if !known || there == here {
		return nil
	}
	which := "the service there uses TLS, and the gateway does not"
	if here {
		which = "the gateway uses TLS (GRPC_TLS_CERT_FILE), and the service there does not"
	}
	return process.Mend("give GRPC_TLS_CERT_FILE, GRPC_TLS_KEY_FILE and GRPC_TLS_CA_FILE to the gateway, onboarding and messaging, or to "+
		"none of them",
		fmt.Errorf("%s: %s: %w", addr, which, failed))
}

// speaksTLS asks a server for a handshake, and nothing more. It is not known where nothing listens, or nothing usable is answered.
func speaksTLS(ctx context.Context, addr string) (speaks, known bool) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return false, false
	}
	defer func() { _ = conn.Close() }()                                                             // nothing was sent
	client := tls.Client(conn, &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true}) //nolint:gosec // whether, not who
	err = client.HandshakeContext(ctx)
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	return err == nil, err == nil || plain
}

// believed reads the answer to a call with an empty request. The right answer is that the request is invalid.
func believed(addr string, err error) error {
	switch status.Code(err) {
	case codes.Unauthenticated:
		return process.Mend("add the public key of GATEWAY_SIGNING_KEY to SERVICE_PUBLIC_KEYS there, and keep the clocks by NTP",
			fmt.Errorf("%s does not believe our tokens: SERVICE_PUBLIC_KEYS has no key of ours there, or its clock is another", addr))
	case codes.Unimplemented:
		return fmt.Errorf("what serves at %s is another service", addr)
	case codes.Unavailable, codes.DeadlineExceeded, codes.Internal, codes.Unknown:
		return fmt.Errorf("%s fails at what it is asked: %w; its own doctor says more", addr, err)
	default:
		return nil
	}
}

// lookAtOrigin posts a signed callback without a valid payload to the public origin. A server that answers 489 has our keys, and
// computes signatures over the same URL.
func (c *Config) lookAtOrigin(ctx context.Context) (string, error) {
	origin := c.PublicBaseURL.String()
	if err := plausible(origin); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, doctorTimeout)
	defer cancel()
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	client := &http.Client{Transport: &http.Transport{}, CheckRedirect: stay}
	defer client.CloseIdleConnections()
	if !c.takesQStash() {
		return origin + " leads to a gateway with this token of Twilio; QStash is not used", c.lookAtTwilioToken(ctx, client, false)
	}
	now := time.Now() //nolint:forbidigo // by the host's clock, which QStash's has to agree with
	request, err := qstash.Probe(ctx, origin, c.QStashCurrentKey, now)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", unreachable(origin, err)
	}
	if err := response.Body.Close(); err != nil {
		return "", err
	}
	switch response.StatusCode {
	case platform.StatusNonRetryable:
		return origin + " leads to a gateway with these keys", c.lookAtTwilioToken(ctx, client, true)
	case http.StatusUnauthorized:
		return "", process.Mend("make QSTASH_CURRENT_SIGNING_KEY, PUBLIC_BASE_URL (letter by letter) and the clock the same here and there",
			fmt.Errorf("%s leads to a gateway that does not believe our signature: its keys, its PUBLIC_BASE_URL or its clock are others", origin))
	default:
		return "", fmt.Errorf("%s is answered %d, which no gateway of ours says: it leads elsewhere, or a proxy changes what it passes on",
			origin, response.StatusCode)
	}
}

func unreachable(origin string, err error) error {
	return process.Mend("start the gateway; QStash and Twilio must reach PUBLIC_BASE_URL from the internet, by https and a public name",
		process.Warn("%s cannot be reached from here, which may be meant: %w", origin, err))
}

// lookAtTwilioToken posts a signed receipt without content. A server that answers 400 has our token and, unless that is known already, our
// origin: Twilio signs both.
func (c *Config) lookAtTwilioToken(ctx context.Context, client *http.Client, sameOrigin bool) error {
	request, err := twilio.Probe(ctx, c.PublicBaseURL.String(), c.TwilioAuthToken.First())
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return unreachable(c.PublicBaseURL.String(), err)
	}
	if err := response.Body.Close(); err != nil {
		return err
	}
	switch {
	case response.StatusCode == http.StatusForbidden && !sameOrigin:
		return process.Mend("make PUBLIC_BASE_URL the same here and there, letter by letter; if it is, give gateway and messaging the account's "+
			"TWILIO_AUTH_TOKEN; docs/runbooks/key-rotation.md has the order",
			fmt.Errorf("the gateway there does not believe Twilio's signatures by our PUBLIC_BASE_URL (%s) and TWILIO_AUTH_TOKEN: one of them is "+
				"another there; with a wrong one no person's message is taken, no STOP", c.PublicBaseURL))
	case response.StatusCode == http.StatusForbidden:
		return process.Mend("give gateway and messaging the account's TWILIO_AUTH_TOKEN; docs/runbooks/key-rotation.md has the order",
			errors.New("the gateway there does not believe Twilio's signatures by our TWILIO_AUTH_TOKEN: no person's message is taken, no STOP"))
	}
	return nil
}

// plausible names what is certainly wrong with a public origin.
func plausible(origin string) error {
	u, err := url.Parse(origin)
	if err != nil {
		return err
	}
	switch host := u.Hostname(); {
	case strings.Contains(host, "_"):
		return errors.New("Twilio refuses a host with an underscore (21609)") //nolint:staticcheck // a name
	case u.Scheme == "http" && strings.Contains(host, ".") && !strings.HasPrefix(host, "127."): // a neighbour's name has no dot
		return errors.New("plain http sends signatures and phone numbers over the internet in the open")
	}
	return nil
}

// lookAtAPIKeys fetches them. An identity provider signs for other services too, so its signature alone does not prove that a token
// is ours.
func (c *Config) lookAtAPIKeys(ctx context.Context) (string, error) {
	if err := hasKeys(ctx, c.JWKSURL); err != nil {
		return "", err
	}
	switch {
	case c.JWTIssuer == "" || c.JWTAudience == "":
		return "", process.Warn("every token that API_JWKS_URL signs is believed, those for other programs too: " +
			"set API_JWT_ISSUER and API_JWT_AUDIENCE")
	case strings.HasPrefix(c.JWKSURL, "http://"):
		return "", process.Warn("API_JWKS_URL is plain http: a host on the way could choose who is an operator")
	}
	return "at API_JWKS_URL", nil
}

// hasKeys fetches the key set once.
func hasKeys(ctx context.Context, url string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	keys, err := newJWKS(ctx, slog.New(slog.DiscardHandler), url)
	if err != nil {
		return err
	}
	found, err := keys.keys.Storage().KeyReadAll(ctx)
	if err == nil && len(found) == 0 {
		err = errors.New("no key was found")
	}
	return err
}
