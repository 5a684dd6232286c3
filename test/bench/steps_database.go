package bench

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
)

// countStatements has the private server count statements, if it can, once setTracking has turned that on.
func (s *server) countStatements(ctx context.Context) error {
	if err := queryRow(ctx, s.url, `select exists (select from pg_available_extensions where name = 'pg_stat_statements')`,
		&s.counts); err != nil || !s.counts {
		return err
	}
	if err := s.exec(ctx, "alter system set shared_preload_libraries = 'pg_stat_statements'"); err != nil {
		return err
	}
	if err := s.private.Stop(ctx); err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	return errors.Join(s.exec(ctx, "create extension if not exists pg_stat_statements"), s.setTracking(ctx, "none"))
}

// setTracking turns the counting of statements on ("top") or off ("none").
func (s *server) setTracking(ctx context.Context, level string) error {
	if !s.counts {
		return nil
	}
	return s.exec(ctx, "alter system set pg_stat_statements.track = '"+level+"'", "select pg_reload_conf()")
}

func (s *server) forgetStatements(ctx context.Context) error {
	if !s.counts {
		return nil
	}
	return s.exec(ctx, "select pg_stat_statements_reset()")
}

const sqlStatements = `
select s.calls, s.query from pg_stat_statements s join pg_database d on d.oid = s.dbid
where d.datname = $1 and s.toplevel and s.calls * 10 >= $2 order by s.calls desc, s.query`

// statements are those of the services that at least every tenth of n steps made; none when the server cannot count them.
func (s *server) statements(ctx context.Context, urls map[string]string, n int) (_ []StepStatement, err error) {
	if !s.counts {
		return nil, nil
	}
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	var all []StepStatement
	for _, service := range databasesOf() {
		cfg, err := pgx.ParseConfig(urls[service])
		if err != nil {
			return nil, errors.New("the database URL cannot be parsed") // the cause quotes it
		}
		rows, _ := conn.Query(ctx, sqlStatements, cfg.Database, n) // Collect returns the error that rows carry
		found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (StepStatement, error) {
			var calls int64
			one := StepStatement{Service: service}
			err := row.Scan(&calls, &one.SQL)
			one.PerStep, one.SQL = float64(calls)/float64(n), strings.Join(strings.Fields(one.SQL), " ")
			return one, err
		})
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}
