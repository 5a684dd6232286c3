package process

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"

	"paceline.internal/platform/config"
	"paceline.internal/platform/rpc"
)

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
		log.WarnContext(ctx, "grpc.plain_text", "why", exposed.Error())
	}
}

// LookAtTLS says whether the files can be used, and whether they are missed.
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
