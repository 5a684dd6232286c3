package route

import (
	"context"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"paceline.internal/platform/config"
)

const headerForwardedFor = "X-Forwarded-For"

// clientAddress returns the address that a request comes from: its peer or, where the peer is one of our proxies, the last address in
// X-Forwarded-For that is none of our proxies. The client itself wrote the addresses before that one, so they are not read. The zero Addr
// means a peer without an address, which no request over TCP has.
func clientAddress(r *http.Request, proxies []config.Network) netip.Addr {
	client, ok := hop(r.RemoteAddr)
	if !ok {
		return netip.Addr{}
	}
	hops := strings.Split(strings.Join(r.Header.Values(headerForwardedFor), ","), ",")
	for _, text := range slices.Backward(hops) {
		if !slices.ContainsFunc(proxies, func(n config.Network) bool { return n.Contains(client) }) {
			break
		}
		before, ok := hop(text)
		if !ok { // such as unknown: the proxy that said it is as far as we know
			break
		}
		client = before
	}
	return client
}

// hop reads an address that may have a port. It drops the zone, which only the machine that wrote it understands.
func hop(text string) (netip.Addr, bool) {
	text = strings.TrimSpace(text)
	if withPort, err := netip.ParseAddrPort(text); err == nil {
		return withPort.Addr().WithZone("").Unmap(), true
	}
	if inner, ok := strings.CutPrefix(text, "["); ok {
		text = strings.TrimSuffix(inner, "]")
	}
	address, err := netip.ParseAddr(text)
	return address.WithZone("").Unmap(), err == nil
}

type clientKey struct{}

// ClientFrom returns the address that Observe found for the request of a context, empty outside of a request.
func ClientFrom(ctx context.Context) string {
	client, _ := ctx.Value(clientKey{}).(string)
	return client
}
