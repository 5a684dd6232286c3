package onboarding

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/hours"
	"paceline.internal/platform/postgres"
	"paceline.internal/platform/process"
	"paceline.internal/platform/retention"
	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/session"
)

// promises are the checks of what carriers and the law ask of an operator and no release can know: the defaults are warned of.
func promises(
	about func(func(ctx context.Context, cfg Config) (string, error)) func(context.Context) (string, error), on process.OnDatabase, cfg Config,
) []process.Check {
	return []process.Check{
		{
			Name: "opening", Look: about(lookAtOpening),
			Mend: "write yours in ONBOARDING_COPY_DIR and ENGAGEMENT_COPY_DIR; docs/deploy.md, What carriers ask of the texts",
		},
		{
			Name: "own hours", Look: on(lookAtOwnHours),
			Mend: "PUT /v1/settings of that organisation with a window within 08:00-21:00; docs/deploy.md, Quiet hours",
		},
		{
			Name: "own consent", Look: on(withConfig(cfg, lookAtOwnConsent)),
			Mend: "PUT /v1/settings with require_consent_record, where you have to show the consent; " +
				"docs/runbooks/consent-request.md, Record consent where people sign up",
		},
		{
			Name: "kept", Look: on(withConfig(cfg, lookAtKept)),
			Mend: "set TIMELINE_RETENTION and AUDIT_RETENTION to 9600h or longer, and retention in PUT /v1/settings to 400 days or more; " +
				"docs/security-and-privacy.md, What a claim may ask for",
		},
	}
}

// real reports whether texts reach people: an emulator's QStash is plain http, and where QStash is not used, so is an origin that only
// emulators reach.
func (c *Config) real() bool {
	reached := c.QStashURL
	if c.Alarms == alarmsPostgres {
		reached = c.PublicBaseURL
	}
	return strings.HasPrefix(reached.String(), "https://")
}

// lookAtOpening finds the built-in texts by which a person is first written to.
func lookAtOpening(_ context.Context, cfg Config) (string, error) {
	_, texts, err := cfg.script()
	if err != nil {
		return "", err
	}
	_, welcomes, err := cfg.engagement()
	if err != nil {
		return "", err
	}
	builtIn := slices.Concat(catalog.Default().Texts(catalog.Default().Current()), catalog.DefaultEngagement().Texts())
	var unbranded []string
	for _, text := range slices.Concat(texts.Texts(texts.Current()), welcomes.Texts()) {
		first := text.Key == string(session.TextOpening) || text.Key == catalog.Welcome
		if first && slices.Contains(builtIn, text) {
			unbranded = append(unbranded, text.Key+" in "+text.Locale)
		}
	}
	switch {
	case len(unbranded) == 0:
		return "the opening and the welcome are yours", nil
	case !cfg.real():
		return "built in: they name no brand and no rates, which the real Twilio's carriers ask for", nil
	}
	return "", process.Warn("%s are as built in: they name no brand and no rates, and carriers ask for both", strings.Join(unbranded, ", "))
}

// own returns what an organisation has decided for itself.
type own struct {
	OrgID      string
	QuietHours bool
	QuietUntil string
	QuietFrom  string

	RequireConsentRecord bool
	Retention            map[string]int
}

const sqlOwn = `
select org_id::text, quiet_hours, quiet_until, quiet_from, require_consent_record, retention
from organisation_settings order by org_id desc limit 1000`

// ownSettings returns the settings of the newest organisations that have decided something.
func ownSettings(ctx context.Context, pool *postgres.Pool) ([]own, error) {
	rows, err := pool.Query(ctx, sqlOwn)
	if err != nil {
		return nil, process.AfterDatabase(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByName[own])
	if err != nil {
		return nil, process.AfterDatabase(err)
	}
	return all, nil
}

// some names the first few of them.
func some(organisations []string) string {
	const few = 3
	if len(organisations) <= few {
		return strings.Join(organisations, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(organisations[:few], ", "), len(organisations)-few)
}

// lookAtOwnHours finds organisations that may text earlier or later than the TCPA lets telephone solicitations be: 47 CFR 64.1200(c)(1).
func lookAtOwnHours(ctx context.Context, pool *postgres.Pool) (string, error) {
	all, err := ownSettings(ctx, pool)
	if err != nil {
		return "", err
	}
	var beyond []string
	for _, o := range all {
		window := "off"
		if o.QuietHours {
			window = o.QuietUntil + "-" + o.QuietFrom
		}
		if parsed, err := hours.ParseWindow(window); err != nil || wide(parsed) {
			beyond = append(beyond, o.OrgID+" ("+window+")")
		}
	}
	if len(beyond) > 0 {
		return "", process.Warn("people may be texted before 08:00 or after 21:00 by their clock in organisations: %s", some(beyond))
	}
	return "no organisation has decided to text before 08:00 or after 21:00", nil
}

// wide reports whether a window lets texts go out at night.
func wide(w hours.Window) bool {
	return w.Always() || w.Opens() < hours.DefaultOpen || w.Closes() > hours.DefaultClose || w.Closes() < w.Opens()
}

func lookAtOwnConsent(ctx context.Context, cfg Config, pool *postgres.Pool) (string, error) {
	all, err := ownSettings(ctx, pool)
	if err != nil {
		return "", err
	}
	required := len(slices.DeleteFunc(all, func(o own) bool { return !o.RequireConsentRecord }))
	switch {
	case required > 0:
		return fmt.Sprintf("%d organisations require a record of consent", required), nil
	case !cfg.real():
		return "no organisation requires a record of consent", nil
	}
	return "", process.Warn("no organisation requires a record of consent: people are texted of whom nothing here shows that they agreed")
}

// shownFor sets how long the timeline and the audit are kept by default: what is asked about a year later can then be shown.
const shownFor = 400 * 24 * time.Hour

// lookAtKept finds what is deleted earlier than by default.
func lookAtKept(ctx context.Context, cfg Config, pool *postgres.Pool) (string, error) {
	var short []string
	for variable, kept := range map[string]time.Duration{"TIMELINE_RETENTION": cfg.TimelineRetention, "AUDIT_RETENTION": cfg.AuditRetention} {
		if kept < shownFor {
			short = append(short, fmt.Sprintf("%s is %s", variable, kept))
		}
	}
	slices.Sort(short)
	all, err := ownSettings(ctx, pool)
	if err != nil {
		return "", err
	}
	var organisations []string
	for _, o := range all {
		for _, what := range []string{retention.Timeline, retention.Audit} {
			if days, decided := o.Retention[what]; decided && time.Duration(days)*24*time.Hour < shownFor {
				organisations = append(organisations, fmt.Sprintf("%s (%s_days %d)", o.OrgID, what, days))
			}
		}
	}
	if len(organisations) > 0 {
		short = append(short, "the own times of organisations: "+some(organisations))
	}
	if len(short) > 0 {
		return "", process.Warn("timelines or audit are kept for less than the default of %s, and cannot be shown after it: %s",
			shownFor, strings.Join(short, "; "))
	}
	return "timelines and audit are kept for " + shownFor.String() + " or longer", nil
}
