package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"paceline.internal/platform/config"
)

const urlForm = "want postgres://user:password@host:port/database, with the password percent-encoded (@ as %40, / as %2F, # as %23)"

// ErrURL is a database URL that cannot be parsed. Its text never repeats the URL, which holds a password.
var ErrURL = errors.New("postgres: the database URL cannot be parsed, " + urlForm)

// URL is a database URL in the environment. It is as secret as its password.
type URL struct{ config.Secret }

// UnmarshalText refuses a URL that no connection can be made by. The error repeats nothing of it.
func (u *URL) UnmarshalText(text []byte) error {
	switch _, err := read(string(text)); {
	case errors.Is(err, ErrURL):
		return errors.New(urlForm)
	case err != nil:
		return err
	}
	return u.Secret.UnmarshalText(text)
}

// Parse reads a URL for a single connection, with the same bounds and the same silence as Open.
func Parse(url string) (*pgx.ConnConfig, error) {
	cfg, err := read(url)
	if err != nil {
		return nil, err
	}
	cfg.ConnConfig.ConnectTimeout = connectTimeout
	return cfg.ConnConfig, nil
}

// Connect opens one connection as the login of the URL. It prepares no statement in the server, so the URL may lead through a pooler that
// gives connections away by the transaction.
func Connect(ctx context.Context, url string) (*pgx.Conn, error) {
	cfg, err := Parse(url)
	if err != nil {
		return nil, err
	}
	withoutPrepared(cfg)
	return pgx.ConnectConfig(ctx, cfg)
}

// withoutPrepared has no statement stay prepared in the server, where another client would find it the next moment.
func withoutPrepared(cfg *pgx.ConnConfig) {
	if cfg.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
		cfg.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
}

// read parses a URL. Its errors repeat nothing of it, as those of pgx do.
func read(url string) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if file, is := errors.AsType[*fs.PathError](err); is {
		return nil, fmt.Errorf("a certificate or key that the database URL names cannot be read: %w", file.Err)
	}
	if err != nil || torn(url) || slices.ContainsFunc(hosts(cfg.ConnConfig), notHost) {
		return nil, ErrURL
	}
	return cfg, nil
}

// torn reports whether an @, / or # of a password ends it too early: what follows would be shown as the name of a host or a database.
func torn(url string) bool {
	scheme, rest, _ := strings.Cut(url, "://")
	if scheme != "postgres" && scheme != "postgresql" {
		return false
	}
	if i := strings.IndexAny(rest, "@/"); i >= 0 && rest[i] == '@' && strings.Contains(rest[i+1:], "@") {
		return true
	}
	_, path, _ := strings.Cut(rest, "/")
	path, _, _ = strings.Cut(path, "?")
	return strings.ContainsAny(path, "@/#")
}

// hosts returns the servers that a connection is tried to, each once.
func hosts(cfg *pgx.ConnConfig) []string {
	all := []string{cfg.Host}
	for _, f := range cfg.Fallbacks {
		if !slices.Contains(all, f.Host) {
			all = append(all, f.Host)
		}
	}
	return all
}

// notHost reports whether a text can name neither a server nor the folder of its socket.
func notHost(host string) bool {
	network, _ := pgconn.NetworkAddress(host, 0)
	return network != "unix" && strings.ContainsFunc(host, func(r rune) bool {
		return r < 0x80 && !strings.ContainsRune("-._:%", r) && (r < '0' || r > '9') && (r|0x20 < 'a' || r|0x20 > 'z')
	})
}
