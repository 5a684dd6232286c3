package docs_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/e2e"
	"paceline.internal/gateway"
	"paceline.internal/platform/config"
	"paceline.internal/services/messaging"
	"paceline.internal/services/onboarding"
)

var update = flag.Bool("update", false, "write the page that the test holds: docs/configuration.md, docs/flows.md")

func TestEnvironmentContract(t *testing.T) {
	t.Parallel()
	path := filepath.Join(root, "docs", "configuration.md")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(environment()), 0o600))
	}
	require.Equal(t, environment(), read(t, "docs/configuration.md"), "run: make environment")
}

// environment is docs/configuration.md as the services' config structs have it.
func environment() string {
	var out strings.Builder
	out.WriteString(`# Configuration

For the operator: what each process reads, generated from its config struct by ` + "`make environment`" + `. Empty means absent. Everything that is
missing or malformed is reported at once, and the process does not start. Secrets never appear in a log or an error.

Each secret may be given as a file instead: ` + "`NAME_FILE`" + ` names one whose content is the value of ` + "`NAME`" + `, such as
` + "`SERVICE_PUBLIC_KEYS_FILE=/run/secrets/service_public_keys`" + `. Setting both is an error. It is read once, at the start.

| variable | read by | default | meaning |
|---|---|---|---|
`)
	for _, v := range variables() {
		fallback := "none"
		switch {
		case v.Required:
			fallback = "**required**"
		case v.Default != "":
			fallback = "`" + v.Default + "`"
		}
		name := "`" + v.Name + "`"
		if v.Secret {
			name += " (secret)"
		}
		fmt.Fprintf(&out, "| %s | %s | %s | %s |\n", name, strings.Join(v.readers, ", "), fallback, v.Help)
	}
	out.WriteString(`
## At the vendors

- Twilio, on the number or the messaging service: a message comes in, POST to
  ` + "`PUBLIC_BASE_URL/api/webhooks/twilio/inbound#rt=4000&rc=3&rp=all`" + `. Without it no reply ever arrives. Receipts need no setting:
  every text names its own callback.
- QStash needs no setting: every alarm names its route. Take the token and both signing keys of one region.

## Making secrets and databases

` + "`openssl rand -hex 32`" + ` makes API_JWT_SECRET; [the keys of the processes](deploy.md#keys) are made by hand. A token of /v1
names sub, org_id, exp, and as its role operator, app or user ([who may do what](engagement.md#for-the-host-application)). It lives at most
31 days (exp - iat, or from now without iat), one for gRPC at most 24 hours. Each service
needs [a database of its own](deploy.md#a-database-of-your-own). Which file each variable goes into, on one machine:
[deploy](deploy.md#one-machine). Run
` + "`migrate`" + ` of the new binary before its ` + "`serve`" + `; until then ` + "`/readyz`" + ` says no, and why.
`)
	out.WriteString(`
` + "`paceline demo`" + ` reads no settings of a deployment. ` + "`paceline up`" + ` takes only ` + "`ONBOARDING_COPY_DIR`, `ONBOARDING_FLOW_FILE`, `ENGAGEMENT_FILE`, " +
		"`ENGAGEMENT_COPY_DIR` and `GOAL_WORDS_FILE`" + `, and with ` + "`--environment-databases`" + ` the two database URLs. Both read ` + "`PGBIN`" + `, the folder of PostgreSQL's server programs.

The other commands (` + "`token`, `events`, `listen`, `why`, `profiles`, `device`, `console`, `doctor`, `e2e`" + `) speak to the deployment of the
environment: its gateway is ` + "`PUBLIC_BASE_URL`" + `, and a token for it is ` + "`PACELINE_API_TOKEN`" + ` or signed with ` + "`API_JWT_SECRET`" + `. ` + "`--data`" + ` names the folder of a
` + "`paceline up`" + ` instead. With neither, it is the ` + "`paceline up`" + ` of this user.
`)
	return out.String()
}

// variable is a variable and the services that read it.
type variable struct {
	config.Variable

	readers []string
}

// variables are those of all services in the order in which they are first met. A service that listens on an address
// describes it better than one that dials it, and messaging describes its own sender.
func variables() []variable {
	var all []variable
	for _, service := range []struct {
		name string
		own  []config.Variable
	}{
		{"onboarding", config.Describe[onboarding.Config]()},
		{"messaging", config.Describe[messaging.Config]()},
		{"gateway", config.Describe[gateway.Config]()},
		{"paceline e2e", config.Describe[e2e.Config]()},
	} {
		for _, v := range service.own {
			i := slices.IndexFunc(all, func(known variable) bool { return known.Name == v.Name })
			if i < 0 {
				all = append(all, variable{Variable: v, readers: []string{service.name}})
				continue
			}
			all[i].readers = append(all[i].readers, service.name)
			if strings.HasPrefix(v.Name, strings.ToUpper(service.name)) {
				all[i].Variable = v
			}
		}
	}
	return all
}
