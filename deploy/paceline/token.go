package main

import (
	"context"
	"fmt"
	"time"

	"paceline.internal/deploy/stack"
	"paceline.internal/platform/config"
	"paceline.internal/platform/rpc"
)

// tokenCommand prints a token.
type tokenCommand struct {
	API     bool          `name:"api" help:"For /v1 over HTTP, signed with API_JWT_SECRET, instead of for gRPC."`
	Role    string        `enum:"operator,app,user,platform" default:"operator" help:"One of ${enum}."`
	Org     string        `default:"00000000-0000-7000-8000-000000000001" help:"The organisation; the platform has none."`
	Subject string        `default:"operator" help:"Who; the profile_id of a user."`
	TTL     time.Duration `name:"ttl" default:"1h" help:"How long it lives."`
	Data    string        `help:"The folder of the paceline up whose secrets sign. Default: those of the environment, or of its usual folder."`
}

// Run prints the token alone, so that it can stand in a command line.
func (c *tokenCommand) Run(_ context.Context, t terminal) error {
	who := rpc.Principal{Subject: c.Subject, OrgID: c.Org, Role: rpc.Role(c.Role)}
	if who.Role == rpc.RolePlatform {
		who.OrgID = ""
	}
	if err := who.Validate(); err != nil {
		return err
	}
	mint := c.service
	if c.API {
		mint = c.api
	}
	environ := t.environ
	if c.Data != "" {
		environ = nil // the folder was asked for, whatever the shell has
	}
	token, err := mint(environ, who)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(t.out, token)
	return err
}

// service signs as an operator, with the key of the environment, or else that of the data folder.
func (c *tokenCommand) service(environ map[string]string, who rpc.Principal) (string, error) {
	var cfg struct {
		Key    config.Secret `env:"OPERATOR_SIGNING_KEY" help:"signs the tokens of operators for gRPC"`
		Shared config.Secret `env:"SERVICE_AUTH_SECRET" help:"signs them where the processes have no keys yet"`
	}
	if err := config.Load(environ, &cfg); err != nil {
		return "", err
	}
	keys := rpc.Keys{Process: rpc.Operator, Signing: cfg.Key, Shared: cfg.Shared}
	if cfg.Key.IsZero() && cfg.Shared.IsZero() {
		secrets, err := c.kept()
		if err != nil {
			return "", err
		}
		return secrets.ServiceToken(who, time.Now, c.TTL)
	}
	if err := keys.CheckSigning(); err != nil {
		return "", err
	}
	tokens, err := rpc.NewTokens(keys, time.Now)
	if err != nil {
		return "", err
	}
	return tokens.Mint(who, c.TTL)
}

// api signs for /v1, with the secret of the environment, or else that of the data folder.
func (c *tokenCommand) api(environ map[string]string, who rpc.Principal) (string, error) {
	var cfg struct {
		Secret config.Secret `env:"API_JWT_SECRET" help:"signs the tokens of /v1"`
	}
	if err := config.Load(environ, &cfg); err != nil {
		return "", err
	}
	secrets := stack.Secrets{APIJWT: cfg.Secret.First()}
	if _, err := cfg.Secret.Keys(); err != nil {
		return "", &config.Problem{Variable: "API_JWT_SECRET", Reason: err.Error()}
	}
	if cfg.Secret.IsZero() {
		var err error
		if secrets, err = c.kept(); err != nil {
			return "", err
		}
	}
	return secrets.APIToken(who.Subject, who.OrgID, who.Role, time.Now(), c.TTL)
}

// kept are the secrets of the data folder.
func (c *tokenCommand) kept() (stack.Secrets, error) {
	dir, err := dataDir(c.Data)
	if err != nil {
		return stack.Secrets{}, err
	}
	return loadSecrets(dir)
}
