package pgtest

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/postgres/embeddedpg"
)

// TestSharedServer is PACELINE_TEST_DATABASE_URL: several test binaries on a server that asks for passwords.
func TestSharedServer(t *testing.T) {
	t.Parallel()
	c, err := embeddedpg.Start(t.Context(), embeddedpg.Config{Throwaway: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Stop(context.WithoutCancel(t.Context()))) })
	adminURL := strings.Replace(c.URL("postgres", "postgres"), "postgres://", "postgres://postgres:s3cret@", 1)
	admin, err := pgx.Connect(t.Context(), adminURL)
	require.NoError(t, err)
	defer func() { require.NoError(t, admin.Close(context.WithoutCancel(t.Context()))) }()
	var hba string
	require.NoError(t, admin.QueryRow(t.Context(), "show hba_file").Scan(&hba))
	_, err = admin.Exec(t.Context(), `alter role postgres password 's3cret';
		copy (values ('local all all scram-sha-256')) to '`+hba+`'; select pg_reload_conf()`)
	require.NoError(t, err)

	m := postgres.Migrations{FS: fstest.MapFS{"0001_people.sql": {Data: []byte("-- +goose Up\ncreate table people (name text);\n")}}}
	var binaries errgroup.Group
	for _, name := range []string{"one", "two", "three"} {
		binaries.Go(func() error {
			s, err := connect(t.Context(), adminURL)
			if err != nil {
				return err
			}
			template, err := s.template(t.Context(), m)
			if err != nil {
				return err
			}
			if err := s.clone(t.Context(), template, name); err != nil {
				return err
			}
			conn, err := pgx.Connect(t.Context(), s.url(name, owner))
			if err != nil {
				return err
			}
			if _, err := conn.Exec(t.Context(), "insert into people values ('Ada')"); err != nil {
				return err
			}
			if err := conn.Close(t.Context()); err != nil {
				return err
			}
			if err := s.drop(t.Context(), name); err != nil {
				return err
			}
			return s.stop(t.Context())
		})
	}
	require.NoError(t, binaries.Wait())
	var left int
	require.NoError(t, admin.QueryRow(t.Context(), "select count(*) from pg_database where datname ~ '^(template_|building_)'").Scan(&left))
	require.Equal(t, 1, left, "one template for all")
}

// TestClientReadsAhead: pgx begins to read when a write takes long, also the first one.
func TestClientReadsAhead(t *testing.T) {
	t.Parallel()
	warm, _ := net.Pipe()
	l := &lease{idle: map[string][]*backend{owner: {{Conn: warm, greeting: ready}}}}
	c, err := l.dialer(owner)(t.Context(), "unix", "nowhere")
	require.NoError(t, err)
	read := make(chan []byte)
	go func() {
		p := make([]byte, 16)
		n, _ := c.Read(p)
		read <- p[:n]
	}()
	_, err = c.Write([]byte{0, 0, 0, 8, 0, 3, 0, 0})
	require.NoError(t, err)
	require.Equal(t, ready, <-read)

	none, err := l.dialer(owner)(t.Context(), "unix", "nowhere")
	require.NoError(t, err)
	go func() {
		_, err := none.Read(make([]byte, 16))
		read <- []byte(err.Error())
	}()
	require.NoError(t, none.Close())
	require.Equal(t, "EOF", string(<-read))
}
