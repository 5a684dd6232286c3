package onboarding

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/google/uuid"

	"paceline.internal/platform/config"
	"paceline.internal/platform/hours"
	"paceline.internal/platform/phone"
	"paceline.internal/platform/postgres"
	"paceline.internal/platform/rpc"
	"paceline.internal/platform/telemetry"
	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/engagement/rules"
	"paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/goals"
	"paceline.internal/services/onboarding/inbound/dedup"
	"paceline.internal/services/onboarding/session"
)

// Config is the environment of the onboarding service.
type Config struct {
	Addr          config.Addr  `env:"ONBOARDING_ADDR" envDefault:":9001" help:"onboarding's gRPC address; on another machine name its host"`
	OpsAddr       config.Addr  `env:"ONBOARDING_OPS_ADDR" envDefault:":9101" help:"metrics, health and profiles; not for the internet"`
	MessagingAddr config.Addr  `env:"MESSAGING_ADDR" envDefault:":9002" help:"messaging's gRPC address; on another machine name its host"`
	DatabaseURL   postgres.URL `env:"ONBOARDING_DATABASE_URL,required" help:"onboarding's Postgres database"`
	DirectURL     postgres.URL `env:"ONBOARDING_DATABASE_DIRECT_URL" help:"the server itself, if ONBOARDING_DATABASE_URL leads to a pooler"`
	MigrateURL    postgres.URL `env:"ONBOARDING_DATABASE_MIGRATE_URL" help:"the owner's, on the server itself, for migrate; else the login that serves owns the tables"`
	Timeouts      postgres.Timeouts
	Connections   postgres.Connections
	PublicBaseURL config.Origin `env:"PUBLIC_BASE_URL,required" help:"origin by which QStash and Twilio reach the gateway; signatures are computed from it"`
	RedisURL      config.Secret `env:"REDIS_URL" help:"keeps reservations of deliveries, instead of Postgres: rediss://user:password@host:port/0"`
	DefaultOrgID  string        `env:"DEFAULT_ORG_ID" envDefault:"00000000-0000-7000-8000-000000000001" help:"organisation of the configured sender"`

	Numbers phone.Policy
	// ActivationsPerDay keeps one who resets and activates in a loop from texting a person without end.
	ActivationsPerDay int `env:"ACTIVATIONS_PER_DAY" envDefault:"5" help:"most sessions of a person begun within 24 hours"`

	ActivationFlow string `env:"ACTIVATION_FLOW" help:"published flow of an activation that names none, instead of the built-in one"`

	// Alarms names the engine of the alarms. An alarm that another engine was given before a change rings all the same.
	Alarms string `env:"ALARMS" envDefault:"qstash" help:"who rings alarms: qstash, postgres (onboarding's database), or qstash,postgres: the database while QStash does not"`

	QStashURL          config.Origin `env:"QSTASH_URL" envDefault:"https://qstash.upstash.io" help:"origin of QStash's API"`
	QStashToken        config.Secret `env:"QSTASH_TOKEN" help:"publishes alarms, unless ALARMS is postgres; console.upstash.com, QStash, Request Builder"`
	QStashRetries      int           `env:"QSTASH_RETRIES" envDefault:"5" help:"attempts that QStash makes after the first"`
	QStashRetryDelay   string        `env:"QSTASH_RETRY_DELAY" envDefault:"10000 * pow(2, retried)" help:"QStash's expression for the pause, in milliseconds"`
	SchedulingDisabled bool          `env:"ONBOARDING_SCHEDULING_DISABLED" help:"1 records alarms without publishing them"`

	AlarmRelayInterval  time.Duration `env:"ALARM_RELAY_INTERVAL" envDefault:"1s" help:"how often unpublished alarms are looked for without a wake-up"`
	AlarmOverdueGrace   time.Duration `env:"ALARM_OVERDUE_GRACE" envDefault:"60s" help:"how long after its alarm an unexecuted step gets another; doubles each time"`
	AlarmMaxGenerations int           `env:"ALARM_MAX_GENERATIONS" envDefault:"5" help:"alarms without effect after which a session is parked; outages of messaging do not count"`
	// InboundSweepInterval bounds how long an opt-out can go unheard if an outage has lost its webhook. 0.1.0 called it
	// INBOUND_AUDIT_INTERVAL. Remove the tag "was" in the release after this one.
	InboundSweepInterval config.Interval `env:"INBOUND_SWEEP_INTERVAL" was:"INBOUND_AUDIT_INTERVAL" envDefault:"5m" help:"how often Twilio's record is searched for missed texts; 0 never; was INBOUND_AUDIT_INTERVAL"`

	// JobsRetention keeps what a person asks about within a month; jobs that a conversation still refers to stay beyond it.
	JobsRetention time.Duration `env:"JOBS_RETENTION" envDefault:"720h" help:"keeps finished jobs, runs of flows, messages of engagement and deliveries of events"`

	// MessagesRetention is messaging's, too: it takes the words out of the inbox here.
	MessagesRetention time.Duration `env:"MESSAGES_RETENTION" envDefault:"9600h" help:"keeps the words of messages"`

	// These, like all that is kept for a time, are an organisation's where it has decided nothing itself.
	TimelineRetention   time.Duration `env:"TIMELINE_RETENTION" envDefault:"9600h" help:"keeps a session's timeline after its end"`
	AlarmsRetention     time.Duration `env:"ALARMS_RETENTION" envDefault:"2160h" help:"keeps alarms of done steps, and settled dead letters"`
	EngagementRetention time.Duration `env:"ENGAGEMENT_RETENTION" envDefault:"9600h" help:"keeps changes of engagement, and results of runs"`

	// ExtraPrefixes are process-wide; see phone.Allow.
	ExtraPrefixes phone.Prefixes `env:"PHONE_EXTRA_PREFIXES" help:"prefixes newer than this release's numbering plans, such as +1861,+1436"`
	// QStashMaxDelay is the longest delay that QStash's plan allows: 7 days on the free one, a year on a paid one.
	QStashMaxDelay time.Duration `env:"QSTASH_MAX_DELAY" envDefault:"168h" help:"how far ahead QStash's plan takes a message: 7 days free, a year paid"`
	RunLease       time.Duration `env:"RUN_LEASE" envDefault:"60s" help:"how long a device may be silent about a running goal"`
	RunLimit       time.Duration `env:"RUN_LIMIT" envDefault:"1h" help:"how long a device may run a goal"`
	Classifier     ClassifierConfig
	// GoalsRetention has to cover the day in which a goal that was said by text is undone and counted.
	GoalsRetention time.Duration `env:"GOALS_RETENTION" envDefault:"2160h" help:"keeps ended goals and deleted devices"`

	// OrganisationGrace is long enough to notice that the wrong organisation was ended.
	OrganisationGrace time.Duration `env:"ORGANISATION_GRACE" envDefault:"720h" help:"how long an ended organisation can be resumed, before it is erased"`

	// AuditRetention is more than a year, so that what is asked after a year can be answered.
	AuditRetention time.Duration `env:"AUDIT_RETENTION" envDefault:"9600h" help:"keeps the audit log"`

	EventsRetention      config.Interval `env:"EVENTS_RETENTION" envDefault:"168h" help:"keeps events, three days at least for a subscription that lacks them; 0 until all have them"`
	EventsPrivateTargets []netip.Prefix  `env:"EVENTS_ALLOW_PRIVATE_TARGETS" help:"private networks, such as 10.0.0.0/8, that events may go to, also without TLS"`

	QuietHoursDefault string `env:"QUIET_HOURS_DEFAULT" help:"when conversations begin and the queue sends, by the person's clock, such as 08:00-21:00; off is any hour; an organisation's own wins"`

	FlowFile string `env:"ONBOARDING_FLOW_FILE" help:"flow file instead of the built-in one"`
	CopyDir  string `env:"ONBOARDING_COPY_DIR" help:"folder of copy files instead of the built-in one"`

	GoalWordsFile string `env:"GOAL_WORDS_FILE" help:"JSON file of words that begin a goal, by locale"`

	EngagementFile    string `env:"ENGAGEMENT_FILE" help:"engagement file instead of the built-in one"`
	EngagementCopyDir string `env:"ENGAGEMENT_COPY_DIR" help:"folder of copy files that replace single texts of engagement and goals"`

	SigningKey        config.Secret `env:"ONBOARDING_SIGNING_KEY" help:"signs onboarding's calls: Ed25519 private key, PKCS #8"`
	PublicKeys        config.Secret `env:"SERVICE_PUBLIC_KEYS" help:"callers' public keys: gateway=KEY,onboarding=KEY,operator=KEY; two of a name during a change"`
	ServiceAuthSecret config.Secret `env:"SERVICE_AUTH_SECRET" help:"shared secret of earlier releases; leave it out once every process has keys"`
	TLS               rpc.TLSFiles
	Telemetry         telemetry.Config
}

// maxRetries is far beyond any sensible policy; QStash refuses more than its plan has.
const maxRetries = 20

const (
	// maxDelay is the longest delay that QStash's largest plans take.
	maxDelay = 365 * 24 * time.Hour
	// minRunLease leaves a device time for several signs of life.
	minRunLease = 10 * time.Second
	// minRetention is more than any step is delayed, and than a repeat of what is forgotten may take. The database keeps younger audit.
	minRetention = 30 * 24 * time.Hour
	// minGoalsRetention is for how long what was said by text is undone by a bare word, and counted.
	minGoalsRetention = 24 * time.Hour
)

// database returns how the service reaches its database.
func (c *Config) database() postgres.Config {
	return postgres.Config{
		URL: c.DatabaseURL.Reveal(), DirectURL: c.DirectURL.Reveal(), Timeouts: c.Timeouts,
		MaxConns: int32(c.Connections.Most), //nolint:gosec // it is bounded
	}
}

// kept returns how long rows are kept that are over.
func (c *Config) kept() Kept {
	return Kept{
		Messages: c.MessagesRetention, Timeline: c.TimelineRetention, Alarms: c.AlarmsRetention, Engagement: c.EngagementRetention,
		Goals: c.GoalsRetention,
		Jobs:  c.JobsRetention, Events: c.EventsRetention.Every(), Audit: c.AuditRetention,
	}
}

// LoadConfig reads the environment and reports every problem with it at once.
func LoadConfig(environ map[string]string) (Config, error) {
	var cfg Config
	err := config.Load(environ, &cfg)
	return cfg, err
}

// keys returns the keys that sign onboarding's calls, and the keys of its callers.
func (c *Config) keys() rpc.Keys {
	return rpc.Keys{Process: rpc.Onboarding, Signing: c.SigningKey, Public: c.PublicKeys, Shared: c.ServiceAuthSecret}
}

// Validate reports what the types of the fields cannot.
func (c *Config) Validate() error {
	var problems []error
	if uuid.Validate(c.DefaultOrgID) != nil {
		problems = append(problems, &config.Problem{
			Variable: "DEFAULT_ORG_ID", Reason: "must be a UUID", Help: "organisation of the configured sender",
		})
	}
	problems = append(problems, c.keys().CheckSigning(), c.keys().CheckPublic(), c.checkAlarms())
	if _, err := dedup.RedisOptions(c.RedisURL.Reveal()); err != nil && !c.RedisURL.IsZero() {
		problems = append(problems, &config.Problem{
			Variable: "REDIS_URL", Reason: "must be a redis://, rediss:// or unix:// URL",
			Help: "redis://user:password@host:port/database, or none for Postgres",
		})
	}
	if c.ActivationFlow != "" && !flow.IsName(c.ActivationFlow) {
		problems = append(problems, &config.Problem{
			Variable: "ACTIVATION_FLOW", Reason: "must be the name of a flow: a-z, 0-9 and _, at most 40, a letter first",
			Help: "such as appointment",
		})
	}
	if c.ActivationsPerDay < 1 {
		problems = append(problems, &config.Problem{Variable: "ACTIVATIONS_PER_DAY", Reason: "must be 1 or more", Help: "such as 5"})
	}
	if c.QStashRetries < 0 || c.QStashRetries > maxRetries {
		problems = append(problems, &config.Problem{
			Variable: "QSTASH_RETRIES", Reason: fmt.Sprintf("must be 0 to %d", maxRetries), Help: "attempts that QStash makes after the first",
		})
	}
	if c.AlarmRelayInterval <= 0 {
		problems = append(problems, &config.Problem{Variable: "ALARM_RELAY_INTERVAL", Reason: "must be above 0", Help: "such as 1s"})
	}
	if c.AlarmOverdueGrace < time.Second {
		problems = append(problems, &config.Problem{Variable: "ALARM_OVERDUE_GRACE", Reason: "must be 1s or more", Help: "such as 60s"})
	}
	if c.AlarmMaxGenerations < 1 {
		problems = append(problems, &config.Problem{Variable: "ALARM_MAX_GENERATIONS", Reason: "must be 1 or more", Help: "such as 5"})
	}
	if c.QStashMaxDelay < time.Minute || c.QStashMaxDelay > maxDelay {
		problems = append(problems, &config.Problem{Variable: "QSTASH_MAX_DELAY", Reason: "must be 1m to 8760h", Help: "such as 168h"})
	}
	if c.RunLease < minRunLease || c.RunLimit < c.RunLease {
		problems = append(problems, &config.Problem{
			Variable: "RUN_LEASE", Reason: "must be 10s or more, and RUN_LIMIT no less than it", Help: "such as 60s and 1h",
		})
	}
	if c.GoalsRetention < minGoalsRetention {
		problems = append(problems, &config.Problem{Variable: "GOALS_RETENTION", Reason: "must be 24h or more", Help: "such as 2160h"})
	}
	for variable, kept := range map[string]time.Duration{
		"MESSAGES_RETENTION": c.MessagesRetention, "TIMELINE_RETENTION": c.TimelineRetention, "ALARMS_RETENTION": c.AlarmsRetention,
		"ENGAGEMENT_RETENTION": c.EngagementRetention, "AUDIT_RETENTION": c.AuditRetention,
	} {
		if kept < minRetention {
			problems = append(problems, &config.Problem{Variable: variable, Reason: "must be 720h or more", Help: "such as 9600h"})
		}
	}
	if c.JobsRetention < time.Hour {
		problems = append(problems, &config.Problem{Variable: "JOBS_RETENTION", Reason: "must be 1h or more", Help: "such as 720h"})
	}
	if _, err := hours.ParseWindow(c.QuietHoursDefault); err != nil {
		problems = append(problems, &config.Problem{Variable: "QUIET_HOURS_DEFAULT", Reason: err.Error(), Help: "such as 08:00-21:00, or off"})
	}
	if _, _, err := c.script(); err != nil {
		problems = append(problems, err)
	}
	if _, _, err := c.engagement(); err != nil {
		problems = append(problems, err)
	}
	if _, err := c.goalWords(); err != nil {
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// Text is one text of the flow as a person gets it.
type Text struct{ Locale, Key, Body string }

// Texts returns the texts of the flow and of the replies, in every language, for a person of this name.
func (c *Config) Texts(firstName string) ([]Text, error) {
	flow, texts, err := c.script()
	if err != nil {
		return nil, err
	}
	keys := []string{string(session.TextOpening), string(session.TextExplanation), string(session.TextLater)}
	for _, step := range flow.Steps() {
		keys = append(keys, string(step.Text))
	}
	var all []Text
	for _, locale := range texts.Locales(texts.Current()) {
		for _, key := range keys {
			body, err := texts.Render(texts.Current(), locale, key, firstName)
			if err != nil {
				return nil, err
			}
			all = append(all, Text{Locale: locale, Key: key, Body: body})
		}
	}
	return all, nil
}

// script returns what is said and when: the flow and the texts, each built in or from its file, checked against each other.
func (c *Config) script() (session.Flow, catalog.Catalog, error) {
	flow, texts := session.DefaultFlow(), catalog.Default()
	if c.FlowFile != "" {
		file, err := os.ReadFile(c.FlowFile)
		if err == nil {
			flow, err = session.ParseFlow(file)
		}
		if err != nil {
			return flow, texts, &config.Problem{Variable: "ONBOARDING_FLOW_FILE", Reason: "cannot be used: " + err.Error(), Help: "a flow file"}
		}
	}
	if c.CopyDir != "" {
		var err error
		if texts, err = catalog.Load(os.DirFS(c.CopyDir)); err != nil {
			return flow, texts, &config.Problem{
				Variable: "ONBOARDING_COPY_DIR", Reason: "cannot be used: " + err.Error(), Help: "a folder of copy files",
			}
		}
	}
	for _, step := range flow.Steps() {
		if !texts.Has(texts.Current(), string(step.Text)) {
			return flow, texts, &config.Problem{
				Variable: "ONBOARDING_FLOW_FILE",
				Reason:   fmt.Sprintf("step %s sends %s, which the copy %s does not have", step.ID, step.Text, texts.Current()),
				Help:     "add the text to the copy files, see ONBOARDING_COPY_DIR",
			}
		}
	}
	return flow, texts, nil
}

// engagement returns what engagement decides by and the texts that it sends, each built in or from its file.
func (c *Config) engagement() (rules.Config, catalog.Engagement, error) {
	decided, texts := rules.DefaultConfig(), catalog.DefaultEngagement()
	var problems []error
	if c.EngagementFile != "" {
		file, err := os.ReadFile(c.EngagementFile)
		if err == nil {
			decided, err = rules.ParseConfig(file)
		}
		if err != nil {
			problems = append(problems, &config.Problem{
				Variable: "ENGAGEMENT_FILE", Reason: "cannot be used: " + err.Error(), Help: "an engagement file, see docs/engagement.md",
			})
		}
	}
	if c.EngagementCopyDir != "" {
		var err error
		if texts, err = catalog.LoadEngagement(os.DirFS(c.EngagementCopyDir)); err != nil {
			problems = append(problems, &config.Problem{
				Variable: "ENGAGEMENT_COPY_DIR", Reason: "cannot be used: " + err.Error(), Help: "a folder of copy files, see docs/flows.md",
			})
		}
	}
	return decided, texts, errors.Join(problems...)
}

// goalWords returns the words that a text begins with that says a goal, built in or from the file.
func (c *Config) goalWords() (goals.Words, error) {
	if c.GoalWordsFile == "" {
		return goals.DefaultWords(), nil
	}
	var words goals.Words
	file, err := os.ReadFile(c.GoalWordsFile)
	if err == nil {
		words, err = goals.ParseWords(file)
	}
	if err != nil {
		return words, &config.Problem{
			Variable: "GOAL_WORDS_FILE", Reason: "cannot be used: " + err.Error(), Help: "lists of words by locale, see docs/goals.md, By text",
		}
	}
	return words, nil
}
