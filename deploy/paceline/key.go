package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"

	"paceline.internal/deploy/operator"
	"paceline.internal/platform/postgres"
	"paceline.internal/services/onboarding/apikeys"
)

// keyCommand has the API keys of an organisation.
type keyCommand struct {
	Create keyCreateCommand `cmd:"" help:"Make a key, and print it; it is not shown again."`
	List   keyListCommand   `cmd:"" help:"List the keys."`
	Revoke keyRevokeCommand `cmd:"" help:"Have a key refused, within five seconds."`
}

// Help returns the text of --help after the first line.
func (c *keyCommand) Help() string {
	return "PACELINE_API_TOKEN is a key or a token of an operator of the organisation; without it a token is signed with API_JWT_SECRET, " +
		"or the secrets of paceline up."
}

// orgFlags tell a command how to reach /v1 as an operator of an organisation.
type orgFlags struct {
	apiFlags

	Org string `default:"00000000-0000-7000-8000-000000000001" help:"The organisation, where a token is signed here."`
}

// client calls /v1 as an operator of the organisation.
func (f orgFlags) client(ctx context.Context, t terminal) (*operator.Client, error) {
	where, token, err := f.reachAs(ctx, t, tokenCommand{Role: "operator", Org: f.Org, Subject: "operator"})
	if err != nil {
		return nil, err
	}
	return clientOf(where, token), nil
}

func clientOf(gateway *url.URL, token string) *operator.Client {
	return &operator.Client{
		BaseURL: strings.TrimSuffix(gateway.String(), "/"), Token: token, HTTP: &http.Client{Timeout: 30 * time.Second},
	}
}

// keyCreateCommand makes a key.
type keyCreateCommand struct {
	orgFlags

	Name     string        `arg:"" help:"What it is for."`
	Role     string        `enum:"operator,app" default:"app" help:"One of ${enum}."`
	For      time.Duration `help:"How long it is accepted, such as 8760h. Default: until it is revoked."`
	Database string        `help:"Onboarding's database, as its owner: makes the first key of an organisation without a token."`
}

// Run prints the key alone, so that it can be piped into a store of secrets.
func (c *keyCreateCommand) Run(ctx context.Context, t terminal) error {
	var expires *time.Time
	if c.For != 0 {
		at := time.Now().Add(c.For).UTC()
		expires = &at
	}
	key, err := c.create(ctx, t, expires)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(t.out, key)
	return err
}

func (c *keyCreateCommand) create(ctx context.Context, t terminal, expires *time.Time) (string, error) {
	if c.Database != "" {
		return c.direct(ctx, expires)
	}
	client, err := c.client(ctx, t)
	if err != nil {
		return "", err
	}
	wanted := map[string]any{"name": c.Name, "role": c.Role}
	if expires != nil {
		wanted["expires_at"] = expires
	}
	var made struct{ Key string }
	err = client.Call(ctx, http.MethodPost, "/v1/api_keys", wanted, &made)
	return made.Key, err
}

// direct writes the key into the database.
func (c *keyCreateCommand) direct(ctx context.Context, expires *time.Time) (key string, err error) {
	if err := uuid.Validate(c.Org); err != nil {
		return "", errors.New("--org must be a UUID")
	}
	wanted := apikeys.Key{OrgID: c.Org, Name: c.Name, Role: apikeys.Role(c.Role), CreatedAt: time.Now(), ExpiresAt: expires}
	if err := wanted.Validate(); err != nil {
		return "", err
	}
	pool, err := postgres.OpenFor(ctx, "onboarding", postgres.Config{URL: c.Database, MaxConns: 1})
	if err != nil {
		return "", err
	}
	defer pool.Close()
	_, key, err = apikeys.NewStore(pool).Create(postgres.ForOrganisation(ctx, c.Org), wanted)
	return key, err
}

// keyListCommand lists keys.
type keyListCommand struct{ orgFlags }

// keyJSON is a key as /v1 shows it.
type keyJSON struct {
	ID        string     `json:"api_key_id"`
	Name      string     `json:"name"`
	Role      string     `json:"role"`
	EndsWith  string     `json:"ends_with"`
	ExpiresAt *time.Time `json:"expires_at"`
	LastUsed  *time.Time `json:"last_used_at"`
	RevokedAt *time.Time `json:"revoked_at"`
}

// state says in words whether a key is accepted.
func (k keyJSON) state() string {
	switch {
	case k.RevokedAt != nil:
		return "revoked " + k.RevokedAt.UTC().Format(time.RFC3339)
	case k.ExpiresAt != nil:
		return "until " + k.ExpiresAt.UTC().Format(time.RFC3339)
	}
	return "accepted"
}

// Run prints a line for each key.
func (c *keyListCommand) Run(ctx context.Context, t terminal) error {
	client, err := c.client(ctx, t)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', 0)
	for token := ""; ; {
		var page struct {
			Keys []keyJSON `json:"api_keys"`
			Next string    `json:"next_page_token"`
		}
		if err := client.Call(ctx, http.MethodGet, "/v1/api_keys?page_size=500&page_token="+url.QueryEscape(token), nil, &page); err != nil {
			return err
		}
		for _, k := range page.Keys {
			used := "never used"
			if k.LastUsed != nil {
				used = "used " + k.LastUsed.UTC().Format(time.RFC3339)
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t...%s\t%s\t%s\n", k.ID, k.Name, k.Role, k.EndsWith, k.state(), used)
		}
		if token = page.Next; token == "" {
			return table.Flush()
		}
	}
}

// keyRevokeCommand revokes a key.
type keyRevokeCommand struct {
	orgFlags

	ID string `arg:"" help:"The id of the key, as paceline key list prints it."`
}

// Run revokes it.
func (c *keyRevokeCommand) Run(ctx context.Context, t terminal) error {
	client, err := c.client(ctx, t)
	if err != nil {
		return err
	}
	if err := client.Call(ctx, http.MethodDelete, "/v1/api_keys/"+url.PathEscape(c.ID), nil, nil); err != nil {
		return err
	}
	_, err = fmt.Fprintln(t.out, "the key is revoked; gateways refuse it within five seconds")
	return err
}
