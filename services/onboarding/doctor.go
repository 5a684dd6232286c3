package onboarding

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"paceline.internal/platform/hours"
	"paceline.internal/platform/letters"
	"paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/history"
	"paceline.internal/platform/process"
	"paceline.internal/platform/reading/languages"
	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/flows"
	"paceline.internal/services/onboarding/inbound/dedup"
	"paceline.internal/services/onboarding/people"
)

// Doctor checks everything that this service needs. It changes nothing.
func Doctor(ctx context.Context, cfg Config) process.Findings {
	ctx = postgres.AcrossOrganisations(ctx)
	about := func(check func(ctx context.Context, cfg Config) (string, error)) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) { return check(ctx, cfg) }
	}
	on, closeDatabase := process.OpenForChecks(ctx, name, cfg.database())
	defer closeDatabase()
	checks := []process.Check{
		{
			Name: "quiet hours", Look: about(lookAtQuietHours),
			Mend: "set QUIET_HOURS_DEFAULT=08:00-21:00, unless all organisations decide theirs (PUT /v1/settings); docs/deploy.md, Quiet hours",
		},
		{
			Name: "database", Look: on(lookAtDatabase),
			Mend: "check ONBOARDING_DATABASE_URL and that Postgres runs; if the schema is behind, run: onboarding migrate",
		},
		{
			Name: "time zones", Look: on(lookAtTimeZones),
			Mend: "give people a time_zone (PATCH /v1/profiles/{id}), or the organisation one (PUT /v1/settings); docs/deploy.md, Quiet hours",
		},
		{
			Name: "activation flow", Look: on(withConfig(cfg, lookAtActivationFlow)),
			Mend: "publish the flow (paceline flow push DIR), or correct ACTIVATION_FLOW; without it an activation starts the built-in conversation",
		},
		{
			Name: "rights", Look: on(lookAtRights),
			Mend: "restore the database with its rights (pg_restore without --no-privileges), or, as the owner of the tables, grant what is " +
				"missing as services/onboarding/schema/migrations do",
		},
		{
			Name: "connections", Look: on(func(ctx context.Context, pool *postgres.Pool) (string, error) {
				return process.LookAtConnections(ctx, pool, cfg.Connections.Replicas, listeners)
			}),
			Mend: "raise the server's max_connections, lower DATABASE_CONNECTIONS, or put a pooler before it; docs/deploy.md, Connections",
		},
		{
			Name: "failover", Look: on(process.LookAtFailover),
			Mend: "do what it says; docs/deploy.md, Failover",
		},
		{
			Name: "clock", Look: on(func(ctx context.Context, pool *postgres.Pool) (string, error) { return process.LookAtClock(ctx, pool) }),
			Mend: "synchronise this host and that of the database with NTP: the pauses between texts are as right as the clocks",
		},
		{
			Name: "qstash", Look: about(lookAtQStash),
			Mend: "take QSTASH_URL and QSTASH_TOKEN of one region from the Upstash console, QStash",
		},
		{
			Name: "alarms", Look: on(withConfig(cfg, lookAtAlarms)),
			Mend: "start onboarding; where it runs, see its log for queue.unreachable and process.loop_stalled; " +
				"docs/runbooks/work-stands-still.md, A backlog grows",
		},
		{
			Name: "scheduling", Look: on(withConfig(cfg, lookAtScheduling)),
			Mend: "if it is not meant: take ONBOARDING_SCHEDULING_DISABLED out and start onboarding again, and POST /v1/scheduling:resume in each " +
				"organisation that is paused",
		},
		{
			Name: "tls", Look: about(lookAtTLS),
			Mend: "give GRPC_TLS_CERT_FILE, GRPC_TLS_KEY_FILE and GRPC_TLS_CA_FILE as readable PEM files, or none of them",
		},
	}
	checks = append(append(environment(about, cfg), checks...), promises(about, on, cfg)...)
	if !cfg.RedisURL.IsZero() {
		checks = append(checks, process.Check{
			Name: "redis", Look: about(lookAtRedis),
			Mend: "check REDIS_URL, that Redis runs, and that its user may run scripts; or take REDIS_URL out to use Postgres",
		})
	}
	return process.Examine(ctx, name, checks...)
}

// environment are the checks of the variables, and of the files that may stand in the place of built-in ones.
func environment(
	about func(func(ctx context.Context, cfg Config) (string, error)) func(context.Context) (string, error), cfg Config,
) []process.Check {
	return []process.Check{
		{
			Name: "configuration", Look: about(lookAtConfig),
			Mend: "set the variables named above; docs/configuration.md lists all of them",
		},
		{Name: "service keys", Look: func(context.Context) (string, error) { return process.LookAtKeys(cfg.keys()) }},
		process.Settings(&cfg),
		{
			Name: "flow and copy", Look: about(lookAtScript),
			Mend: "mend the file, or leave ONBOARDING_FLOW_FILE and ONBOARDING_COPY_DIR out for the built-in ones",
		},
		{
			Name: "engagement", Look: about(lookAtEngagement),
			Mend: "mend the file, or leave ENGAGEMENT_FILE and ENGAGEMENT_COPY_DIR out for the built-in ones",
		},
		{
			Name: "goal words", Look: about(lookAtGoalWords),
			Mend: "mend the file, or leave GOAL_WORDS_FILE out for the built-in ones",
		},
	}
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
	said := fmt.Sprintf("flow %s with %d steps, copy %s in %v", flow.Version(), len(flow.Steps()), current, texts.Locales(current))
	return said, errors.Join(unspoken("ONBOARDING_COPY_DIR", texts.Locales(current)),
		dearer(texts.Texts(current), catalog.Default().Texts(catalog.Default().Current())))
}

// unspoken returns a warning about languages of texts that no profile can have.
func unspoken(variable string, locales []string) error {
	var unused []string
	for _, locale := range locales {
		if stored, err := people.ParseLocale(locale); err != nil || stored != locale {
			unused = append(unused, locale)
		}
	}
	if len(unused) == 0 {
		return nil
	}
	return process.Warn("%s has texts in %v, which are sent to nobody: the locale of a profile is one of %v; remove them, or name the "+
		"file of a language by one of these", variable, unused, languages.Written())
}

func lookAtEngagement(_ context.Context, cfg Config) (string, error) {
	decided, texts, err := cfg.engagement()
	if err != nil {
		return "", err
	}
	said := fmt.Sprintf("engagement %s with %d actions, texts in %v", decided.Version, len(decided.Actions()), texts.Locales())
	return said, errors.Join(unspoken("ENGAGEMENT_COPY_DIR", texts.Locales()),
		dearer(texts.Texts(), catalog.DefaultEngagement().Texts()))
}

// dearer warns of texts that cost twice as much for signs and emoji alone. In a text with letters outside GSM-7 these change nothing,
// and in what is built in they are meant.
func dearer(texts, builtIn []catalog.Text) error {
	var found []string
	for _, text := range texts {
		signs := letters.Dearer(text.Text)
		if len(signs) > 0 && !slices.ContainsFunc(signs, unicode.IsLetter) && !slices.Contains(builtIn, text) {
			found = append(found, fmt.Sprintf("%s in %s (%+q)", text.Key, text.Locale, string(signs)))
		}
	}
	if len(found) == 0 {
		return nil
	}
	return process.Mend("leave these characters out of the copy files; or let it be, and pay for it", process.Warn(
		"GSM-7 does not have these characters, so 70 fit a segment instead of 160: %s", strings.Join(found, ", ")))
}

func lookAtGoalWords(_ context.Context, cfg Config) (string, error) {
	words, err := cfg.goalWords()
	if err != nil {
		return "", err
	}
	return "a text that begins so says a goal: " + words.String(), nil
}

func lookAtQuietHours(_ context.Context, cfg Config) (string, error) {
	window, err := hours.ParseWindow(cfg.QuietHoursDefault)
	switch {
	case err != nil:
		return "", err
	case window.Always():
		return "", process.Warn("texts are sent at any hour, also at night, unless an organisation has decided otherwise")
	case wide(window):
		return "", process.Warn("texts are sent within %s, also before 08:00 or after 21:00, unless an organisation decided otherwise", window)
	}
	return "texts are sent within " + window.String() + " by each person's clock, unless an organisation has decided otherwise", nil
}

// sqlWithoutZone looks at the newest people only: they are as the others, and a table may have millions.
const sqlWithoutZone = `
select count(*), count(*) filter (where p.time_zone = '' and coalesce(o.time_zone, 'UTC') = 'UTC'),
    count(distinct p.org_id) filter (where p.time_zone = '' and coalesce(o.time_zone, 'UTC') = 'UTC'),
    coalesce(array_agg(distinct p.time_zone), '{}')
from (select org_id, time_zone from profiles order by id desc limit 1000) p left join organisation_settings o on o.org_id = p.org_id`

// lookAtTimeZones finds people with quiet hours by UTC because nothing says where they are.
func lookAtTimeZones(ctx context.Context, pool *postgres.Pool) (string, error) {
	var people, without, organisations int
	var zones []string
	if err := pool.QueryRow(ctx, sqlWithoutZone).Scan(&people, &without, &organisations, &zones); err != nil {
		return "", process.AfterDatabase(err)
	}
	for _, zone := range zones {
		if _, known := hours.Stored(zone); !known {
			return "", fmt.Errorf("%s, of one of the newest %d people, is no time zone any more: give them another (PATCH /v1/profiles/{id})",
				zone, people)
		}
	}
	if without > 0 {
		return "", process.Warn("%d of the newest %d people, of %d organisations, have no time zone, and their organisation has none either: "+
			"their quiet hours go by UTC", without, people, organisations)
	}
	return "the newest people have one, or their organisation has", nil
}

func lookAtActivationFlow(ctx context.Context, cfg Config, pool *postgres.Pool) (string, error) {
	if cfg.ActivationFlow == "" {
		return "none: an activation that names no flow starts the built-in conversation", nil
	}
	n, err := flows.NewStore(pool).Publishers(ctx, cfg.ActivationFlow)
	if err != nil {
		return "", process.AfterDatabase(err)
	}
	if n == 0 {
		return "", process.Warn("no organisation has published a flow %s (ACTIVATION_FLOW): every activation that names no flow is refused",
			cfg.ActivationFlow)
	}
	return fmt.Sprintf("%s is published by %d organisations", cfg.ActivationFlow, n), nil
}

func lookAtDatabase(ctx context.Context, pool *postgres.Pool) (string, error) {
	if err := postgres.Writable(ctx, pool); err != nil {
		return "", process.Mend("do what it says; docs/deploy.md, Failover", err)
	}
	version, err := Migrations().Current(ctx, pool)
	if err != nil {
		return "", err
	}
	if err := Migrations().Ready(ctx, pool); err != nil {
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
	return fmt.Sprintf("schema version %d", version), nil
}

// lookAtRedis runs a script that changes nothing.
func lookAtRedis(ctx context.Context, cfg Config) (found string, err error) {
	store, err := dedup.OpenRedis(cfg.RedisURL.Reveal())
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if err := store.Finish(ctx, dedup.Claim{Key: "not reserved", Owner: name}, false); !errors.Is(err, dedup.ErrLost) {
		return "", err
	}
	return "reservations of deliveries are kept there", nil
}

func lookAtTLS(_ context.Context, cfg Config) (string, error) {
	return process.LookAtTLS(cfg.TLS, cfg.Addr, cfg.MessagingAddr)
}
