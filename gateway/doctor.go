package gateway

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"google.golang.org/grpc"

	"paceline.internal/platform/rpc"
	"paceline.internal/platform/service"
	"paceline.internal/platform/telemetry"
)

// doctorPatience bounds one look at something across the network.
const doctorPatience = 3 * time.Second

// Doctor writes one line per check, with what is wrong and how to mend it. It changes nothing; its error is
// service.ErrUnwell if any check failed.
func Doctor(ctx context.Context, cfg Config, out io.Writer) (err error) {
	tel, err := telemetry.New(ctx, telemetry.Options{Service: "gateway-doctor", Output: io.Discard, Registry: telemetry.NewRegistry()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tel.Shutdown(ctx)) }()
	checks := []service.Check{
		{Name: "configuration", Look: func(context.Context) (string, error) { return "every variable is set and well-formed", nil }},
		{
			Name: "public origin", Look: func(context.Context) (string, error) {
				return cfg.PublicBaseURL.String(), reachable(cfg.PublicBaseURL.String())
			},
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
		checks = append(checks, service.Check{
			Name: "api keys", Look: func(ctx context.Context) (string, error) { return "at API_JWKS_URL", hasKeys(ctx, cfg.JWKSURL) },
			Mend: "open API_JWKS_URL from this machine; it must answer with a JSON Web Key Set",
		})
	}
	return service.Examine(ctx, out, checks...)
}

func (c *Config) lookAtTLS(context.Context) (string, error) {
	files, err := rpc.LoadTLS(c.TLS)
	if err != nil {
		return "", err
	}
	if files.Client == nil {
		return "off: plain text between the processes", nil
	}
	return "mTLS", nil
}

func toOnboarding(onboarding, _ *grpc.ClientConn) *grpc.ClientConn { return onboarding }

func toMessaging(_, messaging *grpc.ClientConn) *grpc.ClientConn { return messaging }

// lookAtUpstream asks a service for its health, and thereby whether the network and mTLS let us.
func (c *Config) lookAtUpstream(
	tel *telemetry.Telemetry, addr string, pick func(onboarding, messaging *grpc.ClientConn) *grpc.ClientConn,
) func(context.Context) (string, error) {
	return func(ctx context.Context) (found string, err error) {
		ctx, cancel := context.WithTimeout(ctx, doctorPatience)
		defer cancel()
		tokens, err := rpc.NewTokens(c.ServiceAuthSecret, time.Now) //nolint:forbidigo // a health check needs no token, and no clock of ours
		if err != nil {
			return "", err
		}
		onboarding, messaging, err := dial(*c, tokens, tel)
		if err != nil {
			return "", err
		}
		defer func() { err = errors.Join(err, onboarding.Close(), messaging.Close()) }()
		return "serving at " + addr, upstream{ClientConn: pick(onboarding, messaging)}.serving(ctx)
	}
}

// reachable says what is plainly wrong with a public origin; that it really leads here only a callback can show.
func reachable(origin string) error {
	u, err := url.Parse(origin)
	if err != nil {
		return err
	}
	switch host := u.Hostname(); {
	case strings.Contains(host, "_"):
		return errors.New("Twilio refuses a host with an underscore (21609)") //nolint:staticcheck // a name
	case u.Scheme == "http" && host != "localhost" && !strings.HasPrefix(host, "127.") && host != "::1":
		return errors.New("plain http sends signatures and phone numbers over the internet in the open")
	}
	return nil
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
