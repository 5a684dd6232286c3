package messaging

import (
	"context"
	"fmt"
	"io"
	"time"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/rpc"
	"paceline.internal/platform/service"
	"paceline.internal/services/messaging/twilio"
)

// Doctor writes one line per check, with what is wrong and how to mend it. It changes nothing; its error is
// service.ErrUnwell if any check failed.
func Doctor(ctx context.Context, cfg Config, w io.Writer) error {
	about := func(look func(ctx context.Context, cfg Config) (string, error)) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) { return look(ctx, cfg) }
	}
	return service.Examine(ctx, w,
		service.Check{
			Name: "configuration", Look: about(lookAtConfig),
			Mend: "set the variables named above; docs/environment-contract.md lists all of them",
		},
		service.Check{
			Name: "database", Look: about(lookAtDatabase),
			Mend: "check MESSAGING_DATABASE_URL and that Postgres runs; for a schema that is behind, run: messaging migrate",
		},
		service.Check{
			Name: "twilio", Look: about(lookAtTwilio),
			Mend: "take TWILIO_ACCOUNT_SID and TWILIO_AUTH_TOKEN from the Twilio console, and one sender of that account",
		},
		service.Check{
			Name: "tls", Look: about(lookAtTLS),
			Mend: "give GRPC_TLS_CERT_FILE, GRPC_TLS_KEY_FILE and GRPC_TLS_CA_FILE as readable PEM files, or none of them",
		},
	)
}

// steadyInterval is how far two listings have to be apart to confirm an absence. Shorter ones are for tests.
const steadyInterval = 30 * time.Second

func lookAtConfig(_ context.Context, cfg Config) (string, error) {
	found := "gRPC on " + cfg.Addr.String() + ", ops on " + cfg.OpsAddr.String()
	if cfg.ReconcileInterval < steadyInterval {
		found += fmt.Sprintf("; warning: RECONCILE_INTERVAL is %s; Twilio's list may lag: below %s an absence may be premature",
			cfg.ReconcileInterval, steadyInterval)
	}
	return found, cfg.Validate()
}

func lookAtDatabase(ctx context.Context, cfg Config) (string, error) {
	pool, err := postgres.Open(ctx, postgres.Config{URL: cfg.DatabaseURL.Reveal()})
	if err != nil {
		return "", err
	}
	defer pool.Close()
	migrations := Migrations()
	if err := migrations.Ready(ctx, pool); err != nil {
		return "", err
	}
	version, err := migrations.Current(ctx, pool)
	return fmt.Sprintf("reachable, schema version %d", version), err
}

// lookAtTwilio checks what can be known without spending anything: the shape of the credentials and the sender.
func lookAtTwilio(_ context.Context, cfg Config) (string, error) {
	client, err := twilio.New(cfg.carrier())
	if err != nil {
		return "", err
	}
	client.Close()
	origin := cfg.APIURL.String()
	if origin == "" {
		origin = "Twilio itself"
	}
	return "credentials and sender are set, calling " + origin, nil
}

func lookAtTLS(_ context.Context, cfg Config) (string, error) {
	tls, err := rpc.LoadTLS(cfg.TLS)
	if err != nil {
		return "", err
	}
	if tls.Server == nil {
		return "off: plain text between the processes", nil
	}
	return "on: mutual TLS between the processes", nil
}
