package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"paceline.internal/platform/config"
	"paceline.internal/platform/postgres"
	"paceline.internal/platform/rpc"
)

const (
	// tolerableSkew is a tolerable error of the pauses between texts.
	tolerableSkew = 500 * time.Millisecond
	// badSkew is beyond what a signature of QStash forgives.
	badSkew = 5 * time.Second
)

// AfterDatabase is the error of a Look that could not be made without the database, which a Look before it names.
func AfterDatabase(cause error) error {
	return Mend("mend what is wrong with the database, above", fmt.Errorf("not looked at: %w", cause))
}

// Settings is a Check of the variables that are not as by default; it never fails. Of secrets it says nothing, and nothing of what each
// deployment has to set.
func Settings[T any](cfg *T) Check {
	return Check{Name: "settings", Look: func(context.Context) (string, error) {
		changed := config.Changed(cfg)
		if len(changed) == 0 {
			return "all as by default", nil
		}
		return "not the default: " + strings.Join(changed, ", "), nil
	}}
}

// LookAtClock is a Look at the database's clock and that of this host: a warning when they differ by half a second, and wrong when
// by five.
func LookAtClock(ctx context.Context, db postgres.DB) (string, error) {
	best, skew := time.Duration(-1), time.Duration(0)
	for range 3 { // the quickest answer says most
		asked := time.Now() //nolint:forbidigo // it is the host's clock that is looked at
		var theirs time.Time
		if err := db.QueryRow(ctx, `select clock_timestamp()`).Scan(&theirs); err != nil {
			return "", AfterDatabase(fmt.Errorf("ask the database for the time: %w", err))
		}
		if took := time.Since(asked); best < 0 || took < best { //nolint:forbidigo // the same
			best, skew = took, theirs.Sub(asked.Add(took/2))
		}
	}
	return judgeSkew(skew)
}

// LookAtConnections is a Look at whether the processes of a service find connections enough: a warning when they do not. Each of them
// listens on so many connections besides its pool.
func LookAtConnections(ctx context.Context, pool *postgres.Pool, replicas, listens int) (string, error) {
	said, err := pool.Room(ctx, replicas, listens)
	switch {
	case errors.Is(err, postgres.ErrRoom):
		err = &Warning{Cause: err}
	case err != nil:
		err = AfterDatabase(err)
	}
	return said, err
}

// LookAtFailover is a Look at what a failover of the database would lose: a warning when it is something, or when connections would not
// find the new primary.
func LookAtFailover(ctx context.Context, pool *postgres.Pool) (string, error) {
	said, err := pool.SafeFailover(ctx)
	switch {
	case errors.Is(err, postgres.ErrFailover):
		err = &Warning{Cause: err}
	case err != nil:
		err = AfterDatabase(err)
	}
	return said, err
}

func judgeSkew(skew time.Duration) (string, error) {
	said := fmt.Sprintf("the database's clock is %s off ours", skew.Round(time.Millisecond))
	switch {
	case skew.Abs() >= badSkew:
		return "", errors.New(said)
	case skew.Abs() >= tolerableSkew:
		return "", Warn("%s", said)
	}
	return said, nil
}

// PlainText is a Warning when gRPC leaves this machine without TLS: served here for others, or called elsewhere. A zero address
// is none.
func PlainText(files rpc.TLSFiles, served config.Addr, called ...config.Addr) error {
	var beyond []string
	if host := hostOf(served); !served.IsZero() && !loopback(host) {
		beyond = append(beyond, "served on "+served.String())
	}
	for _, addr := range called {
		if host := hostOf(addr); host != "" && !loopback(host) { // a dialler without a host calls this machine
			beyond = append(beyond, "called at "+addr.String())
		}
	}
	if files.Cert != "" || len(beyond) == 0 {
		return nil
	}
	return Warn("gRPC is plain text beyond this machine (%s): who is on the way reads phone numbers and texts, and may use the tokens",
		strings.Join(slices.Compact(beyond), ", "))
}

// LogPlainText puts that Warning into the log of a process that starts.
func LogPlainText(ctx context.Context, log *slog.Logger, files rpc.TLSFiles, served config.Addr, called ...config.Addr) {
	if exposed := PlainText(files, served, called...); exposed != nil {
		log.WarnContext(ctx, "process.plain_text", "why", exposed.Error())
	}
}

// LookAtTLS checks that the files can be used, and warns when they are missed.
func LookAtTLS(files rpc.TLSFiles, served config.Addr, called ...config.Addr) (string, error) {
	loaded, err := rpc.LoadTLS(files)
	if err != nil {
		return "", err
	}
	if loaded.Server != nil {
		return "mTLS between the processes", nil
	}
	if exposed := PlainText(files, served, called...); exposed != nil {
		return "", Mend("give each process all three GRPC_TLS_* files, or addresses on 127.0.0.1 when they share a machine; with a "+
			"mesh that encrypts it may be meant", exposed)
	}
	return "off: plain text between the processes, on this machine", nil
}

func hostOf(addr config.Addr) string {
	host, _, err := net.SplitHostPort(addr.String())
	if err != nil { // the zero address; others were checked when they were read
		return ""
	}
	return host
}

func loopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// LookAtKeys warns while a process still has the secret that all processes share.
func LookAtKeys(keys rpc.Keys) (string, error) {
	if keys.Shared.IsZero() {
		return "each process has a key of its own", nil
	}
	return "", Mend("give every process its keys, then leave SERVICE_AUTH_SECRET out; docs/runbooks/key-rotation.md has the order",
		Warn("SERVICE_AUTH_SECRET is set: its holder can speak as any process"))
}
