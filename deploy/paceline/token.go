package main

import (
	"context"
	"fmt"
	"time"

	"paceline.internal/platform/config"
	"paceline.internal/platform/rpc"
	"paceline.internal/test/stack"
)

// tokenCommand prints a token.
type tokenCommand struct {
	API     bool          `name:"api" help:"For /v1 over HTTP, signed with API_JWT_SECRET, instead of for gRPC."`
	Role    string        `enum:"operator,app,user,service" default:"operator" help:"One of ${enum}."`
	Org     string        `default:"00000000-0000-7000-8000-000000000001" help:"The organisation."`
	Subject string        `default:"operator" help:"Who; the profile_id of a user."`
	TTL     time.Duration `name:"ttl" default:"1h" help:"How long it lives."`
	Data    string        `help:"The folder of paceline up whose secrets sign, when the environment has none."`
}

// Run prints the token alone, so that it can stand in a command line.
func (c *tokenCommand) Run(_ context.Context, t terminal) error {
	secrets, err := c.secrets(t.environ)
	if err != nil {
		return err
	}
	who := rpc.Principal{Subject: c.Subject, OrgID: c.Org, Role: rpc.Role(c.Role)}
	if err := who.Validate(); err != nil {
		return err
	}
	token, err := secrets.ServiceToken(who, time.Now, c.TTL)
	if c.API {
		token, err = secrets.APIToken(who.Subject, who.OrgID, who.Role, time.Now(), c.TTL)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(t.out, token)
	return err
}

// secrets are those of the environment, as the services read them, or else of the data folder.
func (c *tokenCommand) secrets(environ map[string]string) (stack.Secrets, error) {
	var cfg struct {
		ServiceAuth config.Secret `env:"SERVICE_AUTH_SECRET" help:"signs the tokens that the processes call each other with"`
		APIJWT      config.Secret `env:"API_JWT_SECRET" help:"signs the tokens of /v1"`
	}
	if err := config.Load(environ, &cfg); err != nil {
		return stack.Secrets{}, err
	}
	name, given := "SERVICE_AUTH_SECRET", cfg.ServiceAuth
	if c.API {
		name, given = "API_JWT_SECRET", cfg.APIJWT
	}
	if given.IsZero() {
		dir, err := dataDir(c.Data)
		if err != nil {
			return stack.Secrets{}, err
		}
		return loadSecrets(dir)
	}
	if _, err := given.Keys(); err != nil {
		return stack.Secrets{}, &config.Problem{Variable: name, Reason: err.Error()}
	}
	return stack.Secrets{ServiceAuth: cfg.ServiceAuth.Reveal(), APIJWT: cfg.APIJWT.First()}, nil
}
