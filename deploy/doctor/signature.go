// Package doctor finds out what is wrong with a deployment, and says what mends it.
package doctor

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"paceline.internal/emulators/twilio"
	"paceline.internal/platform/qstash"
)

// Request is a callback that was refused, as it reached us.
type Request struct {
	URL    string // absolute, or only the path with its query
	Header http.Header
	Body   []byte
	At     time.Time // when it reached us; zero leaves out the clock
}

// Component is a part of a signed request.
type Component string

// The components.
const (
	Scheme    Component = "scheme"
	Host      Component = "host"
	Port      Component = "port"
	Path      Component = "path"
	Query     Component = "query"
	Body      Component = "body"
	Key       Component = "key"
	Clock     Component = "clock"
	Signature Component = "signature" // it is not there, or is none
)

// Difference is a component in which what was signed is not what is checked.
type Difference struct {
	Component Component `json:"component"`
	Signed    string    `json:"signed,omitempty"`
	Checked   string    `json:"checked,omitempty"`
	Mend      string    `json:"mend"`
}

// ErrNoVendor is a request that brings no signature of a vendor's.
var ErrNoVendor = errors.New(
	"the request has neither Upstash-Signature nor X-Twilio-Signature: give its headers as they came, each as --header 'Name: value'")

// Diagnose names every component that differs; none means that the signature is good. vendor is QStash or Twilio.
func Diagnose(r Request, k Keys) (vendor string, differences []Difference, err error) {
	received, err := url.Parse(r.URL)
	if err != nil || !strings.HasPrefix(received.Path, "/") {
		return "", nil, errors.New("the URL must be absolute, or a path with its query")
	}
	checked, err := url.Parse(k.PublicBaseURL + received.RequestURI())
	if err != nil || checked.Host == "" {
		return "", nil, errors.New("PUBLIC_BASE_URL is no origin")
	}
	switch {
	case r.Header.Get(qstash.HeaderSignature) != "":
		return "QStash", ofQStash(r, k, checked), nil
	case r.Header.Get(headerTwilio) != "":
		found, err := ofTwilio(r, k, received, checked)
		return "Twilio", found, err
	}
	return "", nil, ErrNoVendor
}

// ofQStash reads what was signed from the token itself.
func ofQStash(r Request, k Keys, checked *url.URL) (all []Difference) {
	var claims struct {
		jwt.RegisteredClaims

		Body string `json:"body"`
	}
	text := r.Header.Get(qstash.HeaderSignature)
	parser := jwt.NewParser(jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithoutClaimsValidation())
	if _, _, err := parser.ParseUnverified(text, &claims); err != nil {
		return []Difference{{
			Component: Signature, Mend: "Upstash-Signature is no token: something between QStash and us has cut or changed the header",
		}}
	}
	var keys jwt.VerificationKeySet
	for _, key := range []string{k.QStashCurrent, k.QStashNext} {
		if key != "" { // every caller can sign with an empty one
			keys.Keys = append(keys.Keys, []byte(key))
		}
	}
	if _, err := parser.Parse(text, func(*jwt.Token) (any, error) { return keys, nil }); err != nil {
		all = append(all, Difference{Component: Key, Mend: "neither QSTASH_CURRENT_SIGNING_KEY nor QSTASH_NEXT_SIGNING_KEY made it: " +
			"take both from the Upstash console, of the account and region that publishes (QSTASH_TOKEN); docs/runbooks/key-rotation.md"})
	}
	if signed, err := url.Parse(claims.Subject); err == nil {
		all = append(all, between(signed, checked)...)
	} else {
		all = append(all, Difference{Component: Signature, Mend: "the token names no URL"})
	}
	if sum := sha256.Sum256(r.Body); strings.TrimRight(claims.Body, "=") != base64.RawURLEncoding.EncodeToString(sum[:]) {
		all = append(all, Difference{
			Component: Body, Checked: fmt.Sprintf("%d bytes", len(r.Body)),
			Mend: "the body was changed on its way, or is not given as it came: a proxy must pass it on byte by byte, uncompressed",
		})
	}
	return append(all, clocks(r.At, k.Leeway, claims.RegisteredClaims)...)
}

// clocks looks at when the token lives.
func clocks(at time.Time, leeway time.Duration, c jwt.RegisteredClaims) []Difference {
	if at.IsZero() || c.ExpiresAt == nil {
		return nil
	}
	late := Difference{Component: Clock, Checked: at.UTC().Format(time.RFC3339)}
	switch {
	case at.After(c.ExpiresAt.Add(leeway)):
		late.Signed = "until " + c.ExpiresAt.UTC().Format(time.RFC3339)
		late.Mend = "it came too late, or our clock is fast: synchronise the host with NTP, and look for what holds requests back"
	case c.NotBefore != nil && at.Before(c.NotBefore.Add(-leeway)):
		late.Signed = "from " + c.NotBefore.UTC().Format(time.RFC3339)
		late.Mend = "our clock is slow: synchronise the host with NTP"
	default:
		return nil
	}
	return []Difference{late}
}

// mends say what mends each part of the URL.
var mends = map[Component]string{
	Scheme: "PUBLIC_BASE_URL must have the scheme that the vendor calls: https where TLS ends at a proxy",
	Host:   "PUBLIC_BASE_URL must have the host that the vendor calls",
	Port:   "PUBLIC_BASE_URL must have the port that the vendor calls, and none if that has none",
	Path:   "a proxy rewrites the path: it must pass it on as it comes, and PUBLIC_BASE_URL has none; or --url is that of another request",
	Query: "a proxy drops or changes the query, which says what the callback is about: it must pass it on as it comes; or --url is that of " +
		"another request",
}

// between names the parts in which two URLs differ.
func between(signed, checked *url.URL) (all []Difference) {
	for _, part := range []struct {
		component       Component
		signed, checked string
	}{
		{Scheme, signed.Scheme, checked.Scheme},
		{Host, signed.Hostname(), checked.Hostname()},
		{Port, signed.Port(), checked.Port()},
		{Path, signed.EscapedPath(), checked.EscapedPath()},
		{Query, signed.RawQuery, checked.RawQuery},
	} {
		if part.signed != part.checked {
			all = append(all, Difference{
				Component: part.component, Signed: part.signed, Checked: part.checked, Mend: mends[part.component],
			})
		}
	}
	return all
}

const headerTwilio = "X-Twilio-Signature"

// ofTwilio can only try: the signature is a hash of everything. It tries what proxies and settings do to a URL, the fewest changes
// first.
func ofTwilio(r Request, k Keys, received, checked *url.URL) ([]Difference, error) {
	if hash := received.Query().Get("bodySHA256"); hash != "" { // JSON: the signature covers the URL, and the URL the body
		is := sha256.Sum256(r.Body)
		if shown := hex.EncodeToString(is[:]); !strings.EqualFold(shown, hash) {
			return []Difference{{
				Component: Body, Signed: hash, Checked: shown,
				Mend: "the JSON was changed on its way, or is not given as it came; these are its SHA-256",
			}}, nil
		}
		r.Body = nil
	}
	form, err := url.ParseQuery(string(r.Body))
	if err != nil {
		return nil, errors.New("the body is no urlencoded form: give it as it came, in a file")
	}
	signature := r.Header.Get(headerTwilio)
	made := func(u *url.URL, form url.Values) bool {
		return slices.ContainsFunc(k.TwilioAuthTokens, func(token string) bool { return twilio.Sign(token, u.String(), form) == signature })
	}
	var best []Difference
	found := false
	for _, u := range variants(r.Header, received, checked) {
		for _, body := range []url.Values{form, nil} {
			if !made(u, body) {
				continue
			}
			differences := between(u, checked)
			if body == nil && len(form) > 0 {
				differences = append(differences, Difference{
					Component: Body, Mend: "it was signed without its form: the callback must be a POST of urlencoded parameters",
				})
			}
			if !found || len(differences) < len(best) {
				found, best = true, differences
			}
		}
	}
	if found {
		return best, nil
	}
	return []Difference{
		{Component: Key, Mend: "no scheme, host, port, path or query explains it: TWILIO_AUTH_TOKEN must be the primary token of the " +
			"very account (or subaccount) that owns the number; docs/runbooks/key-rotation.md"},
		{
			Component: Body, Checked: fmt.Sprintf("%d parameters", len(form)),
			Mend: "or the form was changed on its way, or is not given as it came",
		},
	}, nil
}

// variants are the URLs that Twilio may have been told, for one that reached us.
func variants(header http.Header, received, checked *url.URL) (all []*url.URL) {
	hosts := map[string]bool{checked.Hostname(): true}
	ports := map[string]bool{"": true, checked.Port(): true, "80": true, "443": true, "8080": true}
	for _, host := range []string{received.Host, header.Get("Host"), header.Get("X-Forwarded-Host"), header.Get("X-Original-Host")} {
		if host != "" {
			u := url.URL{Host: host}
			hosts[u.Hostname()], ports[u.Port()] = true, true
		}
	}
	ports[header.Get("X-Forwarded-Port")] = true
	paths := map[string]bool{checked.Path: true, strings.TrimSuffix(checked.Path, "/"): true, checked.Path + "/": true}
	if prefix := header.Get("X-Forwarded-Prefix"); prefix != "" {
		paths[strings.TrimSuffix(prefix, "/")+checked.Path] = true
	}
	if original, err := url.Parse(header.Get("X-Original-URL")); err == nil && original.Path != "" {
		paths[original.Path] = true
	}
	for _, scheme := range []string{"https", "http"} {
		for host := range hosts {
			for port := range ports {
				for path := range paths {
					for _, query := range []string{checked.RawQuery, ""} {
						u := &url.URL{Scheme: scheme, Host: host, Path: path, RawQuery: query}
						if port != "" {
							u.Host = host + ":" + port
						}
						all = append(all, u)
					}
				}
			}
		}
	}
	return all
}
