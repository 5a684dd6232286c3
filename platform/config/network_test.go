package config_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/config"
)

func TestParseNetwork(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, text, want string }{
		{name: "Network", text: "10.0.0.0/8", want: "10.0.0.0/8"},
		{name: "Address", text: "192.0.2.1", want: "192.0.2.1/32"},
		{name: "AddressOfVersion6", text: "2001:db8::1", want: "2001:db8::1/128"},
		{name: "NetworkOfVersion6", text: "2001:db8::/32", want: "2001:db8::/32"},
		{name: "AddressOfVersion4WithinVersion6", text: "::ffff:192.0.2.1", want: "192.0.2.1/32"},
		{name: "SpaceAround", text: " 192.0.2.1 ", want: "192.0.2.1/32"},
		{name: "Everything", text: "0.0.0.0/0", want: "0.0.0.0/0"},
		{name: "BitsBehindTheMask", text: "10.0.0.1/8"},
		{name: "NetworkOfVersion4WithinVersion6", text: "::ffff:10.0.0.0/104"},
		{name: "Zone", text: "fe80::1%eth0"},
		{name: "Port", text: "192.0.2.1:80"},
		{name: "Name", text: "proxy.internal"},
		{name: "Nothing", text: ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			network, err := config.ParseNetwork(tc.text)
			require.Equal(t, tc.want == "", err != nil)
			require.Equal(t, tc.want, network.String())
		})
	}

	t.Run("ContainsAnAddressInEitherForm", func(t *testing.T) {
		t.Parallel()
		network, err := config.ParseNetwork("10.0.0.0/8")
		require.NoError(t, err)
		require.True(t, network.Contains(netip.MustParseAddr("10.1.2.3")))
		require.True(t, network.Contains(netip.MustParseAddr("::ffff:10.1.2.3")))
		require.False(t, network.Contains(netip.MustParseAddr("11.0.0.1")))
		require.False(t, config.Network{}.Contains(netip.MustParseAddr("10.1.2.3")))
	})

	t.Run("AListIsReadFromTheEnvironment", func(t *testing.T) {
		t.Parallel()
		type environment struct {
			Proxies []config.Network `env:"PROXIES" help:"whose word is taken"`
		}
		var cfg environment
		require.NoError(t, config.Load(map[string]string{"PROXIES": "10.0.0.0/8, 192.0.2.1"}, &cfg))
		require.Len(t, cfg.Proxies, 2)
		require.ErrorContains(t, config.Load(map[string]string{"PROXIES": "10.0.0.0/8,hunter2"}, &cfg), "PROXIES must be networks or addresses")
	})
}
