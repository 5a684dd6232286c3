package main

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"paceline.internal/deploy/stack"
)

// usualTwilioURL is the address of the Twilio that paceline emulators serves.
const usualTwilioURL = "http://127.0.0.1:8082"

// setting is a group of lines of the environment file.
type setting struct {
	why    string
	values map[string]string
}

// settings returns what the services read, and apart from it the key of the operator, which they are not to have.
func (c *initCommand) settings(
	origin string, vendor map[string]string, secrets stack.Secrets, p passwords,
) (services []setting, operator setting) {
	quiet := "08:00-21:00"
	if c.Emulators {
		quiet = "off"
	}
	database := func(role, name string) string {
		return fmt.Sprintf("postgres://%s:%s@%s/%s", role, p[role], c.Database, name)
	}
	keys := secrets.Keys()
	operator = setting{"Signs the tokens of operators for gRPC (paceline token).", map[string]string{operatorKey: keys[operatorKey]}}
	delete(keys, operatorKey)
	return []setting{
		{
			"The origin by which Twilio reaches the gateway, letter by letter: signatures are computed from it. A proxy in front ends TLS.",
			map[string]string{"PUBLIC_BASE_URL": origin, "GATEWAY_ADDR": "127.0.0.1:8080"},
		},
		{"Where the parts find each other, and their metrics: on this machine alone.", stack.OneMachine()},
		{"Two databases, made by databases.sql. The MIGRATE logins own the tables, the others serve.", map[string]string{
			"ONBOARDING_DATABASE_URL":         database("onboarding_serve", "onboarding"),
			"ONBOARDING_DATABASE_MIGRATE_URL": database("onboarding", "onboarding"),
			"MESSAGING_DATABASE_URL":          database("messaging_serve", "messaging"),
			"MESSAGING_DATABASE_MIGRATE_URL":  database("messaging", "messaging"),
		}},
		{"Twilio's account and the sender of every text. Texts to other countries are refused.", vendor},
		{"The organisation of this sender. It cannot move to another cell (paceline org move).", map[string]string{
			"DEFAULT_ORG_ID": firstOrganisation,
		}},
		{"Who rings the alarms: the database. With an account of QStash: qstash, and its variables.", map[string]string{"ALARMS": "postgres"}},
		{"When conversations begin, by each person's clock; off is any hour.", map[string]string{"QUIET_HOURS_DEFAULT": quiet}},
		{"Signs the tokens of /v1, and seals the console's cookies.", map[string]string{
			"API_JWT_SECRET": secrets.APIJWT, "CONSOLE": "on", "CONSOLE_KEY": p["console"],
		}},
		{"Makes the pseudonyms of erased people. Never change it, and keep a copy with the backups.", map[string]string{
			"PSEUDONYM_KEY": secrets.Pseudonym,
		}},
		{"The keys by which the services believe each other, and you.", keys},
	}, operator
}

// namedHost matches the name of a host, or its IPv4 address.
var namedHost = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)

// checkServer refuses what cannot stand for the server in the URL of a database.
func checkServer(server string) error {
	host, port, found := server, "", false
	if i := strings.LastIndex(server, ":"); i > strings.LastIndex(server, "]") {
		host, port, found = server[:i], server[i+1:], true
	}
	number, err := strconv.ParseUint(port, 10, 16)
	usable := !found || err == nil && number > 0
	if inner, bracketed := strings.CutPrefix(host, "["); bracketed {
		inner, closed := strings.CutSuffix(inner, "]")
		address, err := netip.ParseAddr(inner)
		usable = usable && closed && err == nil && address.Is6() && address.Zone() == ""
	} else {
		usable = usable && namedHost.MatchString(host)
	}
	if !usable {
		return fmt.Errorf("--database %q names no server: write HOST or HOST:PORT, such as db.example.com:5432; an IPv6 address as [::1]:5432",
			server)
	}
	return nil
}

// operatorKey is the variable of the operator's key.
const operatorKey = "OPERATOR_SIGNING_KEY"

// lines returns a file of the environment: each line NAME='value', as a shell and systemd read it.
func lines(settings ...setting) string {
	var text strings.Builder
	text.WriteString("# docs/configuration.md lists every variable. This file has secrets: only its owner may read it.\n")
	for _, s := range settings {
		fmt.Fprintf(&text, "\n# %s\n", s.why)
		for _, name := range slices.Sorted(maps.Keys(s.values)) {
			if s.values[name] != "" {
				fmt.Fprintf(&text, "%s='%s'\n", name, s.values[name])
			}
		}
	}
	return text.String()
}
