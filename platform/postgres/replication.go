package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// ErrFailover is a database of which a failover loses commits that were acknowledged, or after which connections lead to a standby.
var ErrFailover = errors.New("postgres: a failover is not safe")

// replication holds the settings by which the server confirms a commit.
type replication struct {
	Standbys int    // that follow now; a login sees no more than their number
	Names    string // synchronous_standby_names
	Commit   string // synchronous_commit of this session
}

// sqlReplication leaves out what follows logically: it never takes over.
const sqlReplication = `
select greatest((select count(*) from pg_stat_replication)
		- (select count(*) from pg_replication_slots where slot_type = 'logical' and active), 0) as standbys,
	current_setting('synchronous_standby_names') as names, current_setting('synchronous_commit') as commit`

// problems lists what does not fit where a standby is configured. An empty list of names has no commit wait; nor have off and local.
func (r replication) problems() (problems []string) {
	if r.Standbys > 0 && r.Names == "" {
		problems = append(problems, "a standby follows and no commit waits for it, so a failover loses the last ones: "+
			"set synchronous_standby_names (Patroni: synchronous_mode, CloudNativePG: synchronous)")
	}
	if (r.Standbys > 0 || r.Names != "") && slices.Contains([]string{"off", "local"}, r.Commit) {
		problems = append(problems, "synchronous_commit is "+r.Commit+", so commits wait for no standby: set it on")
	}
	if r.Standbys == 0 && r.Names != "" {
		problems = append(problems, "commits wait for the standby "+r.Names+", and none follows")
	}
	return problems
}

// anyHost is the problem of a URL with several hosts of which any is taken.
func anyHost(cfg *pgx.ConnConfig) (problem string) {
	hosts := []string{cfg.Host}
	for _, f := range cfg.Fallbacks {
		if !slices.Contains(hosts, f.Host) {
			hosts = append(hosts, f.Host)
		}
	}
	if len(hosts) > 1 && cfg.ValidateConnect == nil {
		return fmt.Sprintf("the URL names %d hosts, of which the first that answers is used, also a standby: "+
			"add target_session_attrs=read-write", len(hosts))
	}
	return ""
}

// SafeFailover returns what a failover of this server would keep, or ErrFailover with what to change.
func (p *Pool) SafeFailover(ctx context.Context) (said string, err error) {
	rows, _ := p.Query(AcrossOrganisations(ctx), sqlReplication) // Collect returns the error that rows carry
	r, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[replication])
	if err != nil {
		return "", fmt.Errorf("postgres: look at the replication: %w", err)
	}
	problems := r.problems()
	for _, cfg := range []*pgx.ConnConfig{p.login.Config().ConnConfig, p.listen} {
		if problem := anyHost(cfg); problem != "" && !slices.Contains(problems, problem) {
			problems = append(problems, problem)
		}
	}
	switch {
	case len(problems) > 0:
		return "", fmt.Errorf("%w: %s", ErrFailover, strings.Join(problems, "; "))
	case r.Standbys == 0:
		return "no standby follows this server", nil
	}
	return fmt.Sprintf("%d standbys follow, and commits wait for %s", r.Standbys, r.Names), nil
}
