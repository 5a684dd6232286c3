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
	Standbys  []string // the names of those that follow now
	Archivers []string // the names of those that only keep the WAL, and never take over
	Names     string   // synchronous_standby_names
	Commit    string   // synchronous_commit of this session
}

// sqlReplication leaves out what follows logically: it never takes over. A login without pg_read_all_stats sees of the others only their
// names, by which it knows PostgreSQL's programs and Barman's; one with it sees that an archiver never says that it replays.
const sqlReplication = `
with followers as (
	select a.application_name as name, a.application_name in ('pg_receivewal', 'pg_basebackup', 'barman_receive_wal')
		or r.state = 'backup' or r.state = 'streaming' and r.replay_lsn is null as archives
	from pg_stat_replication r join pg_stat_activity a using (pid)
	where not exists (select from pg_replication_slots where slot_type = 'logical' and active_pid = r.pid))
select coalesce(array_agg(name order by name) filter (where archives is not true), '{}') as standbys,
	coalesce(array_agg(name order by name) filter (where archives), '{}') as archivers,
	current_setting('synchronous_standby_names') as names, current_setting('synchronous_commit') as commit
from followers`

// problems lists what does not fit where a standby is configured. An empty list of names has no commit wait; nor have off and local.
func (r replication) problems() (problems []string) {
	if len(r.Standbys) > 0 && r.Names == "" {
		problems = append(problems, "a standby follows ("+strings.Join(r.Standbys, ", ")+") and no commit waits for it, so a failover loses the "+
			"last ones: set synchronous_standby_names (Patroni: synchronous_mode, CloudNativePG: synchronous), unless it only keeps the WAL")
	}
	if (len(r.Standbys) > 0 || r.Names != "") && slices.Contains([]string{"off", "local"}, r.Commit) {
		problems = append(problems, "synchronous_commit is "+r.Commit+", so commits wait for no standby: set it on")
	}
	archivers := slices.DeleteFunc(slices.Clone(r.Archivers), func(name string) bool { return !waitsFor(r.Names, name) })
	switch {
	case len(archivers) > 0:
		problems = append(problems, "synchronous_standby_names is "+r.Names+", so "+strings.Join(slices.Compact(archivers), ", ")+
			" confirms commits, which keeps the WAL and never takes over: name the standbys")
	case len(r.Standbys) == 0 && r.Names != "":
		problems = append(problems, "commits wait for the standby "+r.Names+", and none follows")
	}
	return problems
}

// waitsFor reports whether a list such as FIRST 1 (a, "b") or * has a name. Postgres compares without case.
func waitsFor(names, name string) bool {
	separates := func(r rune) bool { return strings.ContainsRune(`,()" `, r) }
	return slices.ContainsFunc(strings.FieldsFunc(names, separates), func(listed string) bool {
		return listed == "*" || strings.EqualFold(listed, name)
	})
}

// anyHost is the problem of a URL with several hosts of which any is taken.
func anyHost(cfg *pgx.ConnConfig) (problem string) {
	if n := len(hosts(cfg)); n > 1 && cfg.ValidateConnect == nil {
		return fmt.Sprintf("the URL names %d hosts, of which the first that answers is used, also a standby: "+
			"add target_session_attrs=read-write", n)
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
	case len(r.Standbys) == 0:
		return "no standby follows this server", nil
	}
	return fmt.Sprintf("%d standbys follow, and commits wait for %s", len(r.Standbys), r.Names), nil
}
