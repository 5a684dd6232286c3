package onboarding

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/qstash"
	"paceline.internal/platform/rpc"
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
		{"flow and copy", lookAtScript, "mend the file, or leave ONBOARDING_FLOW_FILE and ONBOARDING_COPY_DIR out for the built-in ones"},
		{"database", lookAtDatabase, "check ONBOARDING_DATABASE_URL and that Postgres runs; if the schema is behind, run: onboarding migrate"},
		{"qstash", lookAtQStash, "take QSTASH_URL and QSTASH_TOKEN of one region from the Upstash console, QStash"},
		{"tls", lookAtTLS, "give GRPC_TLS_CERT_FILE, GRPC_TLS_KEY_FILE and GRPC_TLS_CA_FILE as readable PEM files, or none of them"},
	}
}

// Doctor writes one line per check, with what is wrong and how to mend it. It changes nothing; its error is ErrUnwell if
// any check failed.
func Doctor(ctx context.Context, cfg Config, w io.Writer) error {
	var problems []error
	for _, c := range checks() {
		found, err := c.look(ctx, cfg)
		line := fmt.Sprintf("ok      %-14s %s\n", c.name, found)
		if err != nil {
			what := strings.Join(strings.Fields(err.Error()), " ") // a driver's error may have many lines
			line = fmt.Sprintf("failed  %-14s %s\n        %-14s to mend: %s\n", c.name, what, "", c.mend)
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

func lookAtScript(_ context.Context, cfg Config) (string, error) {
	flow, texts, err := cfg.script()
	if err != nil {
		return "", err
	}
	current := texts.Current()
	return fmt.Sprintf("flow %s with %d steps, copy %s in %v", flow.Version(), len(flow.Steps()), current, texts.Locales(current)), nil
}

func lookAtDatabase(ctx context.Context, cfg Config) (string, error) {
	pool, err := postgres.Open(ctx, postgres.Config{URL: cfg.DatabaseURL.Reveal(), MaxConns: 1})
	if err != nil {
		return "", err
	}
	defer pool.Close()
	version, err := Migrations().Current(ctx, pool)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("schema version %d", version), Migrations().Ready(ctx, pool)
}

// lookAtQStash asks for the signing keys, which any valid token may read.
func lookAtQStash(ctx context.Context, cfg Config) (string, error) {
	client, err := qstash.New(qstash.Config{URL: cfg.QStashURL.String(), Token: cfg.QStashToken.Reveal()})
	if err != nil {
		return "", err
	}
	if _, err := client.Keys(ctx); err != nil {
		return "", err
	}
	return "the token is accepted at " + cfg.QStashURL.String(), nil
}

func lookAtTLS(_ context.Context, cfg Config) (string, error) {
	files, err := rpc.LoadTLS(cfg.TLS)
	if err != nil {
		return "", err
	}
	if files.Server == nil {
		return "off", nil
	}
	return "mTLS", nil
}
