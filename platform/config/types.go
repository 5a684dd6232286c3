package config

import (
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// masked is all that a Secret ever shows of itself.
const masked = "***"

// malformed is the wording of a parse error that is known not to quote the value.
type malformed string

func (m malformed) Error() string { return string(m) }

// Secret is a value that every way of printing shows as ***; only Reveal returns it. The zero Secret is absent and
// prints as nothing, so that a dump tells what is set.
type Secret struct {
	// A pointer, because fmt does not call String on an unexported field of another struct: it would print a
	// string, but of a pointer it prints the address.
	value *string
}

// NewSecret wraps a value that did not come from the environment; an empty one gives the zero Secret.
func NewSecret(value string) Secret {
	if value == "" {
		return Secret{}
	}
	return Secret{value: &value}
}

// Reveal is the value itself, "" when absent.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// Keys are the secrets that commas part, for a variable that may have several while its key is being changed: a signer uses the
// first, and a verifier accepts all. None of an absent one. An empty one among them is an error: any caller could sign with it.
func (s Secret) Keys() ([]string, error) {
	if s.IsZero() {
		return nil, nil
	}
	var keys []string
	for key := range strings.SplitSeq(s.Reveal(), ",") {
		if key = strings.TrimSpace(key); key == "" {
			return nil, malformed("has an empty secret among those that its commas part")
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// First is the one of Keys that signs; empty when there is none.
func (s Secret) First() string {
	keys, err := s.Keys()
	if err != nil || len(keys) == 0 {
		return ""
	}
	return keys[0]
}

// IsZero reports whether the secret is absent.
func (s Secret) IsZero() bool { return s.value == nil }

// String is *** or, when absent, nothing.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return masked
}

// GoString keeps %#v from showing the value.
func (s Secret) GoString() string { return "config.Secret(" + s.String() + ")" }

// LogValue keeps slog from showing the value.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText keeps JSON and other encoders from showing the value.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText takes any text.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = NewSecret(string(text))
	return nil
}

// Origin is a bare http or https origin such as https://paceline.example, without a path, a query, credentials or a
// trailing slash. The rest is kept as it was written, because signatures are computed over the URL as configured.
// The zero Origin is absent.
type Origin struct{ origin string }

// ParseOrigin validates an origin; one trailing slash is dropped.
func ParseOrigin(text string) (Origin, error) {
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || !validPort(u.Port(), true) {
		return Origin{}, malformed("must be an http or https origin such as https://paceline.example")
	}
	if u.User != nil || strings.Trim(u.Path, "/") != "" || strings.ContainsAny(text, "?#") || strings.HasSuffix(text, "//") {
		return Origin{}, malformed("must be a bare origin, without credentials, a path, a query or a fragment")
	}
	return Origin{origin: strings.TrimSuffix(text, "/")}, nil
}

// String is the origin without a trailing slash, so that Origin + "/path" is a URL.
func (o Origin) String() string { return o.origin }

// IsZero reports whether the origin is absent.
func (o Origin) IsZero() bool { return o.origin == "" }

// Public reports whether the origin's host may be reached from the internet: neither an address of this machine or of a private network,
// nor a name without a dot, as containers call each other, nor one that ends in .local, .internal, .test or .localhost.
func (o Origin) Public() bool {
	u, err := url.Parse(o.origin)
	if err != nil || o.IsZero() {
		return false
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if ip := net.ParseIP(host); ip != nil {
		return !ip.IsLoopback() && !ip.IsPrivate() && !ip.IsLinkLocalUnicast() && !ip.IsUnspecified()
	}
	_, last, dotted := strings.Cut(host, ".")
	last = last[strings.LastIndexByte(last, '.')+1:]
	return dotted && !slices.Contains([]string{"local", "internal", "test", "localhost"}, last)
}

// MarshalText gives the origin as text.
func (o Origin) MarshalText() ([]byte, error) { return []byte(o.origin), nil }

// UnmarshalText is ParseOrigin.
func (o *Origin) UnmarshalText(text []byte) (err error) {
	*o, err = ParseOrigin(string(text))
	return err
}

// Addr is a host:port to listen on or to dial; an empty host is every interface to a listener and this machine to a
// dialler, and port 0 lets the kernel choose. The zero Addr is absent.
type Addr struct{ addr string }

// ParseAddr validates a host:port.
func ParseAddr(text string) (Addr, error) {
	_, port, err := net.SplitHostPort(text)
	if err != nil || !validPort(port, false) {
		return Addr{}, malformed("must be host:port such as 127.0.0.1:9001 or :9001")
	}
	return Addr{addr: text}, nil
}

// String is the host:port.
func (a Addr) String() string { return a.addr }

// IsZero reports whether the address is absent.
func (a Addr) IsZero() bool { return a.addr == "" }

// MarshalText gives the host:port as text.
func (a Addr) MarshalText() ([]byte, error) { return []byte(a.addr), nil }

// UnmarshalText is ParseAddr.
func (a *Addr) UnmarshalText(text []byte) (err error) {
	*a, err = ParseAddr(string(text))
	return err
}

func validPort(port string, optional bool) bool {
	if port == "" {
		return optional
	}
	_, err := strconv.ParseUint(port, 10, 16)
	return err == nil
}
