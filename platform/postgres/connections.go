package postgres

import (
	"context"
	"errors"
	"fmt"

	"paceline.internal/platform/config"
)

// Connections are the part of a service's environment that says how many connections its processes have.
type Connections struct {
	Most     int `env:"DATABASE_CONNECTIONS" envDefault:"0" help:"most connections of a pool; 0 is 4 plus two for each processor, at most 16"`
	Replicas int `env:"DATABASE_REPLICAS" envDefault:"2" help:"most processes of each service; the doctor checks that connections suffice"`
}

// A default pool has two connections for each processor, which run statements and reads their rows, and some for those who hold
// one while they wait: the lanes of the combiners, for their commits. More gain nothing: with 4, 8, 16 and 32 the steps, or the
// replies, of one run differed by less than its rounds did, because the lanes gather what comes. Without a limit of its container a process
// counts all processors of its host, which is why there is a bound.
const (
	laneConns, processorConns = 4, 2
	maxDefaultConns           = 16
	// maxConns is beyond what any server is given.
	maxConns = 1000
)

// defaultConns is the pool of a process that has so many processors.
func defaultConns(processors int) int32 {
	return int32(min(laneConns+processorConns*processors, maxDefaultConns)) //nolint:gosec // it is bounded
}

// Validate refuses what is no number of connections.
func (c *Connections) Validate() error {
	var problems []error
	if c.Most < 0 || c.Most == 1 || c.Most > maxConns {
		problems = append(problems, &config.Problem{Variable: "DATABASE_CONNECTIONS", Reason: "must be 2 to 1000, or 0"})
	}
	if c.Replicas < 1 || c.Replicas > maxConns {
		problems = append(problems, &config.Problem{Variable: "DATABASE_REPLICAS", Reason: "must be 1 to 1000"})
	}
	return errors.Join(problems...)
}

// listeners counts the connections that one process of each service listen on between them: a process of onboarding has them all.
const listeners = 5

// sqlRoom counts the connections that the server has for the login besides those to other databases. A database that gives rights to the
// worker of another service of Paceline is to have $2 even while it is not in use. A limit of -1 is none.
const sqlRoom = `
with others as (
    select (select count(*) from pg_stat_activity where datid = d.oid) as now, exists (
        select from pg_shdepend s join pg_roles r on s.refclassid = 'pg_authid'::regclass and s.refobjid = r.oid
        where s.dbid = d.oid and r.rolname like '%\_worker' and r.rolname <> $1 and not r.rolcanlogin) as service
    from pg_database d where d.datname <> current_database())
select greatest(min(most), 0)::int as room, (select count(*) from others where service)::int as services
from (select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
        - coalesce(current_setting('reserved_connections', true)::int, 0)
        - coalesce((select sum(case when service then greatest(now, $2::int) else now end) from others), 0)
    union all select nullif(rolconnlimit, -1) from pg_roles where rolname = current_user
    union all select nullif(datconnlimit, -1) from pg_database where datname = current_database()) limits (most)`

// ErrRoom is a server that has not enough connections.
var ErrRoom = errors.New("postgres: the server has too few connections")

// Room is ErrRoom when so many processes like this one, each with its pool, the connection of its watch and so many that listen, may ask
// for more connections than the server has. Where the server has the other service's database, its processes are taken to be as many, with
// pools of the same size. Behind a pooler those of the pool are not the server's.
func (p *Pool) Room(ctx context.Context, replicas, listens int) (said string, err error) {
	each := 1
	if !p.pooler {
		for _, stat := range p.Stats() {
			each += int(stat.MaxConns())
		}
	}
	theirs := replicas * (each + max(listeners-listens, 0))
	each += listens
	var room, services int
	if err := p.QueryRow(AcrossOrganisations(ctx), sqlRoom, RolesOf(p.service).Worker, theirs).Scan(&room, &services); err != nil {
		return "", fmt.Errorf("postgres: look for room: %w", err)
	}
	said = fmt.Sprintf("%d processes have up to %d connections each, and the server has %d for them", replicas, each, room)
	if services > 0 {
		said += fmt.Sprintf(" besides the %d of another service's processes", services*theirs)
	}
	if replicas*each > room {
		return "", fmt.Errorf("%w: %s", ErrRoom, said)
	}
	return said, nil
}
