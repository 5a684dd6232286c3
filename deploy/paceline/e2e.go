package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"paceline.internal/deploy/e2e"
	"paceline.internal/deploy/stack"
	"paceline.internal/platform/process"
)

// e2eCommand is the staging harness.
type e2eCommand struct {
	Runs int    `default:"2" help:"How often the conversation is played, each time from a clean baseline. All have to be the same."`
	Up   string `placeholder:"URL" help:"The gateway of a paceline up here. Default where the environment has none: the one that runs."`
	Data string `help:"The folder of that paceline up."`
	JSON bool   `name:"json" help:"Print one JSON object, for machines."`
}

// Help is the long text of --help.
func (c *e2eCommand) Help() string {
	return `HARNESS_QSTASH_MODE says who delivers the alarms: stub (the harness, at once; the deployment's own come late and find their steps
done) or real (the deployment's QStash, with its delays).

Against a deployment with an environment of its own, set PUBLIC_BASE_URL, TWILIO_AUTH_TOKEN, TWILIO_FROM_NUMBER,
QSTASH_CURRENT_SIGNING_KEY, and HARNESS_API_TOKEN or API_JWT_SECRET as that deployment has them; HARNESS_URL when it is reached
elsewhere, HARNESS_PHONE when the carrier is real. docs/configuration.md lists all of them.

The exit code is 0 only if every check of every run was good and all runs were the same.`
}

// Run returns an error unless all is well.
func (c *e2eCommand) Run(ctx context.Context, t terminal) error {
	if c.Runs < 1 {
		return errors.New("--runs must be 1 or more")
	}
	environ, err := c.environ(t.environ)
	if err != nil {
		return err
	}
	cfg, err := e2e.LoadConfig(environ)
	if err != nil {
		return err
	}
	screen := newScreen(t.out, c.JSON)
	report, err := e2e.Harness{
		Config: cfg, Now: time.Now, Rest: process.RestOnMachineClock, Tell: screen.heading, Told: screen.check,
	}.Run(ctx, c.Runs)
	if err := c.print(t, report); err != nil {
		return err
	}
	if err != nil {
		return err
	}
	if !report.Kept {
		return errBroken
	}
	return nil
}

// ofDeployment are the variables that say that another deployment is meant than a paceline up.
func ofDeployment() []string {
	return []string{"PUBLIC_BASE_URL", "TWILIO_AUTH_TOKEN", "TWILIO_FROM_NUMBER", "QSTASH_CURRENT_SIGNING_KEY"}
}

// environ is the user's, on top of what a paceline up on this machine has when that is meant.
func (c *e2eCommand) environ(given map[string]string) (map[string]string, error) {
	if c.Up == "" && slices.ContainsFunc(ofDeployment(), func(name string) bool { return given[name] != "" }) {
		return given, nil // with what is missing among them, which a paceline up would only hide
	}
	environ := stack.Credentials()
	if c.Up == "" {
		up, err := deploymentEnviron(nil, c.Data)
		if err != nil {
			return nil, err
		}
		if up["PUBLIC_BASE_URL"] == "" {
			return nil, errNoDeployment
		}
		environ["PUBLIC_BASE_URL"], environ["API_JWT_SECRET"] = up["PUBLIC_BASE_URL"], up["API_JWT_SECRET"]
		maps.Copy(environ, given)
		return environ, nil
	}
	dir, err := dataDir(c.Data)
	if err != nil {
		return nil, err
	}
	secrets, err := loadSecrets(dir)
	if err != nil {
		return nil, err
	}
	maps.Copy(environ, given)
	environ["PUBLIC_BASE_URL"] = c.Up
	if environ["API_JWT_SECRET"] == "" {
		environ["API_JWT_SECRET"] = secrets.APIJWT
	}
	return environ, nil
}

func (c *e2eCommand) print(t terminal, report e2e.Report) error {
	if c.JSON {
		encoder := json.NewEncoder(t.out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(report)
	}
	for n, run := range report.Runs {
		failed := 0
		for _, check := range run.Checks {
			if !check.OK {
				failed++
			}
		}
		if _, err := fmt.Fprintf(t.out, "run %d: session %s, %d texts, %d checks, %d failed\n",
			n+1, run.SessionID, len(run.Texts), len(run.Checks), failed); err != nil {
			return err
		}
	}
	for _, difference := range report.Differences {
		if _, err := fmt.Fprintln(t.out, "not the same:", difference); err != nil {
			return err
		}
	}
	verdict := "all is well"
	if !report.Kept {
		verdict = "something is wrong; see above"
	}
	_, err := fmt.Fprintf(t.out, "%s: QStash %s, %d runs\n", verdict, report.Mode, len(report.Runs))
	return err
}
