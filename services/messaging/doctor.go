package messaging

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/history"
	"paceline.internal/platform/process"
	"paceline.internal/services/messaging/readback"
	"paceline.internal/services/messaging/senders"
	"paceline.internal/services/messaging/twilio"
)

// Doctor looks at everything that this service needs. It changes nothing.
func Doctor(ctx context.Context, cfg Config) process.Findings {
	ctx = postgres.AcrossOrganisations(ctx)
	about := func(look func(ctx context.Context, cfg Config) (string, error)) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) { return look(ctx, cfg) }
	}
	on, closeDatabase := process.OpenForChecks(ctx, name, cfg.database())
	defer closeDatabase()
	return process.Examine(ctx, name,
		process.Check{
			Name: "configuration", Look: about(lookAtConfig),
			Mend: "set the variables named above; docs/configuration.md lists all of them",
		},
		process.Check{Name: "service keys", Look: func(context.Context) (string, error) { return process.LookAtKeys(cfg.keys()) }},
		process.Settings(&cfg),
		process.Check{
			Name: "database", Look: on(lookAtDatabase),
			Mend: "check MESSAGING_DATABASE_URL and that Postgres runs; for a schema that is behind, run: messaging migrate",
		},
		process.Check{
			Name: "rights", Look: on(lookAtRights),
			Mend: "restore the database with its rights (pg_restore without --no-privileges), or, as the owner of the tables, grant what is " +
				"missing as services/messaging/schema/migrations do",
		},
		process.Check{
			Name: "connections", Look: on(func(ctx context.Context, pool *postgres.Pool) (string, error) {
				return process.LookAtConnections(ctx, pool, cfg.Connections.Replicas, 0)
			}),
			Mend: "raise the server's max_connections, lower DATABASE_CONNECTIONS, or put a pooler before it; docs/deploy.md, Connections",
		},
		process.Check{
			Name: "evidence", Look: about(lookAtEvidence),
			Mend: "make the folder of LEDGER_ANCHOR_DIR, and let messaging write to it; docs/security-and-privacy.md, Evidence",
		},
		process.Check{
			Name: "help texts", Look: about(lookAtHelp),
			Mend: "set SMS_BRAND_NAME to the name that your campaign is registered under, and SMS_HELP_CONTACT to where people get help; " +
				"docs/deploy.md, What carriers ask of the texts",
		},
		process.Check{
			Name: "erasure", Look: on(func(ctx context.Context, pool *postgres.Pool) (string, error) { return lookAtErasure(ctx, cfg, pool) }),
			Mend: "openssl rand -hex 32, as PSEUDONYM_KEY of messaging; keep it for good, with the backups; docs/security-and-privacy.md",
		},
		process.Check{
			Name: "consent kept", Look: about(lookAtConsentKept),
			Mend: "set CONSENT_RETENTION=43800h or longer, the others to 9600h or longer; docs/security-and-privacy.md, What a claim may ask for",
		},
		process.Check{
			Name: "failover", Look: on(process.LookAtFailover),
			Mend: "do what it says; docs/deploy.md, Failover",
		},
		process.Check{
			Name: "clock", Look: on(func(ctx context.Context, pool *postgres.Pool) (string, error) { return process.LookAtClock(ctx, pool) }),
			Mend: "synchronise this host and that of the database with NTP: the pauses between texts are as right as the clocks",
		},
		process.Check{
			Name: "callbacks", Look: about(lookAtCallbacks),
			Mend: "give PUBLIC_BASE_URL as https and a public name: Twilio posts every receipt and every reply there",
		},
		process.Check{
			Name: "twilio", Look: about(lookAtTwilio),
			Mend: "take TWILIO_ACCOUNT_SID and a Standard API key (TWILIO_API_KEY_SID, TWILIO_API_KEY_SECRET) from the Twilio console, " +
				"and one sender",
		},
		process.Check{
			Name: "senders", Look: on(func(ctx context.Context, _ *postgres.Pool) (string, error) { return lookAtSenders(ctx, cfg) }),
			Mend: "PATCH /v1/senders/{sender_id} with the account's API key and auth token as Twilio shows them now, or DELETE it if it " +
				"was never used; for a keyset that is lost, docs/organisations.md",
		},
		process.Check{
			Name: "tls", Look: about(lookAtTLS),
			Mend: "give GRPC_TLS_CERT_FILE, GRPC_TLS_KEY_FILE and GRPC_TLS_CA_FILE as readable PEM files, or none of them",
		},
	)
}

// steadyInterval sets how far two listings have to be apart to confirm an absence. Shorter ones are for tests.
const steadyInterval = 30 * time.Second

func lookAtConfig(_ context.Context, cfg Config) (string, error) {
	if err := cfg.Validate(); err != nil {
		return "", err
	}
	if cfg.ReconcileInterval < steadyInterval {
		return "", process.Warn("RECONCILE_INTERVAL is %s; Twilio's list may lag: below %s an absence may be premature",
			cfg.ReconcileInterval, steadyInterval)
	}
	if len(cfg.Numbers.Countries) == 0 {
		return "", process.Warn("SMS_COUNTRIES is empty, so numbers of every country are texted; list those that your people live in")
	}
	return "gRPC on " + cfg.Addr.String() + ", ops on " + cfg.OpsAddr.String(), nil
}

func lookAtDatabase(ctx context.Context, pool *postgres.Pool) (string, error) {
	if err := postgres.Writable(ctx, pool); err != nil {
		return "", process.Mend("do what it says; docs/deploy.md, Failover", err)
	}
	migrations := Migrations()
	if err := migrations.Ready(ctx, pool); err != nil {
		return "", err
	}
	if err := pool.Sound(ctx); err != nil {
		return "", process.Mend("do what it says; docs/deploy.md, A database of your own", err)
	}
	if err := pool.Apart(ctx); errors.Is(err, postgres.ErrOwner) {
		return "", process.Warn("%s", err)
	} else if err != nil {
		return "", err
	}
	if err := history.Named(ctx, pool); errors.Is(err, history.ErrRestarts) {
		return "", process.Warn("%s", err)
	} else if err != nil {
		return "", err
	}
	switch open, err := readback.NewStore(pool).Open(ctx); {
	case err != nil:
		return "", err
	case open > 0:
		return "", process.Mend("docs/runbooks/restore.md, The database went back",
			process.Warn("it went back in time: nothing is sent for %d organisations until Twilio's record is read back", open))
	}
	version, err := migrations.Current(ctx, pool)
	return fmt.Sprintf("reachable, schema version %d", version), err
}

// lookAtEvidence looks at what keeps the owner of the database from rewriting a consent ledger unseen.
func lookAtEvidence(_ context.Context, cfg Config) (string, error) {
	if cfg.LedgerKey.IsZero() {
		return "", process.Warn("the consent ledgers are not anchored: the owner of the database can rewrite them unseen; " +
			"set LEDGER_SIGNING_KEY and LEDGER_ANCHOR_DIR (docs/security-and-privacy.md)")
	}
	folder, err := os.Stat(cfg.AnchorDir)
	if err == nil && !folder.IsDir() {
		err = fmt.Errorf("%s is no folder", cfg.AnchorDir)
	}
	return "the consent ledgers are anchored every " + cfg.AnchorInterval.String() + " in " + cfg.AnchorDir, err
}

// lookAtHelp looks at what the answers to HELP have to name.
func lookAtHelp(_ context.Context, cfg Config) (string, error) {
	if cfg.APIURL.IsZero() && cfg.Brand == "" {
		return "", process.Warn("SMS_BRAND_NAME is not set, so the answers to HELP and STOP do not say who texts; carriers ask for it")
	}
	if cfg.APIURL.IsZero() && cfg.HelpContact == "" {
		return "", process.Warn("SMS_HELP_CONTACT is not set, so the answer to HELP does not say where to get help; carriers ask for it")
	}
	if cfg.Brand == "" {
		return "the answers to HELP and STOP name no brand, which the real Twilio's carriers ask for", nil
	}
	return "the answers to HELP and STOP begin with " + cfg.Brand, nil
}

// claimed sets how long the evidence of consent has to be had: a claim under the TCPA can be made for four years (28 U.S.C. 1658), and be
// served some months later.
const claimed = 5 * 365 * 24 * time.Hour

// shownFor sets how long words, receipts and audit are kept by default: what a person asks about a year later can then be shown.
const shownFor = 400 * 24 * time.Hour

func lookAtConsentKept(_ context.Context, cfg Config) (string, error) {
	problems := shortConsent(cfg)
	for _, kept := range []struct {
		variable string
		is       time.Duration
		gone     string
	}{
		{"MESSAGES_RETENTION", cfg.MessagesRetention, "what a text said"},
		{"RECEIPTS_RETENTION", cfg.ReceiptsRetention, "what Twilio reported"},
		{"AUDIT_RETENTION", cfg.AuditRetention, "who changed what"},
	} {
		if kept.is < shownFor {
			problems = append(problems, fmt.Sprintf("%s is %s, shorter than the default of %s: %s cannot be shown after it",
				kept.variable, kept.is, shownFor, kept.gone))
		}
	}
	if len(problems) > 0 {
		return "", process.Warn("%s", strings.Join(problems, "; "))
	}
	return "the ledger of consent is kept for " + cfg.ConsentRetention.String() + " after its last line and the last text", nil
}

// shortConsent says so when the evidence of consent goes before a claim can come.
func shortConsent(cfg Config) (problems []string) {
	if cfg.ConsentRetention < claimed {
		problems = append(problems, fmt.Sprintf("CONSENT_RETENTION is %s, shorter than five years: a claim under the TCPA can be made for four "+
			"years after a text, and the evidence of consent would be gone", cfg.ConsentRetention))
	}
	return problems
}

// logShortConsent puts that into the log of a process that starts.
func (c *Config) logShortConsent(ctx context.Context, log *slog.Logger) {
	for _, why := range shortConsent(*c) {
		log.WarnContext(ctx, "consent.kept_too_short", "why", why)
	}
}

// lookAtCallbacks looks at the host that every text names for its receipts: Twilio refuses some with 21609, and the text with it.
func lookAtCallbacks(_ context.Context, cfg Config) (string, error) {
	origin, err := url.Parse(cfg.PublicBaseURL.String())
	if err != nil {
		return "", err
	}
	host := origin.Hostname()
	address, err := netip.ParseAddr(host)
	local := host == "localhost" || err == nil && (address.IsLoopback() || address.IsPrivate())
	switch {
	case strings.Contains(host, "_"):
		return "", fmt.Errorf("Twilio refuses the host %s, for its underscore (21609)", host) //nolint:staticcheck // a name
	case local && cfg.APIURL.IsZero():
		return "", fmt.Errorf("Twilio cannot reach %s", host) //nolint:staticcheck // a name
	case !local && !strings.Contains(host, ".") && cfg.APIURL.IsZero():
		return "", fmt.Errorf("%s is no public name", host)
	}
	return "to " + cfg.PublicBaseURL.String(), nil
}

// lookAtTwilio asks Twilio about the sender, which costs nothing and shows that the credentials are good.
func lookAtTwilio(ctx context.Context, cfg Config) (string, error) {
	client, err := twilio.New(cfg.carrier())
	if err != nil {
		return "", err
	}
	defer client.Close()
	origin := cfg.APIURL.String()
	if origin == "" {
		origin = "Twilio itself"
	}
	if cfg.ServiceSID != "" {
		senders, err := client.ServiceNumbers(ctx, cfg.ServiceSID)
		if err != nil {
			return "", outOfReach(origin, err)
		}
		if len(senders) == 0 {
			return "", errors.New("the messaging service has no sender: add one to its pool")
		}
		return fmt.Sprintf("the credentials are good, and the messaging service has %d senders, by %s", len(senders), origin), nil
	}
	owned, err := client.Owns(ctx, cfg.FromNumber)
	if err != nil {
		return "", outOfReach(origin, err)
	}
	if !owned {
		return "", errors.New("TWILIO_FROM_NUMBER is no phone number of this account (a short code or a name cannot be looked up)")
	}
	return "the credentials are good and the number is the account's, by " + origin, nil
}

// outOfReach adds a remedy to an error that is no refusal by Twilio. The remedy is not about the credentials: Twilio has not read them.
func outOfReach(origin string, err error) error {
	if errors.Is(err, twilio.ErrCredentials) || errors.Is(err, twilio.ErrForbidden) || errors.Is(err, twilio.ErrNoResource) {
		return err
	}
	return process.Mend("see that this machine reaches Twilio: TWILIO_API_URL (none for Twilio itself), HTTPS_PROXY, the firewall, DNS",
		fmt.Errorf("no answer of use from %s: %w", origin, err))
}

// lookAtSenders asks Twilio about each stored sender.
func lookAtSenders(ctx context.Context, cfg Config) (found string, err error) {
	looked, problems := 0, []error(nil)
	err = withSenders(ctx, cfg, func(known *senders.Directory) error {
		return known.Look(ctx, func(s senders.Sender, wrong error) {
			looked++
			if wrong != nil {
				problems = append(problems, fmt.Errorf("sender %s of organisation %s: %w", s.ID, s.OrgID, wrong))
			}
		})
	})
	if err != nil {
		return "", process.AfterDatabase(err)
	}
	if len(problems) > 0 {
		return "", errors.Join(problems...)
	}
	if looked == 0 {
		return "none is stored: the environment's is the only one", nil
	}
	return fmt.Sprintf("Twilio takes the credentials of all %d stored senders", looked), nil
}

func lookAtTLS(_ context.Context, cfg Config) (string, error) {
	return process.LookAtTLS(cfg.TLS, cfg.Addr)
}
