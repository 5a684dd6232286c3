package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"paceline.internal/deploy/doctor"
	"paceline.internal/platform/process"
)

// doctorCommand checks a deployment, or one request.
type doctorCommand struct {
	All       doctorAllCommand       `cmd:"" default:"withargs" help:"Check the whole deployment whose variables are in the environment."`
	Signature doctorSignatureCommand `cmd:"" help:"Say why a callback's signature was refused."`
}

// doctorAllCommand checks everything.
type doctorAllCommand struct {
	JSON bool `name:"json" help:"Print one JSON array, for machines."`
}

// Help is the long text of --help.
func (c *doctorAllCommand) Help() string {
	return `Reads the variables of all three services from the environment (docs/configuration.md) and checks each of them: the
variables, the databases and their schemas, the clocks, QStash's token and keys, Twilio's credentials and sender, the public origin, TLS,
Redis when it is set, the flow and the copy. Nothing is changed and nothing is sent.

The exit code is 0 only if nothing failed. Warnings may be meant.`
}

// Run prints the findings.
func (c *doctorAllCommand) Run(ctx context.Context, t terminal) error {
	findings := doctor.Deployment(ctx, t.environ)
	if c.JSON {
		return findings.Report(t.out, true)
	}
	for i, f := range findings {
		if i == 0 || f.Service != findings[i-1].Service {
			if _, err := fmt.Fprintln(t.out, f.Service); err != nil {
				return err
			}
		}
		if err := (process.Findings{f}).Print(t.out); err != nil {
			return err
		}
	}
	return findings.Err()
}

// doctorSignatureCommand checks one request.
type doctorSignatureCommand struct {
	URL    string   `required:"" help:"Where it came in: the whole URL if it is known, else the path with its query."`
	Header []string `short:"H" sep:"none" help:"A header as it came, 'Name: value'; at least the signature. May be given several times."`
	Body   string   `type:"existingfile" help:"The file of the body, byte by byte."`
	At     instant  `help:"When it came in, RFC 3339; without it the clock is not checked."`
	JSON   bool     `name:"json" help:"Print one JSON object, for machines."`
}

// Help is the long text of --help.
func (c *doctorSignatureCommand) Help() string {
	return `Takes a request that was answered 401 or 403, and names what differs between what was signed and what is checked: scheme, host,
port, path, query, body, key or clock. It needs PUBLIC_BASE_URL, and QSTASH_CURRENT_SIGNING_KEY and QSTASH_NEXT_SIGNING_KEY or
TWILIO_AUTH_TOKEN, as the gateway has them. QStash's signature says what was signed; Twilio's is only a hash, so what proxies and
settings usually do to a URL is tried.

The exit code is 0 only if the signature is good.`
}

// errSignature is a signature that is not good. What is wrong has been printed by then.
var errSignature = errors.New("the signature is not good; see above")

// Run prints what differs.
func (c *doctorSignatureCommand) Run(_ context.Context, t terminal) error {
	request := doctor.Request{URL: c.URL, Header: http.Header{}, At: c.At.Time}
	for _, line := range c.Header {
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return fmt.Errorf("--header %q: must be 'Name: value'", name)
		}
		request.Header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	if c.Body != "" {
		var err error
		if request.Body, err = os.ReadFile(c.Body); err != nil {
			return err
		}
	}
	keys, err := doctor.LoadKeys(t.environ)
	if err != nil {
		return err
	}
	vendor, differences, err := doctor.Diagnose(request, keys)
	if err != nil {
		return err
	}
	if err := c.print(t, vendor, keys.PublicBaseURL, differences); err != nil {
		return err
	}
	if len(differences) > 0 {
		return errSignature
	}
	return nil
}

// signed is the URL of a good signature, and what to say when it is not the one that was given: only the path and the query of that
// are checked.
func (c *doctorSignatureCommand) signed(origin string) (signed, other string) {
	given, err := url.Parse(c.URL)
	if err != nil { // it was read before
		return c.URL, ""
	}
	if signed = origin + given.RequestURI(); given.Host != "" && given.Scheme+"://"+given.Host != origin {
		other = fmt.Sprintf("warning: --url begins with %s://%s, which was not signed; the origin is taken from PUBLIC_BASE_URL\n",
			given.Scheme, given.Host)
	}
	return signed, other
}

func (c *doctorSignatureCommand) print(t terminal, vendor, origin string, differences []doctor.Difference) error {
	if c.JSON {
		encoder := json.NewEncoder(t.out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(struct {
			Vendor      string              `json:"vendor"`
			Good        bool                `json:"good"`
			Differences []doctor.Difference `json:"differences"`
		}{vendor, len(differences) == 0, append([]doctor.Difference{}, differences...)})
	}
	if len(differences) == 0 {
		signed, other := c.signed(origin)
		_, err := fmt.Fprintf(t.out, "good: this is %s's signature, for %s and this body\n%s", vendor, signed, other)
		return err
	}
	for _, d := range differences {
		what := ""
		if d.Signed != "" || d.Checked != "" {
			what = fmt.Sprintf("signed %q, checked %q", d.Signed, d.Checked)
		}
		if _, err := fmt.Fprintf(t.out, "%-10s %s\n%-10s to mend: %s\n", d.Component, what, "", d.Mend); err != nil {
			return err
		}
	}
	return nil
}
