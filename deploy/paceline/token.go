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
	Role    string        `enum:"operator,user,service" default:"operator" help:"One of ${enum}."`
	Org     string        `default:"00000000-0000-7000-8000-000000000001" help:"The organisation."`
	Subject string        `default:"operator" help:"Who; the profile_id of a user."`
	TTL     time.Duration `name:"ttl" default:"1h" help:"How long it lives."`
	Data    string        `help:"The folder of paceline up whose secrets sign, when the environment has none."`
}

// Run prints the token alone, so that it can stand in a command line.
func (c *tokenCommand) Run(_ context.Context, t terminal) error {
	secrets := stack.Secrets{
		ServiceAuth: t.environ["SERVICE_AUTH_SECRET"], APIJWT: config.NewSecret(t.environ["API_JWT_SECRET"]).First(),
	}
	if c.API && secrets.APIJWT == "" || !c.API && secrets.ServiceAuth == "" {
		dir, err := dataDir(c.Data)
		if err != nil {
			return err
		}
		if secrets, err = loadSecrets(dir); err != nil {
			return err
		}
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
