package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"paceline.internal/deploy/stack"
	"paceline.internal/gateway/console/signin"
	"paceline.internal/platform/config"
)

// consoleCommand prints a link into the console of a paceline up.
type consoleCommand struct {
	Data string `help:"The folder of that paceline up."`
}

// Run prints the link alone. It needs no word with that paceline up, only the key of its environment file.
func (c *consoleCommand) Run(_ context.Context, t terminal) error {
	environ, err := deploymentEnviron(t.environ, c.Data)
	key, origin := environ["CONSOLE_KEY"], environ["PUBLIC_BASE_URL"]
	if err != nil || key == "" || origin == "" {
		return errors.Join(err, errors.New("no paceline up runs here; start one, or name its folder with --data"))
	}
	link, err := signin.NewLink(config.NewSecret(key), stack.OrgID, time.Now())
	if err == nil {
		_, err = fmt.Fprintln(t.out, origin+link)
	}
	return err
}
