package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/session"
)

// ProfileFilter narrows a list of people. Empty fields do not.
type ProfileFilter struct {
	OrgID        string
	Phone        string           // E.164
	Name         string           // how their first name begins, in capitals or not
	Newest       []session.Status // one of these is that of their newest session
	NotActivated bool
	Held         bool
	Before       string // only people older than this id
	Limit        int
}

// Each of these has its index, as 0026 says it.
const (
	sqlProfiles = `
select ` + profileColumns + ` from profiles p
where p.org_id = @org_id and (@before = '' or p.id < nullif(@before, '')::uuid)`

	sqlNewestProfiles = ` order by p.id desc limit @limit`

	sqlWithPhone    = ` and p.phone = @phone`
	sqlNamed        = ` and p.name_key >= key_of_name(@name) and p.name_key < key_of_name(@name) || chr(1114111)` // the last character there is
	sqlHeldOnly     = ` and p.hold`
	sqlNotActivated = ` and not p.activated`

	// sqlProfilesBySession finds the page by the sessions: one for each person, in the order of the people. What else is asked of a person is
	// asked before a status has its page full.
	sqlProfilesBySession = `
select ` + profileColumns + ` from profiles p join (
    select w.profile_id from unnest(@status::text[]) u (status) cross join lateral (
        select s.profile_id from conversation_sessions s`
	sqlOfThePerson  = ` join profiles p on p.id = s.profile_id`
	sqlStandingThus = `
        where s.org_id = @org_id and s.status = u.status and not s.superseded and (@before = '' or s.profile_id < nullif(@before, '')::uuid)`
	sqlNewestSessions = `
        order by s.profile_id desc limit @limit) w
    order by w.profile_id desc limit @limit) page on page.profile_id = p.id
order by p.id desc`
)

// sqlInOrder, sent ahead in the same transaction, has each page read from its end of an index: the planner, which takes nearly all rows for
// hidden by their policies, would rather read all that have the status and sort them.
const sqlInOrder = `select set_config('enable_sort', 'off', true), set_config('enable_bitmapscan', 'off', true)`

// ListProfiles lists people, newest first.
func (s *Store) ListProfiles(ctx context.Context, f ProfileFilter) ([]conversation.Profile, error) {
	var found []conversation.Profile
	var batch pgx.Batch
	batch.Queue(sqlPlannedNow)
	if len(f.Newest) > 0 && f.Name == "" && f.Phone == "" {
		batch.Queue(sqlInOrder)
	}
	batch.Queue(f.sql(), postgres.Args{
		"org_id": f.OrgID, "phone": f.Phone, "name": f.Name, "status": named(f.Newest), "before": f.Before, "limit": f.Limit,
	}).Query(func(rows pgx.Rows) (err error) {
		found, err = pgx.CollectRows(rows, pgx.RowToStructByName[conversation.Profile])
		return err
	})
	if err := s.pool.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, fmt.Errorf("list people: %w", err)
	}
	return found, nil
}

// named are statuses as a statement takes them.
func named(statuses []session.Status) []string {
	all := make([]string, len(statuses))
	for i, status := range statuses {
		all[i] = string(status)
	}
	return all
}

func (f ProfileFilter) sql() string {
	var filters string
	if f.Phone != "" {
		filters += sqlWithPhone
	}
	if f.Name != "" {
		filters += sqlNamed
	}
	if f.Held {
		filters += sqlHeldOnly
	}
	if f.NotActivated {
		filters += sqlNotActivated
	}
	switch {
	case len(f.Newest) == 0:
		return sqlProfiles + filters + sqlNewestProfiles
	case filters == "":
		return sqlProfilesBySession + sqlStandingThus + sqlNewestSessions
	}
	return sqlProfilesBySession + sqlOfThePerson + sqlStandingThus + filters + sqlNewestSessions
}
