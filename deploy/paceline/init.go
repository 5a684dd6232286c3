package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/term"

	"paceline.internal/deploy/stack"
	"paceline.internal/platform/config"
)

// initCommand writes what a deployment of one process needs before its first start.
type initCommand struct {
	Emulators bool   `help:"Text emulated phones: the Twilio of paceline emulators, on this machine."`
	URL       string `name:"url" help:"The origin by which Twilio reaches the gateway, such as https://sms.example.com."`
	Database  string `default:"127.0.0.1:5432" help:"Host and port of the Postgres server: HOST or HOST:PORT."`
	Folder    string `type:"path" default:"." help:"Where the files are written."`
}

// Help is the long text of --help.
func (c *initCommand) Help() string {
	return `It writes paceline.env, the environment for "paceline serve", operator.env, your own key for tokens, and databases.sql, the
statements that an administrator of Postgres runs once. Files that are there already are never changed. What it needs to know of Twilio
it asks, or takes from the variables TWILIO_ACCOUNT_SID, TWILIO_AUTH_TOKEN, TWILIO_API_KEY_SID, TWILIO_API_KEY_SECRET,
TWILIO_FROM_NUMBER, TWILIO_MESSAGING_SERVICE_SID and SMS_COUNTRIES.`
}

// The files of a deployment.
const (
	envFile      = "paceline.env"
	operatorFile = "operator.env"
	databaseFile = "databases.sql"
)

// Run writes the files.
func (c *initCommand) Run(_ context.Context, t terminal) error {
	if err := checkServer(c.Database); err != nil {
		return err
	}
	origin, vendor, err := c.vendor(t)
	if err != nil {
		return err
	}
	secrets, err := newSecrets()
	if err != nil {
		return err
	}
	passwords, err := newPasswords()
	if err != nil {
		return err
	}
	services, operator := c.settings(origin, vendor, secrets, passwords)
	environ := map[string]string{}
	for _, s := range services {
		for name, value := range s.values {
			if strings.ContainsAny(value, "'\\\n") {
				return fmt.Errorf("%s has a quote, a backslash or a line break, which no such value has", name)
			}
		}
		maps.Copy(environ, s.values)
	}
	if err := stack.Check(environ); err != nil {
		return err
	}
	if err := writeNew(c.Folder, "--folder", map[string]string{
		envFile: lines(services...), operatorFile: lines(operator), databaseFile: passwords.sql(),
	}); err != nil {
		return err
	}
	env, sql := filepath.Join(c.Folder, envFile), filepath.Join(c.Folder, databaseFile)
	start := fmt.Sprintf("set -a; . %s; set +a\n  paceline serve --migrate\nand in another shell with the same environment:", env)
	if c.Emulators {
		start += "\n  paceline emulators --qstash off\nand in a third one with it:"
	}
	if c.Folder == packageFolder {
		units := "paceline"
		if c.Emulators {
			units += " paceline-emulators"
		}
		start = fmt.Sprintf("sudo systemctl enable --now %s\n  sudo bash -c 'set -a; . %s; exec bash'\nand in that shell:", units, env)
	}
	_, err = fmt.Fprintf(t.out, `Written: %[1]s and %[2]s. Next:
  sudo cat %[2]s | sudo -u postgres psql -v ON_ERROR_STOP=1
  %[3]s
  paceline doctor
Keep %[4]s to yourself: it signs tokens for gRPC.
`, env, sql, start, filepath.Join(c.Folder, operatorFile))
	return err
}

// packageFolder is the folder that the units of the .deb read.
const packageFolder = "/etc/paceline"

// needed is a variable of Twilio's, with the words that ask for it.
type needed struct {
	variable, words string
	optional        bool
	secret          bool // is not shown while it is typed
	check           func(value string) error
}

// read reads an answer; empty for none.
func (q needed) read(from io.Reader, lines *bufio.Scanner) string {
	if typed, is := from.(*os.File); is && q.secret && term.IsTerminal(int(typed.Fd())) {
		value, _ := term.ReadPassword(int(typed.Fd())) // without an answer it is asked for below
		_, _ = fmt.Fprintln(typed)
		return strings.TrimSpace(string(value))
	}
	if lines.Scan() {
		return strings.TrimSpace(lines.Text())
	}
	return ""
}

// refuse returns the problem of a value; nil when it has none.
func (q needed) refuse(value string) error {
	switch {
	case value == "" && q.optional:
		return nil
	case value == "":
		return fmt.Errorf("%s is missing: answer the question, or set the variable", q.variable)
	case q.check != nil:
		if err := q.check(value); err != nil {
			return fmt.Errorf("%s: %w", q.variable, err)
		}
	}
	return nil
}

func begins(with string) func(string) error {
	return func(value string) error {
		if !strings.HasPrefix(value, with) {
			return fmt.Errorf("it begins with %s", with)
		}
		return nil
	}
}

var needs = []needed{
	{variable: "TWILIO_ACCOUNT_SID", words: "Account SID of Twilio", check: begins("AC")},
	{variable: "TWILIO_AUTH_TOKEN", words: "Its auth token", secret: true},
	{
		variable: "TWILIO_MESSAGING_SERVICE_SID", words: "Messaging Service to send from, MG..., or empty for a number", optional: true,
		check: begins("MG"),
	},
	{variable: "TWILIO_FROM_NUMBER", words: "Number to send from, such as +14155550123", optional: true, check: begins("+")},
	{variable: "SMS_COUNTRIES", words: "Countries that you text, such as US,BR"},
}

// vendor returns the origin of the gateway and the variables of Twilio.
func (c *initCommand) vendor(t terminal) (origin string, vendor map[string]string, err error) {
	if c.Emulators {
		vendor = stack.Credentials()
		for variable := range vendor {
			if strings.HasPrefix(variable, "QSTASH_") {
				delete(vendor, variable)
			}
		}
		vendor["TWILIO_API_URL"], vendor["CONSOLE_HANDSETS_URL"], vendor["SMS_COUNTRIES"] = usualTwilioURL, usualTwilioURL, "US,BR"
		return cmp.Or(c.URL, "http://127.0.0.1:8080"), vendor, nil
	}
	lines := bufio.NewScanner(cmp.Or[io.Reader](t.in, strings.NewReader("")))
	ask := func(q needed) (string, error) {
		value := t.environ[q.variable]
		if value == "" {
			_, _ = fmt.Fprintf(t.out, "%s: ", q.words)
			value = q.read(t.in, lines)
		}
		return value, q.refuse(value)
	}
	if origin = c.URL; origin == "" {
		if origin, err = ask(needed{
			variable: "PUBLIC_BASE_URL", words: "Origin by which Twilio reaches the gateway, such as https://sms.example.com",
		}); err != nil {
			return "", nil, err
		}
	}
	vendor = map[string]string{}
	for _, q := range needs {
		if q.variable == "TWILIO_FROM_NUMBER" && vendor["TWILIO_MESSAGING_SERVICE_SID"] != "" {
			continue
		}
		if vendor[q.variable], err = ask(q); err != nil {
			return "", nil, err
		}
	}
	for _, optional := range []string{"TWILIO_API_KEY_SID", "TWILIO_API_KEY_SECRET"} {
		vendor[optional] = t.environ[optional]
	}
	if vendor["TWILIO_MESSAGING_SERVICE_SID"] == "" && vendor["TWILIO_FROM_NUMBER"] == "" {
		return "", nil, errors.New("neither a Messaging Service nor a number was named: one of them sends every text")
	}
	parsed, err := config.ParseOrigin(origin)
	if err != nil {
		return "", nil, fmt.Errorf("PUBLIC_BASE_URL %w", err)
	}
	return parsed.String(), vendor, nil
}

// passwords holds the passwords of the logins, by role.
type passwords map[string]string

func newPasswords() (passwords, error) {
	p := passwords{}
	for _, role := range []string{"onboarding", "onboarding_serve", "messaging", "messaging_serve", "console"} {
		var random [32]byte
		if _, err := rand.Read(random[:]); err != nil {
			return nil, fmt.Errorf("make secrets: %w", err)
		}
		p[role] = hex.EncodeToString(random[:])
	}
	return p, nil
}

// sql makes both databases, as docs/deploy.md has them.
func (p passwords) sql() string {
	var text strings.Builder
	text.WriteString("-- Run once by an administrator of Postgres. It has passwords: keep it as you keep paceline.env, or remove it.\n")
	for _, name := range []string{"onboarding", "messaging"} {
		fmt.Fprintf(&text, `create role %[1]s login nosuperuser nocreatedb nocreaterole password '%[2]s';
create role %[1]s_serve login nosuperuser nocreatedb nocreaterole password '%[3]s';
create role %[1]s_tenant nologin;
create role %[1]s_worker nologin;
grant %[1]s_tenant, %[1]s_worker to %[1]s, %[1]s_serve;
create database %[1]s owner %[1]s template template0 encoding 'UTF8';
revoke all on database %[1]s from public;
grant connect on database %[1]s to %[1]s_serve;
`, name, p[name], p[name+"_serve"])
	}
	return text.String()
}
