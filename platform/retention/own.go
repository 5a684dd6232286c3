package retention

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
)

// Names, in the settings of an organisation, of what it may keep for a time that it chooses.
const (
	Timeline   = "timeline"
	Alarms     = "alarms"
	Engagement = "engagement"
	Audit      = "audit"
	Messages   = "messages"
	Consent    = "consent"
	Receipts   = "receipts"
	Outbound   = "outbound"
	Goals      = "goals"
	Events     = "events"
	Jobs       = "jobs"
)

// MostDays bounds what an organisation may decide: ten years outlast every claim.
const MostDays = 3660

// LeastDays returns the fewest days for which an organisation may keep a kind: as few as the environment may say, except that a text which
// is delivered a second time is known by its job.
func LeastDays(kind string) int {
	switch kind {
	case Consent:
		return 365
	case Outbound, Goals, Events:
		return 1
	default:
		return 30
	}
}

// Fits reports whether an organisation may keep a kind for so many days.
func Fits(kind string, days int) bool { return days >= LeastDays(kind) && days <= MostDays }

// Own is the decisions of organisations: how long, by organisation and kind.
type Own map[string]map[string]time.Duration

// sqlOwn reads the decisions in both services. A value that is no number of days, which a later release may have written, is read as 0
// days, which fit nothing.
const sqlOwn = `
select o.org_id::text, k.key, case when k.value ~ '^[0-9]{1,5}$' then k.value::integer else 0 end
from organisation_settings o cross join jsonb_each_text(o.retention) k where o.retention <> '{}'`

// ReadOwn reads the decisions of organisations. What does not fit is logged, a line for a pass, and the deployment's time holds.
func ReadOwn(ctx context.Context, db postgres.DB, log *slog.Logger) (Own, error) {
	rows, err := db.Query(postgres.AcrossOrganisations(ctx), sqlOwn)
	if err != nil {
		return nil, fmt.Errorf("read the retention of organisations: %w", err)
	}
	own, unread := Own{}, []string{}
	var org, kind string
	var days int
	if _, err = pgx.ForEachRow(rows, []any{&org, &kind, &days}, func() error {
		if !Fits(kind, days) {
			unread = append(unread, org+" "+kind)
			return nil
		}
		own.decide(org, kind, time.Duration(days)*24*time.Hour)
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read the retention of organisations: %w", err)
	}
	if len(unread) > 0 {
		log.WarnContext(ctx, "retention.settings_unread", "settings", len(unread), "first", unread[0])
	}
	return own, nil
}

func (o Own) decide(org, kind string, kept time.Duration) {
	if o[org] == nil {
		o[org] = map[string]time.Duration{}
	}
	o[org][kind] = kept
}

// Keep has each organisation keep a kind for at least as long as another one; the times are those of the deployment.
func (o Own) Keep(kind string, kept time.Duration, atLeastAs string, other time.Duration) {
	for org, decided := range o {
		least, has := decided[atLeastAs]
		if !has {
			least = other
		}
		if now, has := decided[kind]; has && now < least || !has && kept < least {
			o.decide(org, kind, least)
		}
	}
}

// Part is one part of a pass: an organisation that has decided about a kind, or all others.
type Part struct {
	Org    string // empty for all but these
	But    []string
	Before time.Time
}

// Parts returns those of a pass over a kind: first what is kept for as long as the deployment says.
func (o Own) Parts(kind string, kept time.Duration, now time.Time) []Part {
	rest, parts := Part{But: []string{}, Before: now.Add(-kept)}, []Part{}
	for _, org := range slices.Sorted(maps.Keys(o)) {
		if own, has := o[org][kind]; has {
			rest.But = append(rest.But, org)
			parts = append(parts, Part{Org: org, Before: now.Add(-own)})
		}
	}
	return append([]Part{rest}, parts...)
}

// PartsOf is Parts for a walk over tables by age. Where any organisation has its own time, each one with rows in them is a part: what the
// one with the longest time keeps is at the head of every walk over all. The tables have an index that begins with org_id.
func (o Own) PartsOf(
	ctx context.Context, db postgres.DB, kind string, kept time.Duration, now time.Time, tables ...string,
) ([]Part, error) {
	parts := o.Parts(kind, kept, now)
	rest := parts[0]
	if len(rest.But) == 0 {
		return parts, nil
	}
	parts, has := parts[1:], map[string]bool{}
	for _, org := range rest.But {
		has[org] = true
	}
	for _, table := range tables {
		orgs, err := organisations(ctx, db, strings.NewReplacer("{from}", table, "{of}", "true").Replace(sqlOrganisations))
		if err != nil {
			return nil, fmt.Errorf("organisations with %s: %w", table, err)
		}
		for _, org := range orgs {
			if !has[org] {
				has[org] = true
				parts = append(parts, Part{Org: org, Before: rest.Before})
			}
		}
	}
	return parts, nil
}

func organisations(ctx context.Context, db postgres.DB, sql string) ([]string, error) {
	rows, err := db.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// SQL puts the condition on the column org_id of row into a statement, in place of {part}.
func (p Part) SQL(text, row string) string {
	condition := row + ".org_id <> all (@but::uuid[])"
	if p.Org != "" {
		condition = row + ".org_id = @org::uuid"
	}
	return strings.ReplaceAll(text, "{part}", condition)
}

// Args adds what SQL and the condition on the age need.
func (p Part) Args(args postgres.Args) postgres.Args {
	args["before"] = p.Before
	if p.Org != "" {
		args["org"] = p.Org
	} else {
		args["but"] = p.But
	}
	return args
}
