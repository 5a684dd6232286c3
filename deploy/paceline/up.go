package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"paceline.internal/deploy/operator"
	"paceline.internal/deploy/stack"
	"paceline.internal/emulators/clock"
	"paceline.internal/emulators/twilio"
	"paceline.internal/gateway/console/signin"
	"paceline.internal/platform/config"
	"paceline.internal/platform/postgres/embeddedpg"
	"paceline.internal/platform/rpc"
	"paceline.internal/platform/telemetry"
)

// upCommand keeps the product running.
type upCommand struct {
	Data                 string `help:"The folder that keeps the data between runs."`
	FreePorts            bool   `help:"Listen on free ports instead of the usual ones."`
	Quiet                bool   `help:"Do not print what the emulated phones send and get."`
	EnvironmentDatabases bool   `help:"Run on the databases of the environment. The emulated carrier takes every text that waits in them."`
	Flow                 string `type:"existingdir" help:"Play the flow in this folder, and read it again when a file is saved."`
	LogLevel             string `enum:"debug,info,warn,error" default:"warn" help:"Least severe line that is shown: ${enum}."`
}

// consoleKey is a key of this run: who signed in at the one before signs in again.
func consoleKey() string {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails: crypto/rand
	return hex.EncodeToString(key)
}

// The usual addresses. Only this machine reaches them.
var usual = stack.Addresses{
	Gateway: "127.0.0.1:8080", GatewayOps: "127.0.0.1:9100",
	Onboarding: "127.0.0.1:9001", OnboardingOps: "127.0.0.1:9101",
	Messaging: "127.0.0.1:9002", MessagingOps: "127.0.0.1:9102",
}

const (
	usualQStash = "127.0.0.1:8081"
	usualTwilio = "127.0.0.1:8082"
	// tokenTTL is the life of the printed token: a working day.
	tokenTTL = 12 * time.Hour
)

// Run serves until Ctrl-C, which may come at any moment.
func (u *upCommand) Run(ctx context.Context, t terminal) (err error) {
	conversation, err := u.conversation()
	if err != nil {
		return err
	}
	dir, err := dataDir(u.Data)
	if err != nil {
		return err
	}
	secrets, err := keepSecrets(dir)
	if err != nil {
		return err
	}
	anchors := filepath.Join(dir, anchorsDir)
	if err := os.MkdirAll(anchors, 0o700); err != nil {
		return err
	}
	level, format := slog.LevelWarn, telemetry.LogText()
	if err := level.UnmarshalText([]byte(u.LogLevel)); err != nil {
		return err
	}
	log := telemetry.NewLogger(os.Stderr, telemetry.Config{LogLevel: level, LogFormat: format}, "paceline")

	s := &stage{}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	if s.databases, err = u.databases(ctx, t, dir); err != nil {
		return err
	}
	addresses := usual
	vendors := stack.VendorConfig{Clock: clock.System(), Log: log, OnTwilio: u.phone(t)}
	if u.FreePorts {
		addresses = stack.Addresses{}
	} else if err := bindUsual(ctx, &vendors); err != nil {
		return err
	}
	if s.vendors, err = stack.StartVendors(ctx, vendors); err != nil {
		return err
	}
	key := consoleKey()
	s.services, err = stack.StartServices(ctx, s.vendors, stack.ServiceConfig{
		OnboardingDatabaseURL: s.databases.Onboarding, MessagingDatabaseURL: s.databases.Messaging,
		OnboardingMigrateURL: s.databases.OnboardingOwner, MessagingMigrateURL: s.databases.MessagingOwner,
		Secrets: secrets, Addresses: addresses, Log: log,
		Environ: u.settings(t.environ, map[string]string{
			"EVENTS_ALLOW_PRIVATE_TARGETS": "127.0.0.0/8,::1/128", // a subscriber on this machine
			"CONSOLE":                      "on", "CONSOLE_KEY": key, "ACTIVATION_FLOW": conversation,
			"LEDGER_SIGNING_KEY": secrets.Ledger, "LEDGER_ANCHOR_DIR": anchors,
		}),
		ConsoleLinks: true,
	})
	if err != nil {
		return fmt.Errorf("%w\n(if a port is taken, try --free-ports)", err)
	}
	s.api = &operator.Client{BaseURL: s.services.URL(), HTTP: &http.Client{Timeout: 10 * time.Second}}
	watch, err := u.publish(ctx, t, s, secrets, conversation)
	if err != nil {
		return err
	}
	defer watch()
	environ, err := writeEnviron(dir, s.services.Environ())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removeEnviron(environ)) }()
	link, err := signin.NewLink(config.NewSecret(key), stack.OrgID, time.Now())
	if err != nil {
		return err
	}
	if err := u.welcome(t, s, secrets, dir, "http://"+s.services.Addresses.Gateway+link); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		_, err := fmt.Fprintln(t.out, "Stopping; the data is kept.")
		return err
	case <-s.services.Ended():
		return errors.New("the services ended")
	case <-s.databases.Lost:
		return errors.New("postgres ended")
	}
}

// conversation returns the name of the flow of --flow; empty without one.
func (u *upCommand) conversation() (string, error) {
	switch {
	case u.Flow == "":
		return "", nil
	case u.EnvironmentDatabases:
		return "", errors.New("--flow goes without --environment-databases: each save would be published there; use paceline flow push")
	}
	f, _, err := readFlow(u.Flow)
	return f.Name, err
}

// publish publishes the flow of --flow, which it reads again until stop is called; or else the interview of the story, which makes no
// sense in the databases of a deployment.
func (u *upCommand) publish(
	ctx context.Context, t terminal, s *stage, secrets stack.Secrets, conversation string,
) (stop func(), err error) {
	token := func() (string, error) {
		return secrets.APIToken("up", stack.OrgID, rpc.RoleOperator, time.Now(), tokenTTL)
	}
	if s.api.Token, err = token(); err != nil {
		return nil, err
	}
	switch {
	case u.Flow != "":
		w := &flowWatch{dir: u.Flow, name: conversation, out: t.out, api: s.api, token: token}
		if err := w.begin(ctx); err != nil {
			return nil, err
		}
		ctx, cancel := context.WithCancel(ctx)
		var running sync.WaitGroup
		running.Go(func() { w.run(ctx) })
		return func() { cancel(); running.Wait() }, nil
	case !u.EnvironmentDatabases:
		if err := publishStory(ctx, s.api); err != nil {
			return nil, err
		}
		_, err = fmt.Fprintln(t.out, whatIsShown)
	}
	return func() {}, err
}

// databases are its own, unless the operator asks for those of the environment: they may be a deployment's, with queued texts that the
// emulated carrier would take.
func (u *upCommand) databases(ctx context.Context, t terminal, dir string) (databases, error) {
	if u.EnvironmentDatabases {
		return namedDatabases(t.environ)
	}
	return openDatabases(ctx, u.cluster(dir))
}

// ownFiles are the settings that name a team's files: its texts, its flow, its words. They name no data of a deployment.
func ownFiles() []string {
	return []string{"ONBOARDING_COPY_DIR", "ONBOARDING_FLOW_FILE", "ENGAGEMENT_FILE", "ENGAGEMENT_COPY_DIR", "GOAL_WORDS_FILE"}
}

// settings adds what the shell says about the team's files. All else that it says belongs to some deployment, and is not taken.
func (u *upCommand) settings(shell, own map[string]string) map[string]string {
	for _, name := range ownFiles() {
		if value := shell[name]; value != "" {
			own[name] = value
		}
	}
	return own
}

// where is the file by which other commands find this one.
func (u *upCommand) where() string {
	if u.Data == "" {
		return ""
	}
	return " --data " + u.Data
}

// phone prints what the emulated phones send and get, so that a conversation can be watched.
func (u *upCommand) phone(t terminal) func(twilio.Event) {
	if u.Quiet {
		return nil
	}
	var mu sync.Mutex
	return func(e twilio.Event) {
		person, arrow := e.Message.To, "-->"
		switch e.Kind {
		case twilio.EventCreated:
		case twilio.EventInbound:
			person, arrow = e.Message.From, "<--"
		default:
			return
		}
		mu.Lock()
		defer mu.Unlock()
		_, _ = fmt.Fprintf(t.out, "%s  %s %s %s\n", e.At.Format(time.TimeOnly), person, arrow, e.Message.Body) // or the terminal is gone
	}
}

// cluster returns the folder of the private server: in the data folder, but for root, because its server runs as a user who cannot
// enter root's home.
func (u *upCommand) cluster(dir string) string {
	if u.Data == "" {
		return embeddedpg.DefaultDir()
	}
	return filepath.Join(dir, "postgres")
}

func bindUsual(ctx context.Context, cfg *stack.VendorConfig) error {
	var network net.ListenConfig
	var qstashErr, twilioErr error
	cfg.QStashListener, qstashErr = network.Listen(ctx, "tcp", usualQStash)
	cfg.TwilioListener, twilioErr = network.Listen(ctx, "tcp", usualTwilio)
	if err := errors.Join(qstashErr, twilioErr); err != nil {
		return fmt.Errorf("%w\n(try --free-ports)", err)
	}
	return nil
}

// welcome prints where everything is and what to try.
func (u *upCommand) welcome(t terminal, s *stage, secrets stack.Secrets, dir, link string) error {
	token, err := secrets.APIToken("operator", stack.OrgID, rpc.RoleOperator, time.Now(), tokenTTL)
	if err != nil {
		return err
	}
	a := s.services.Addresses
	_, err = fmt.Fprintf(t.out, `Paceline is up. Ctrl-C stops it; the data stays (secrets in %[1]s, Postgres in %[11]s).

  console     %[14]s
              (signs in once, within ten minutes; %[15]s console%[13]s prints another)

  gateway     http://%[2]s    ops http://%[3]s/metrics, /readyz
  onboarding  grpc %[4]s           ops http://%[5]s
  messaging   grpc %[6]s           ops http://%[7]s
  QStash      %[8]s    emulated: it forgets its alarms when this stops; a minute after the next start they are set again
  Twilio      %[9]s    emulated: a phone is a POST to /phone
  environment .  %[12]s    in a shell: doctor, psql, token and the runbooks then speak to this one

Everything that is sent stays on this machine, and is shown below; --log-level info shows every call as well.
Try, in another terminal (the token lives twelve hours):

  TOKEN=%[10]s
  curl -sH "Authorization: Bearer $TOKEN" -d '{"phone":"+12025550143","first_name":"Ana"}' http://%[2]s/v1/profiles
  curl -sH "Authorization: Bearer $TOKEN" -X POST http://%[2]s/v1/profiles/PROFILE_ID:activate
  curl -s --data-urlencode From=+12025550143 --data-urlencode 'Body=Sounds good' %[9]s/phone
  curl -sH "Authorization: Bearer $TOKEN" http://%[2]s/v1/sessions
  curl -sH "Authorization: Bearer $TOKEN" http://%[2]s/v1/sessions/SESSION_ID
  curl -sH "Authorization: Bearer $TOKEN" http://%[2]s/v1/messages
  curl -sH "Authorization: Bearer $TOKEN" -d '{"profile_id":"PROFILE_ID","goal":"call John in 2 minutes","idempotency_key":"1"}' `+
		`http://%[2]s/v1/goals
  curl -sH "Authorization: Bearer $TOKEN" -d '{"profile_id":"PROFILE_ID","name":"desk"}' http://%[2]s/v1/devices
  PACELINE_DEVICE_TOKEN=... %[15]s device --url http://%[2]s \
    --device DEVICE_ID --exec /bin/cat --state /tmp/desk --say 'in 1 minute open the door'
  grpcurl -plaintext -H "authorization: Bearer $(%[15]s token%[13]s)" %[4]s list
`,
		dir, a.Gateway, a.GatewayOps, a.Onboarding, a.OnboardingOps, a.Messaging, a.MessagingOps,
		s.vendors.QStashURL, s.vendors.TwilioURL, token, u.cluster(dir), filepath.Join(dir, environFile), u.where(), link, asCalled(os.Args[0]))
	return err
}
