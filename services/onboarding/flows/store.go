package flows

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/flow"
)

// sqlIsCurrent is true for the newest publication of a flow.
const sqlIsCurrent = `p.number = (select max(m.number) from flow_publications m where m.org_id = p.org_id and m.flow = p.flow)`

// sqlVersions selects publications with the columns of Version.
const sqlVersions = `
select p.flow, p.version, p.number, p.published_at, p.published_by::text as published_by, ` + sqlIsCurrent + ` as current
from flow_publications p where p.org_id = @org`

func collect(rows pgx.Rows, err error) ([]Version, error) {
	if err == nil {
		var found []Version
		if found, err = pgx.CollectRows(rows, pgx.RowToStructByName[Version]); err == nil {
			return found, nil
		}
	}
	return nil, fmt.Errorf("flows: %w", err)
}

const sqlDescribe = sqlVersions + ` and p.flow = @flow and (@version = '' or p.version = @version) order by p.number desc limit 1`

// Describe returns a version of a flow by its last publication, or with an empty version the current one; flow.ErrNotFound.
func (s *Store) Describe(ctx context.Context, orgID, name, version string) (Version, error) {
	return describe(ctx, s.pool, orgID, name, version)
}

func describe(ctx context.Context, db postgres.DB, orgID, name, version string) (Version, error) {
	found, err := collect(db.Query(ctx, sqlDescribe, postgres.Args{"org": orgID, "flow": name, "version": version}))
	if err == nil && len(found) == 0 {
		err = flow.ErrNotFound
	}
	if err != nil {
		return Version{}, err
	}
	return found[0], nil
}

// Publishers counts the organisations that have published a flow of a name.
func (s *Store) Publishers(ctx context.Context, name string) (n int, err error) {
	const sql = `select count(distinct org_id) from flow_publications where flow = $1`
	if err := s.pool.QueryRow(ctx, sql, name).Scan(&n); err != nil {
		return 0, fmt.Errorf("flows: %w", err)
	}
	return n, nil
}

const sqlList = sqlVersions + ` and ` + sqlIsCurrent + ` order by p.flow`

// List returns the current version of each flow, by name.
func (s *Store) List(ctx context.Context, orgID string) ([]Version, error) {
	return collect(s.pool.Query(ctx, sqlList, postgres.Args{"org": orgID}))
}

// sqlHistory shows each version once, by its last publication.
const sqlHistory = sqlVersions + ` and p.flow = @flow and (@before = 0 or p.number < @before) and p.number in (
    select max(l.number) from flow_publications l where l.org_id = @org and l.flow = @flow group by l.version)
order by p.number desc limit @limit`

// Versions returns versions of a flow by their last publications, newest first. before is the number of the one before the page, or 0.
func (s *Store) Versions(ctx context.Context, orgID, name string, before, limit int) ([]Version, error) {
	return collect(s.pool.Query(ctx, sqlHistory, postgres.Args{"org": orgID, "flow": name, "before": before, "limit": limit}))
}

const sqlFiles = `select files from flow_versions where org_id = $1 and flow = $2 and version = $3`

// Files returns the files of a version as they were sent; flow.ErrNotFound.
func (s *Store) Files(ctx context.Context, orgID, name, version string) (files map[string]string, err error) {
	err = s.pool.QueryRow(ctx, sqlFiles, orgID, name, version).Scan(&files)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, flow.ErrNotFound
	case err != nil:
		return nil, fmt.Errorf("files of a flow: %w", err)
	}
	return files, nil
}

// owner is a current flow that has a keyword.
type owner struct{ Flow, Version, Keyword string }

const sqlOwners = `
select p.flow, p.version, w.keyword
from flow_publications p join flow_versions v on v.org_id = p.org_id and v.flow = p.flow and v.version = p.version
    cross join unnest(v.keywords) w (keyword)
where p.org_id = @org and p.flow <> @but and ` + sqlIsCurrent + ` and w.keyword = any(@keywords::text[]) order by w.keyword`

// owners lists the current flows, but for one, that have any of the keywords.
func (s *Store) owners(ctx context.Context, db postgres.DB, orgID, but string, words []string) (found []owner, err error) {
	rows, err := db.Query(ctx, sqlOwners, postgres.Args{"org": orgID, "but": but, "keywords": words})
	if err == nil {
		found, err = pgx.CollectRows(rows, pgx.RowToStructByPos[owner])
	}
	if err != nil {
		return nil, fmt.Errorf("keywords of flows: %w", err)
	}
	return found, nil
}

const (
	// sqlLock has one publication of an organisation follow another: keywords are unique over all of its flows.
	sqlLock = `select pg_advisory_xact_lock(hashtextextended('flows ' || @org, 0))`

	sqlKeep = `
insert into flow_versions (org_id, flow, version, files, keywords, published_at)
values (@org, @flow, @version, @files, @keywords, @at) on conflict do nothing`

	// sqlRoom is true where there may be this version.
	sqlRoom = `
select (select count(*) from flow_publications where org_id = @org and flow = @flow) < @most_publications
    and (exists (select from flow_versions where org_id = @org and flow = @flow and version = @version)
    or (select count(*) from flow_versions where org_id = @org and flow = @flow) < @most_versions
    and (exists (select from flow_versions where org_id = @org and flow = @flow)
        or (select count(distinct flow) from flow_publications where org_id = @org) < @most_flows))`

	sqlPublish = `
insert into flow_publications (org_id, flow, number, version, published_at)
select @org, @flow, coalesce((select max(number) from flow_publications where org_id = @org and flow = @flow), 0) + 1, @version, @at`
)

// Publish makes files the current version of their flow. An error is flow.Problems for everything that is wrong with them, or ErrTooMany.
func (s *Store) Publish(ctx context.Context, orgID string, files map[string]string, at time.Time) (Published, error) {
	parsed, err := parse(files)
	if err != nil {
		return Published{}, err
	}
	if err := s.checkStarts(ctx, orgID, parsed); err != nil {
		return Published{}, err
	}
	var done Published
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) (err error) {
		done, err = s.publish(ctx, tx, orgID, parsed, files, at)
		return err
	})
	if err != nil {
		return Published{}, err
	}
	return done, nil
}

func (s *Store) publish(
	ctx context.Context, tx pgx.Tx, orgID string, f flow.Flow, files map[string]string, at time.Time,
) (done Published, err error) {
	args := postgres.Args{
		"org": orgID, "flow": f.Name, "version": f.Version, "files": files, "keywords": keywords(f), "at": at,
		"most_versions": MaxVersions, "most_publications": MaxPublications, "most_flows": MaxFlows,
	}
	if _, err := tx.Exec(ctx, sqlLock, args); err != nil {
		return done, fmt.Errorf("publish a flow: %w", err)
	}
	if err := s.checkKeywords(ctx, tx, orgID, f); err != nil {
		return done, err
	}
	before, err := describe(ctx, tx, orgID, f.Name, "")
	if err == nil && before.Version == f.Version {
		return Published{Version: before, Unchanged: true}, nil
	}
	if err != nil && !errors.Is(err, flow.ErrNotFound) {
		return done, err
	}
	var room bool
	if err := tx.QueryRow(ctx, sqlRoom, args).Scan(&room); err != nil {
		return done, fmt.Errorf("publish a flow: %w", err)
	}
	if !room {
		return done, ErrTooMany
	}
	kept, err := tx.Exec(ctx, sqlKeep, args)
	if err == nil {
		_, err = tx.Exec(ctx, sqlPublish, args)
	}
	if err != nil {
		return done, fmt.Errorf("publish a flow: %w", err)
	}
	done.Created = kept.RowsAffected() > 0
	done.Version, err = describe(ctx, tx, orgID, f.Name, "")
	return done, err
}
