package route

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/config"
)

// ourProxies are the proxies of the tests.
func ourProxies(t testing.TB) (proxies []config.Network) {
	t.Helper()
	for _, text := range []string{"10.0.0.0/8", "2001:db8:ffff::/48"} {
		network, err := config.ParseNetwork(text)
		require.NoError(t, err)
		proxies = append(proxies, network)
	}
	return proxies
}

func TestClientAddress(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, peer string
		forwarded  []string
		want       string
	}{
		{name: "PeerWithoutAHeader", peer: "192.0.2.7:4000", want: "192.0.2.7"},
		{name: "ProxyWithoutAHeader", peer: "10.0.0.1:4000", want: "10.0.0.1"},
		{name: "ProxyNamesTheClient", peer: "10.0.0.1:4000", forwarded: []string{"192.0.2.7"}, want: "192.0.2.7"},
		{name: "StrangersHeaderIsIgnored", peer: "192.0.2.7:4000", forwarded: []string{"198.51.100.1"}, want: "192.0.2.7"},
		{name: "WhatTheClientWroteItselfIsIgnored", peer: "10.0.0.1:4000", forwarded: []string{"10.9.9.9, 198.51.100.1, 192.0.2.7"}, want: "192.0.2.7"},
		{name: "SeveralProxiesArePassedOver", peer: "10.0.0.1:4000", forwarded: []string{"192.0.2.7, 10.0.0.3, 10.0.0.2"}, want: "192.0.2.7"},
		{name: "SeveralHeadersAreOneList", peer: "10.0.0.1:4000", forwarded: []string{"198.51.100.1", "192.0.2.7,10.0.0.2"}, want: "192.0.2.7"},
		{name: "OnlyProxies", peer: "10.0.0.1:4000", forwarded: []string{"10.0.0.3, 10.0.0.2"}, want: "10.0.0.3"},
		{name: "Port", peer: "10.0.0.1:4000", forwarded: []string{"192.0.2.7:5123"}, want: "192.0.2.7"},
		{name: "Version6", peer: "[2001:db8:ffff::1]:4000", forwarded: []string{"2001:db8::7"}, want: "2001:db8::7"},
		{name: "Version6InBrackets", peer: "10.0.0.1:4000", forwarded: []string{"[2001:db8::7]"}, want: "2001:db8::7"},
		{name: "Version6WithAPort", peer: "10.0.0.1:4000", forwarded: []string{"[2001:db8::7]:5123"}, want: "2001:db8::7"},
		{name: "Version4WithinVersion6", peer: "[::ffff:10.0.0.1]:4000", forwarded: []string{"::ffff:192.0.2.7"}, want: "192.0.2.7"},
		{name: "ZoneIsDropped", peer: "[fe80::1%eth0]:4000", want: "fe80::1"},
		{name: "GarbageEndsTheWalk", peer: "10.0.0.1:4000", forwarded: []string{"192.0.2.7, unknown, 10.0.0.2"}, want: "10.0.0.2"},
		{name: "EmptyHeader", peer: "10.0.0.1:4000", forwarded: []string{""}, want: "10.0.0.1"},
		{name: "EmptyHop", peer: "10.0.0.1:4000", forwarded: []string{"192.0.2.7, "}, want: "10.0.0.1"},
		{name: "PeerWithoutAnAddress", peer: "@", forwarded: []string{"192.0.2.7"}, want: "invalid IP"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := &http.Request{RemoteAddr: tc.peer, Header: http.Header{headerForwardedFor: tc.forwarded}}
			require.Equal(t, tc.want, clientAddress(r, ourProxies(t)).String())
		})
	}
}

func FuzzClientAddress(f *testing.F) {
	f.Add("10.0.0.1:4000", "192.0.2.7, 10.0.0.2")
	f.Add("192.0.2.7:4000", "198.51.100.1")
	f.Add("[2001:db8:ffff::1]:1", "[2001:db8::7]:5123,unknown")
	proxies := ourProxies(f)
	trusted := func(address netip.Addr) bool {
		return proxies[0].Contains(address) || proxies[1].Contains(address)
	}
	f.Fuzz(func(t *testing.T, peer, forwarded string) {
		r := &http.Request{RemoteAddr: peer, Header: http.Header{headerForwardedFor: {forwarded}}}
		got := clientAddress(r, proxies)
		direct := clientAddress(&http.Request{RemoteAddr: peer}, proxies)
		require.Empty(t, got.Zone())
		require.False(t, got.Is4In6())
		if !trusted(direct) {
			require.Equal(t, direct, got, "a stranger's header changes nothing")
		}
		r.Header.Set(headerForwardedFor, strings.Repeat("203.0.113.9, ", 3)+forwarded)
		if longer := clientAddress(r, proxies); got != direct && !trusted(got) {
			require.Equal(t, got, longer, "what stands left of the client is not read")
		}
	})
}
