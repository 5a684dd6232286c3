package messaging

import (
	"errors"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"paceline.internal/platform/config"
	"paceline.internal/platform/phone"
	"paceline.internal/platform/postgres"
	"paceline.internal/platform/rpc"
	"paceline.internal/platform/telemetry"
	"paceline.internal/services/messaging/consent/anchor"
	"paceline.internal/services/messaging/inbound"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/senders"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

// Config is the environment of the messaging service.
type Config struct {
	DatabaseURL postgres.URL `env:"MESSAGING_DATABASE_URL,required" help:"messaging's Postgres database"`
	DirectURL   postgres.URL `env:"MESSAGING_DATABASE_DIRECT_URL" help:"as ONBOARDING_DATABASE_DIRECT_URL"`
	MigrateURL  postgres.URL `env:"MESSAGING_DATABASE_MIGRATE_URL" help:"as ONBOARDING_DATABASE_MIGRATE_URL"`
	Timeouts    postgres.Timeouts
	Connections postgres.Connections
	Addr        config.Addr `env:"MESSAGING_ADDR" envDefault:":9002" help:"messaging's gRPC address; on another machine name its host"`
	OpsAddr     config.Addr `env:"MESSAGING_OPS_ADDR" envDefault:":9102" help:"metrics and health; not for the internet"`
	// PublicBaseURL goes into the StatusCallback of every message.
	PublicBaseURL config.Origin `env:"PUBLIC_BASE_URL,required" help:"origin by which QStash and Twilio reach the gateway; signatures are computed from it"`

	AccountSID string `env:"TWILIO_ACCOUNT_SID,required" help:"Twilio account that sends"`
	// Its own key to call with, so that this process cannot sign what Twilio signs, and the gateway cannot send.
	APIKeySID    string        `env:"TWILIO_API_KEY_SID" help:"API key that calls Twilio, SK...; with its secret, or TWILIO_AUTH_TOKEN"`
	APIKeySecret config.Secret `env:"TWILIO_API_KEY_SECRET" help:"its secret"`
	AuthToken    config.Secret `env:"TWILIO_AUTH_TOKEN" help:"verifies Twilio's callbacks; calls Twilio if messaging has no API key; OLD,NEW during a change"`
	// SenderKeyset opens the credentials of the senders that are stored over /v1. Without it, and without stored senders, there is this one.
	SenderKeyset config.Secret `env:"SENDER_KEYSET" help:"Tink keyset that seals senders' credentials; messaging keyset prints one; keep it with the backups"`
	// The sender. With both, messages are sent through the service, and those that arrive at either are ours.
	ServiceSID string        `env:"TWILIO_MESSAGING_SERVICE_SID" help:"messaging service to send from; this or TWILIO_FROM_NUMBER"`
	FromNumber string        `env:"TWILIO_FROM_NUMBER" help:"number to send from, E.164"`
	APIURL     config.Origin `env:"TWILIO_API_URL" help:"origin of an emulator or proxy of Twilio"`
	// OrgID owns the sender: an organisation without one is refused, never sent for in another's name.
	OrgID uuid.UUID `env:"DEFAULT_ORG_ID" envDefault:"00000000-0000-7000-8000-000000000001" help:"organisation of the configured sender"`

	Numbers phone.Policy
	// ExtraPrefixes are process-wide; see phone.Allow.
	ExtraPrefixes phone.Prefixes `env:"PHONE_EXTRA_PREFIXES" help:"prefixes newer than this release's numbering plans, such as +1861,+1436"`
	Caps          send.Caps

	// What our own replies about consent say besides the rules: a STOP or HELP in words that Twilio does not know is answered by us. Those
	// of other organisations than OrgID name nobody.
	Brand       string `env:"SMS_BRAND_NAME" help:"name that begins confirmations and help texts of DEFAULT_ORG_ID"`
	HelpContact string `env:"SMS_HELP_CONTACT" help:"where people get help, in help texts of DEFAULT_ORG_ID"`

	Timeout time.Duration `env:"TWILIO_TIMEOUT" envDefault:"10s" help:"one call to Twilio; shorter than SEND_LEASE"`
	// Lease has to outlive the call, or a send that is merely slow would be taken for a crashed one.
	Lease time.Duration `env:"SEND_LEASE" envDefault:"30s" help:"how long a claim of a send lives"`
	// ReconcileInterval also bounds how soon a message with a lost answer is sent again: it and the lease and the timeout together.
	ReconcileInterval time.Duration `env:"RECONCILE_INTERVAL" envDefault:"30s" help:"how often unknown sends are reconciled, and least time between listings"`

	// SegmentsPerSecond is the rate at which Twilio sends for the whole sender, all numbers of a messaging service together: what comes faster
	// it queues. The outbound queue keeps to it; onboarding counts, and never waits.
	SegmentsPerSecond float64       `env:"SMS_SEGMENTS_PER_SECOND" envDefault:"1" help:"the sender's rate: 1 for a US long code, 3 toll-free, 100 short code; at most 1000"`
	OutboundPoll      time.Duration `env:"OUTBOUND_POLL" envDefault:"5s" help:"how often the outbound queue is read without a wake-up"`
	AuditRetention    time.Duration `env:"AUDIT_RETENTION" envDefault:"9600h" help:"keeps the audit log"`
	OutboundRetention time.Duration `env:"OUTBOUND_RETENTION" envDefault:"720h" help:"keeps queued messages and their idempotency keys after their end"`

	// MessagesRetention and ConsentRetention are longer than any repeat of a key may take: the record of a message, which refuses a
	// second one under its key, goes with the latter.
	MessagesRetention time.Duration `env:"MESSAGES_RETENTION" envDefault:"9600h" help:"keeps the words of messages"`
	ReceiptsRetention time.Duration `env:"RECEIPTS_RETENTION" envDefault:"9600h" help:"keeps Twilio's reports"`
	ConsentRetention  time.Duration `env:"CONSENT_RETENTION" envDefault:"43800h" help:"keeps consent ledgers and records of messages, after the last entry; opt-outs for ever"`

	// OutreachInterval bounds outreach in addition to the sender's rate, which it keeps as well.
	OutreachInterval time.Duration `env:"ENGAGEMENT_SEND_INTERVAL" envDefault:"500ms" help:"least time between an organisation's engagement messages"`

	// PseudonymKey never changes: under another key the service cannot find the STOP of an erased person, so it refuses to text new people.
	PseudonymKey config.Secret `env:"PSEUDONYM_KEY" help:"makes erased people's pseudonyms and digests of deleted codes, at least 32 bytes; never change it; without it nobody can be erased"`
	// The key is not in the database, and the folder is not on its machine: the owner of the database can rewrite a ledger, but not what
	// was signed.
	LedgerKey      config.Secret `env:"LEDGER_SIGNING_KEY" help:"Ed25519 private key that signs ledgers' anchors; with LEDGER_ANCHOR_DIR, or neither"`
	AnchorDir      string        `env:"LEDGER_ANCHOR_DIR" help:"folder for anchors, outside the database"`
	AnchorInterval time.Duration `env:"LEDGER_ANCHOR_INTERVAL" envDefault:"1h" help:"how often changed ledgers are anchored"`

	PublicKeys config.Secret `env:"SERVICE_PUBLIC_KEYS" help:"callers' public keys: gateway=KEY,onboarding=KEY,operator=KEY; two of a name during a change"`
	AuthSecret config.Secret `env:"SERVICE_AUTH_SECRET" help:"shared secret of earlier releases; leave it out once every process has keys"`
	TLS        rpc.TLSFiles
	Telemetry  telemetry.Config
}

const (
	// minRetention is more than a message may be in doubt, or asked for again.
	minRetention = 30 * 24 * time.Hour
	// minConsentRetention keeps a slip in a unit from deleting the evidence of consent, and the keys that keep a message from going out twice.
	minConsentRetention = 365 * 24 * time.Hour
)

func (c *Config) kept() kept {
	return kept{
		Messages: c.MessagesRetention, Receipts: c.ReceiptsRetention, Consent: c.ConsentRetention, Outbound: c.OutboundRetention,
		Audit: c.AuditRetention,
	}
}

func (c *Config) database() postgres.Config {
	return postgres.Config{
		URL: c.DatabaseURL.Reveal(), DirectURL: c.DirectURL.Reveal(), Timeouts: c.Timeouts,
		MaxConns: int32(c.Connections.Most), //nolint:gosec // it is bounded
	}
}

// LoadConfig reads the environment and reports everything that is missing or malformed at once, one problem per line.
func LoadConfig(environ map[string]string) (Config, error) {
	var cfg Config
	err := config.Load(environ, &cfg)
	return cfg, err
}

// Validate returns what one variable alone cannot show.
func (c *Config) Validate() error {
	var problems []error
	report := func(wrong bool, variable, reason string) {
		if wrong {
			problems = append(problems, &config.Problem{Variable: variable, Reason: reason})
		}
	}
	report(c.ServiceSID == "" && c.FromNumber == "",
		"TWILIO_MESSAGING_SERVICE_SID or TWILIO_FROM_NUMBER", "is missing: one of them is the sender of every text")
	report(c.ServiceSID != "" && !strings.HasPrefix(c.ServiceSID, "MG"), "TWILIO_MESSAGING_SERVICE_SID", "must begin with MG")
	_, phoneErr := sms.StoredPhone(c.FromNumber)
	report(c.FromNumber != "" && phoneErr != nil, "TWILIO_FROM_NUMBER", "must be in E.164, such as +14155550123")
	report(c.AccountSID != "" && !strings.HasPrefix(c.AccountSID, "AC"), "TWILIO_ACCOUNT_SID", "must begin with AC")
	report(c.Timeout >= c.Lease && c.Lease > 0, "TWILIO_TIMEOUT", "must be shorter than SEND_LEASE")
	report(c.ReconcileInterval <= 0, "RECONCILE_INTERVAL", "must be more than 0")
	slow, fast := 0.01, 1000.0
	report(!(c.SegmentsPerSecond >= slow && c.SegmentsPerSecond <= fast), "SMS_SEGMENTS_PER_SECOND", "must be 0.01 to 1000")
	report(c.OutboundPoll <= 0, "OUTBOUND_POLL", "must be more than 0")
	report(c.AuditRetention < minRetention, "AUDIT_RETENTION", "must be 720h or more") // the database keeps what is younger
	report(c.MessagesRetention < minRetention, "MESSAGES_RETENTION", "must be 720h or more")
	report(c.ReceiptsRetention < minRetention, "RECEIPTS_RETENTION", "must be 720h or more")
	report(c.ConsentRetention < max(minConsentRetention, c.MessagesRetention), "CONSENT_RETENTION",
		"must be 8760h or more, and no shorter than MESSAGES_RETENTION")
	report(c.OutboundRetention <= 0, "OUTBOUND_RETENTION", "must be more than 0")
	report(c.OutreachInterval <= 0 || c.OutreachInterval > time.Minute, "ENGAGEMENT_SEND_INTERVAL", "must be more than 0 and at most 1m")
	shortKey := 32
	report(!c.PseudonymKey.IsZero() && len(c.PseudonymKey.Reveal()) < shortKey, "PSEUDONYM_KEY",
		"must have at least 32 bytes: make one with openssl rand -hex 32")
	for variable, text := range map[string]string{"SMS_BRAND_NAME": c.Brand, "SMS_HELP_CONTACT": c.HelpContact} {
		report(!isLine(text), variable, "must be one line of at most 60 characters")
	}
	report(c.LedgerKey.IsZero() != (c.AnchorDir == ""), "LEDGER_SIGNING_KEY", "needs LEDGER_ANCHOR_DIR, and the other way round")
	if _, err := anchor.ParseKey(c.LedgerKey.Reveal()); err != nil && !c.LedgerKey.IsZero() {
		report(true, "LEDGER_SIGNING_KEY", err.Error())
	}
	if _, err := c.keyset(); err != nil {
		report(true, "SENDER_KEYSET", err.Error())
	}
	report(c.AnchorInterval < time.Second, "LEDGER_ANCHOR_INTERVAL", "must be 1s or more")
	report(c.OrgID == uuid.Nil, "DEFAULT_ORG_ID", "must not be the nil UUID")
	report(c.APIKeySID == "" && c.APIKeySecret.IsZero() && c.AuthToken.IsZero(),
		"TWILIO_API_KEY_SID and TWILIO_API_KEY_SECRET or TWILIO_AUTH_TOKEN", "is missing: Twilio takes no call without it")
	report((c.APIKeySID == "") != c.APIKeySecret.IsZero(), "TWILIO_API_KEY_SID and TWILIO_API_KEY_SECRET", "are not both set")
	report(c.APIKeySID != "" && !strings.HasPrefix(c.APIKeySID, "SK"), "TWILIO_API_KEY_SID", "must begin with SK")
	problems = append(problems, c.keys().CheckPublic())
	return errors.Join(problems...)
}

// keys returns those of messaging's callers. It calls none of our processes.
func (c *Config) keys() rpc.Keys {
	return rpc.Keys{Public: c.PublicKeys, Shared: c.AuthSecret}
}

// isLine bounds what is put into our message, so that one line stays one.
func isLine(text string) bool {
	return utf8.ValidString(text) && utf8.RuneCountInString(text) <= 60 && strings.TrimSpace(text) == text &&
		!strings.ContainsFunc(text, unicode.IsControl)
}

func (c *Config) replyCopy() inbound.ReplyCopy {
	return inbound.ReplyCopy{Brand: c.Brand, Contact: c.HelpContact}
}

// sender returns what the environment has messages sent from, and to whom those that arrive there belong.
func (c *Config) sender() senders.Sender {
	return senders.Sender{
		OrgID: c.OrgID, AccountSID: c.AccountSID, Number: c.FromNumber, ServiceSID: c.ServiceSID, Rate: c.SegmentsPerSecond,
		Status: senders.Active,
	}
}

// keyset is nil where none is set.
func (c *Config) keyset() (set *senders.Keyset, err error) {
	if !c.SenderKeyset.IsZero() {
		set, err = senders.ParseKeyset(c.SenderKeyset.Reveal())
	}
	return set, err
}

// directory returns the senders of all organisations. Their clients share the connections of transport.
func (c *Config) directory(pool postgres.DB, carrier *twilio.Client, now func() time.Time) (*senders.Directory, error) {
	keyset, err := c.keyset()
	if err != nil {
		return nil, err
	}
	return senders.New(senders.Config{
		Store: senders.NewStore(pool), Keyset: keyset, Environment: c.sender(),
		APIURL: c.APIURL.String(), Timeout: c.Timeout, Now: now, Transport: carrier.Transport(),
	}), nil
}
