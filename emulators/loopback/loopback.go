// Package loopback keeps web pages away from a server that is meant for programs on this machine. Its credentials are
// public and every browser here can reach its port, so any page could have it call any host.
package loopback

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Guard refuses the requests of web pages with 403: requests from another origin that may change something, and
// requests that name a host of the internet: a page makes our port its own origin in that way (DNS rebinding). An
// address, localhost, and a name without a dot, such as a neighbour in a container network, pass.
func Guard(next http.Handler) http.Handler {
	origins := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !local(r.Host) || origins.Check(r) != nil {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"error":"web pages may not call this; programs call it by its address or as localhost"}`) // or is gone
			return
		}
		next.ServeHTTP(w, r)
	})
}

func local(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil { // without a port
		name = strings.Trim(host, "[]")
	}
	_, notAddress := netip.ParseAddr(name)
	return notAddress == nil || !strings.Contains(name, ".") || strings.HasSuffix(strings.ToLower(name), ".localhost")
}
