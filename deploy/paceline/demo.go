package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"paceline.internal/deploy/operator"
	"paceline.internal/deploy/stack"
	"paceline.internal/emulators/clock"
	"paceline.internal/platform/process"
	"paceline.internal/platform/rpc"
	"paceline.internal/platform/telemetry"
)

// demoCommand plays a conversation, and with Faults a second one under faults; or with Weeks what comes after it; or with Goals what a
// person asks to happen later.
type demoCommand struct {
	Faults bool `help:"Play it again while every alarm is delivered three times at once, a publish fails and an answer of Twilio is lost."`
	Weeks  int  `help:"Play the weeks after it instead, on a clock that leaps: a person drifts away and returns."`
	Goals  bool `help:"Play what a person asks to happen later instead: on a device that comes and goes, and on their phone."`
	JSON   bool `name:"json" help:"Print only the summary, for machines."`
	// A busy machine is late, never early; the caller decides how much is too late.
	Late   time.Duration `default:"300ms" help:"How late a message may be before the promise of its gap counts as broken."`
	Locale string        `enum:"${locales}" default:"en" help:"The language of the messages: ${enum}."`
}

// Run plays, prints and judges.
func (d *demoCommand) Run(ctx context.Context, t terminal) (err error) {
	screen := newScreen(t.out, d.JSON)
	if d.Weeks != 0 {
		return d.playWeeks(ctx, t, screen)
	}
	if d.Goals {
		return d.playGoals(ctx, t, screen)
	}
	screen.heading("Paceline: starting Postgres, messaging, onboarding and the gateway, with QStash and Twilio emulated ...")
	began := time.Now()
	stage, err := openStage(ctx, clock.System(), nil, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stage.close(ctx)) }()
	screen.heading(fmt.Sprintf("Up in %.1f s at %s.", time.Since(began).Seconds(), stage.services.URL()))

	if err := publishStory(ctx, stage.api); err != nil {
		return err
	}
	screen.heading(whatIsShown)

	runs := []scenario{{title: "One conversation", phone: "+12025550143", late: d.Late}}
	if d.Faults {
		runs = append(runs, scenario{
			title: "The same, while every alarm is delivered three times at once, one publish fails and one answer of Twilio is lost",
			phone: "+12025550144", faults: true, late: d.Late,
		})
	}
	var reports []report
	for _, r := range runs {
		played, err := stage.play(ctx, r, d.Locale, screen)
		if err != nil {
			return fmt.Errorf("%s: %w\nthe log: %s", r.title, err, stage.keepLog())
		}
		reports = append(reports, played)
		screen.summary(played)
	}
	if d.Faults {
		reports[1].compare(reports[0])
	}
	if err := conclude(t, screen, reports, d.JSON); err != nil {
		return fmt.Errorf("%w\nthe log: %s", err, stage.keepLog())
	}
	return nil
}

// conclude prints the verdict; it is an error when any promise was broken.
func conclude(t terminal, screen *screen, reports []report, asJSON bool) error {
	kept := true
	for _, r := range reports {
		kept = kept && r.Kept
	}
	if asJSON {
		encoder := json.NewEncoder(t.out)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(map[string]any{"kept": kept, "runs": reports}); err != nil {
			return err
		}
	}
	screen.verdict(reports, kept)
	if !kept {
		return errBroken
	}
	return nil
}

// stage is the running product and the phone of the person who talks to it.
type stage struct {
	databases databases
	vendors   *stack.Vendors
	services  *stack.Services
	api       *operator.Client
	logFile   *os.File
	logKept   bool // its path was printed, so it stays
}

// keepLog is the path of the log, which is not deleted from now on.
func (s *stage) keepLog() string {
	s.logKept = true
	return s.logFile.Name()
}

// openStage starts everything on a clock, on databases that it makes. environ is on top of what the services get; the environment of the
// shell, which may be that of a deployment, is not read. rest is the function by which loops wait; nil waits on the machine's clock.
func openStage(
	ctx context.Context, on clock.Clock, environ map[string]string, rest process.Rest,
) (s *stage, err error) {
	s = &stage{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close(ctx))
		}
	}()
	if s.logFile, err = os.CreateTemp("", "paceline-demo-*.log"); err != nil {
		return s, err
	}
	log := telemetry.NewLogger(s.logFile, telemetry.Config{LogLevel: slog.LevelDebug, LogFormat: telemetry.LogJSON()}, "demo")
	if s.databases, err = openDatabases(ctx, ""); err != nil {
		return s, err
	}
	if s.vendors, err = stack.StartVendors(ctx, stack.VendorConfig{Clock: on, Log: log}); err != nil {
		return s, err
	}
	secrets, err := newSecrets()
	if err != nil {
		return s, err
	}
	s.services, err = stack.StartServices(ctx, s.vendors, stack.ServiceConfig{
		OnboardingDatabaseURL: s.databases.Onboarding, MessagingDatabaseURL: s.databases.Messaging,
		OnboardingMigrateURL: s.databases.OnboardingOwner, MessagingMigrateURL: s.databases.MessagingOwner,
		Secrets: secrets, Log: log, Rest: rest, Environ: environ,
	})
	if err != nil {
		return s, err
	}
	s.api = &operator.Client{BaseURL: s.services.URL(), HTTP: &http.Client{Timeout: 10 * time.Second}}
	return s, s.renewToken(on.Now())
}

// renewToken gives the operator a token from now on; none may live for weeks.
func (s *stage) renewToken(now time.Time) (err error) {
	s.api.Token, err = s.services.Secrets.APIToken("demo", stack.OrgID, rpc.RoleOperator, now, tokenLife)
	return err
}

// tokenLife is longer than a conversation.
const tokenLife = 24 * time.Hour

// stopBound bounds the end; deliveries in flight are finished first.
const stopBound = 20 * time.Second

// close stops whatever has been started, also after Ctrl-C.
func (s *stage) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopBound)
	defer cancel()
	var problems []error
	if s.services != nil {
		problems = append(problems, s.services.Stop(ctx))
	}
	if s.vendors != nil {
		problems = append(problems, s.vendors.Stop(ctx))
	}
	if s.databases.stop != nil {
		problems = append(problems, s.databases.stop(ctx))
	}
	if s.logFile != nil {
		problems = append(problems, s.logFile.Close())
		if !s.logKept {
			problems = append(problems, os.Remove(s.logFile.Name()))
		}
	}
	return errors.Join(problems...)
}
