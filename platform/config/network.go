package config

import (
	"net/netip"
	"strings"
)

// Network is a network of addresses such as 10.0.0.0/8, or a single address. The zero Network is absent and contains nothing.
type Network struct{ prefix netip.Prefix }

// ParseNetwork reads a network or an address. A network that has bits behind its mask is refused: one of both was meant differently.
func ParseNetwork(text string) (Network, error) {
	text = strings.TrimSpace(text)
	prefix, err := netip.ParsePrefix(text)
	if address, notOne := netip.ParseAddr(text); notOne == nil && address.Zone() == "" {
		address = address.Unmap()
		prefix, err = netip.PrefixFrom(address, address.BitLen()), nil
	}
	if err != nil || prefix != prefix.Masked() || prefix.Addr().Is4In6() {
		return Network{}, malformed("must be networks or addresses, parted by commas, such as 10.0.0.0/8,192.0.2.1,2001:db8::/32")
	}
	return Network{prefix: prefix}, nil
}

// Contains reports whether an address is in the network.
func (n Network) Contains(address netip.Addr) bool { return n.prefix.Contains(address.Unmap()) }

// String is the network with its mask.
func (n Network) String() string {
	if !n.prefix.IsValid() {
		return ""
	}
	return n.prefix.String()
}

// MarshalText gives the network as text.
func (n Network) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText is ParseNetwork.
func (n *Network) UnmarshalText(text []byte) (err error) {
	*n, err = ParseNetwork(string(text))
	return err
}
