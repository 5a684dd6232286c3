package wire

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
)

// OpenPostgres is a wire to the server of a database, and the URL that leads over it.
func OpenPostgres(ctx context.Context, database string) (*Wire, string, error) {
	u, err := url.Parse(database)
	if err != nil {
		return nil, "", errors.New("open a wire: the URL of the database cannot be read")
	}
	query := u.Query()
	network, to := "tcp", u.Host
	if folder := query.Get("host"); strings.HasPrefix(folder, "/") {
		network, to = "unix", folder+"/.s.PGSQL."+query.Get("port")
	}
	w, err := Open(ctx, network, to)
	if err != nil {
		return nil, "", err
	}
	host, port, err := net.SplitHostPort(w.Addr)
	query.Set("host", host)
	query.Set("port", port)
	query.Set("sslmode", "disable")
	u.RawQuery = query.Encode()
	return w, u.String(), err
}

// AsksPostgresNothing reports whether a caller may send this to Postgres before a query: the greeting, of which the first message has no
// type, and pgx's check that a connection that was idle for a second is alive. Whether either occurs depends on the machine's clock.
func AsksPostgresNothing(said []byte) bool {
	return said[0] == 0 || bytes.HasPrefix(said, []byte("Q")) && bytes.Contains(said, []byte("-- ping"))
}
