package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tmaxmax/go-sse"

	"paceline.internal/services/onboarding/events"
)

// apiTokenVariable holds the token for /v1 where none can be signed here.
const apiTokenVariable = "PACELINE_API_TOKEN" //nolint:gosec // a name

// apiFlags tell a command how to reach /v1.
type apiFlags struct {
	URL  string `name:"url" help:"The gateway. Default: PUBLIC_BASE_URL, or that of the paceline up on this machine."`
	Data string `help:"The folder of the paceline up that is meant."`
}

// request is one of an operator, or of the subject that PACELINE_API_TOKEN names.
func (f apiFlags) request(ctx context.Context, t terminal, path string, query url.Values) (*http.Request, error) {
	where, token, err := f.reach(ctx, t)
	if err != nil {
		return nil, err
	}
	where = where.JoinPath(path)
	where.RawQuery = query.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, where.String(), http.NoBody)
	if err == nil {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return r, err
}

// reach returns the gateway of the deployment that is meant, and a token for it: PACELINE_API_TOKEN, or one of an operator that is
// signed here.
func (f apiFlags) reach(ctx context.Context, t terminal) (*url.URL, string, error) {
	return f.reachAs(ctx, t, tokenCommand{Role: "operator", Org: firstOrganisation, Subject: "operator"})
}

// firstOrganisation is DEFAULT_ORG_ID where the environment has none.
const firstOrganisation = "00000000-0000-7000-8000-000000000001"

// reachAs does what reach does, with the token of somebody else.
func (f apiFlags) reachAs(ctx context.Context, t terminal, mint tokenCommand) (*url.URL, string, error) {
	environ, err := deploymentEnviron(t.environ, f.Data)
	if err != nil {
		return nil, "", err
	}
	gateway, err := gatewayAt(f.URL, environ)
	if err != nil {
		return nil, "", err
	}
	if token := environ[apiTokenVariable]; token != "" {
		return gateway, token, nil
	}
	var minted bytes.Buffer
	mint.API, mint.TTL, mint.Data = true, 12*time.Hour, f.Data
	err = mint.Run(ctx, terminal{out: &minted, environ: environ})
	return gateway, strings.TrimSpace(minted.String()), err
}

// eventsCommand prints the log of events.
type eventsCommand struct {
	apiFlags

	Follow bool     `short:"f" help:"Go on with what comes, over breaks, until Ctrl-C."`
	After  int64    `default:"-1" help:"Begin behind this seq; 0 is the oldest that is kept. Default: all, or with --follow what is new."`
	Types  []string `help:"Only these types, parted by commas; docs/events.md."`
}

// Help returns the text of --help after the first line.
func (c *eventsCommand) Help() string {
	return "Each event is one line of JSON. PACELINE_API_TOKEN is a token of an operator or an app; without it one is signed with " +
		"API_JWT_SECRET, or the secrets of paceline up. The deployment is that of --data, of the environment, or the paceline up on this machine."
}

// Run prints events, one line each.
func (c *eventsCommand) Run(ctx context.Context, t terminal) error {
	query := url.Values{}
	if len(c.Types) > 0 {
		query.Set("types", strings.Join(c.Types, ","))
	}
	if !c.Follow {
		return c.list(ctx, t, query)
	}
	if c.After >= 0 {
		query.Set("after", strconv.FormatInt(c.After, 10))
	}
	r, err := c.request(ctx, t, "v1/events:stream", query)
	if err != nil {
		return err
	}
	return followEvents(r, t.out, func(e sse.Event) error {
		_, err := fmt.Fprintln(t.out, e.Data)
		return err
	})
}

// list prints all that is kept, page by page.
func (c *eventsCommand) list(ctx context.Context, t terminal, query url.Values) error {
	query.Set("page_size", "500")
	for after := strconv.FormatInt(max(c.After, 0), 10); ; {
		query.Set("after", after)
		r, err := c.request(ctx, t, "v1/events", query)
		if err != nil {
			return err
		}
		var page struct {
			Events    []json.RawMessage `json:"events"`
			NextAfter string            `json:"next_after"`
		}
		if err := getJSON(r, &page); err != nil {
			return err
		}
		for _, e := range page.Events {
			if _, err := fmt.Fprintf(t.out, "%s\n", e); err != nil {
				return err
			}
		}
		if page.NextAfter == after {
			return nil
		}
		after = page.NextAfter
	}
}

// getJSON reads an answer of /v1, or says what the gateway says.
func getJSON(r *http.Request, into any) error {
	resp, err := (&http.Client{Timeout: 30 * time.Second}).Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // it was read, or is of no use
	if resp.StatusCode != http.StatusOK {
		return refusedBy(resp)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

// refusedBy is the error of an answer that is none.
func refusedBy(resp *http.Response) error {
	var refused struct {
		Message string `json:"message"`
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 16<<10)) // what there is of it
	if json.Unmarshal(body, &refused) != nil || refused.Message == "" {
		refused.Message = "no reason was given"
	}
	return fmt.Errorf("the gateway answered %s: %s", resp.Status, refused.Message)
}

// again is an answer after which a stream is asked for again.
type again struct{ error }

// Temporary tells the client that it is one.
func (again) Temporary() bool { return true }

// followEvents hands over each event of a stream, and connects again behind the last one until the context of the request ends.
func followEvents(r *http.Request, out io.Writer, each func(sse.Event) error) error {
	var failed error
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	client := sse.Client{
		HTTPClient: &http.Client{}, // a stream has no end
		Backoff:    sse.Backoff{InitialInterval: 500 * time.Millisecond, Multiplier: 2, Jitter: 0.5, MaxInterval: 15 * time.Second},
		ResponseValidator: func(resp *http.Response) error {
			switch {
			case resp.StatusCode >= http.StatusInternalServerError || resp.StatusCode == http.StatusTooManyRequests:
				return again{refusedBy(resp)}
			case resp.StatusCode != http.StatusOK:
				return refusedBy(resp)
			}
			return sse.DefaultValidator(resp)
		},
		OnRetry: func(err error, wait time.Duration) {
			if r.Context().Err() == nil {
				_, _ = fmt.Fprintf(out, "# the stream broke off (%v); again in %s\n", err, wait.Round(time.Millisecond)) // or the terminal is gone
			}
		},
	}
	connection := client.NewConnection(r.WithContext(ctx))
	connection.SubscribeToAll(func(e sse.Event) {
		if failed = each(e); failed != nil {
			cancel()
		}
	})
	err := connection.Connect()
	if failed != nil || r.Context().Err() != nil {
		return failed
	}
	return err
}

// listenCommand posts what happens to a program under development.
type listenCommand struct {
	apiFlags

	Forward string   `required:"" help:"The URL that each event is posted to."`
	Types   []string `help:"Only these types, parted by commas; docs/events.md."`
	Secret  string   `help:"What they are signed with, as whsec_...; default: a new one, which is printed."`
}

// Help returns the text of --help after the first line.
func (c *listenCommand) Help() string {
	return "Events are signed and shaped as those of a subscription, and posted once each, without being tried again. " +
		"Nothing has to be subscribed to or reachable from outside."
}

// Run forwards until Ctrl-C.
func (c *listenCommand) Run(ctx context.Context, t terminal) error {
	to, err := url.Parse(c.Forward)
	if err != nil || to.Host == "" || to.Scheme != "http" && to.Scheme != "https" {
		return errors.New("--forward must be an http or https URL")
	}
	secret := events.NewSecret()
	if c.Secret != "" {
		if secret, err = events.ReadSecret(c.Secret); err != nil {
			return fmt.Errorf("--secret: %w", err)
		}
	}
	query := url.Values{}
	if len(c.Types) > 0 {
		query.Set("types", strings.Join(c.Types, ","))
	}
	r, err := c.request(ctx, t, "v1/events:stream", query)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(t.out, "Posting to %s, signed with %s\n", to.Redacted(), events.ShowSecret(secret)); err != nil {
		return err
	}
	client := &http.Client{
		Timeout: events.DeliveryTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return followEvents(r, t.out, func(e sse.Event) error {
		_, err := fmt.Fprintf(t.out, "%s %s -> %s\n", e.LastEventID, e.Type, forward(ctx, client, to.String(), []byte(e.Data), secret))
		return err
	})
}

// forward posts one event, and says what came of it.
func forward(ctx context.Context, client *http.Client, to string, body, secret []byte) string {
	var event struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(body, &event); err != nil {
		return err.Error()
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return err.Error()
	}
	r.Header.Set("Content-Type", events.MediaType)
	events.Sign(r.Header, event.ID, time.Now(), body, secret)
	resp, err := client.Do(r)
	if err != nil {
		return err.Error()
	}
	_ = resp.Body.Close() // its status is all that counts
	return resp.Status
}
