package messaging

import (
	"context"
	"errors"
	"fmt"
	"io"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/rpc"
	"paceline.internal/services/messaging/twilio"
)

// ErrUnwell is what Doctor returns when a check failed.
var ErrUnwell = errors.New("not everything is in order")

// check is one line of the doctor's report.
type check struct {
	name string
	look func(ctx context.Context, cfg Config) (found string, err error)
	mend string
}

func checks() []check {
	return []check{
		{"configuration", lookAtConfig, "set the variables named above; docs/environment-contract.md lists all of them"},
		{"database", lookAtDatabase, "check MESSAGING_DATABASE_URL and that Postgres runs; for a schema that is behind, run: messaging migrate"},
		{"twilio", lookAtTwilio, "take TWILIO_ACCOUNT_SID and TWILIO_AUTH_TOKEN from the Twilio console, and one sender of that account"},
		{"tls", lookAtTLS, "give GRPC_TLS_CERT_FILE, GRPC_TLS_KEY_FILE and GRPC_TLS_CA_FILE as readable PEM files, or none of them"},
	}
}

// Doctor writes one line per check, with what is wrong and how to mend it. It changes nothing and calls nobody but the
// database; its error is ErrUnwell if any check failed.
func Doctor(ctx context.Context, cfg Config, w io.Writer) error {
	var problems []error
	for _, c := range checks() {
		found, err := c.look(ctx, cfg)
		line := fmt.Sprintf("ok      %-14s %s\n", c.name, found)
		if err != nil {
			line = fmt.Sprintf("failed  %-14s %v\n        %-14s to mend: %s\n", c.name, err, "", c.mend)
			problems = append(problems, fmt.Errorf("%w: %s", ErrUnwell, c.name))
		}
		if _, err := io.WriteString(w, line); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
	}
	return errors.Join(problems...)
}

func lookAtConfig(_ context.Context, cfg Config) (string, error) {
	return "gRPC on " + cfg.Addr.String() + ", ops on " + cfg.OpsAddr.String(), cfg.Validate()
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
