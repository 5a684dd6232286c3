package chaos

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"paceline.internal/deploy/stack"
	"paceline.internal/platform/postgres"
	"paceline.internal/platform/rpc"
)

// product is the vendors, secrets and databases of a population, however its services are run.
type product struct {
	vendors                   *stack.Vendors
	faults                    *vendorFaults
	secrets                   stack.Secrets
	flowFile                  string
	onboardingDB, messagingDB *pgxpool.Pool // to look at
}

// openVendors has the vendors come, who misbehave as the odds say.
func (c *population) openVendors(ctx context.Context, cfg stack.VendorConfig, o odds) (err error) {
	if c.vendors, err = stack.StartVendors(ctx, cfg); err != nil {
		return err
	}
	c.faults = newVendorFaults(o, c)
	c.vendors.QStash.SetFaults(c.faults.qstash())
	c.vendors.Twilio.SetScript(c.faults.twilio())
	return nil
}

// inboundPath is the path to which Twilio posts texts of people, with its timeout and retries.
const inboundPath = "/api/webhooks/twilio/inbound#rt=4000&rc=3&rp=all"

// connect tells people and vendors where the gateway is, and returns the environment in which the services find the rest.
func (c *population) connect(a stack.Addresses, onboarding, messaging string) (map[string]string, error) {
	c.secrets = stack.Secrets{ServiceAuth: rand.Text() + rand.Text(), APIJWT: rand.Text() + rand.Text()}
	c.api.BaseURL = "http://" + a.Gateway
	c.vendors.Twilio.SetInboundURL(c.api.BaseURL + inboundPath)
	return merged(stack.ProcessEnviron(c.vendors, a, c.secrets), map[string]string{
		"ONBOARDING_DATABASE_URL": onboarding, "MESSAGING_DATABASE_URL": messaging, "ONBOARDING_FLOW_FILE": c.flowFile,
	}), c.renewToken()
}

const day = 24 * time.Hour

// renewToken gives the operator a token from now on; none may live for months.
func (c *population) renewToken() (err error) {
	c.api.Token, err = c.secrets.APIToken("operator", stack.OrgID, rpc.RoleOperator, c.clock.Now(), 30*day)
	return err
}

// openPools opens the databases, as their owners.
func (c *population) openPools(ctx context.Context, onboarding, messaging string) error {
	var onboardingErr, messagingErr error
	c.onboardingDB, onboardingErr = postgres.Open(ctx, postgres.Config{URL: onboarding, MaxConns: 2})
	c.messagingDB, messagingErr = postgres.Open(ctx, postgres.Config{URL: messaging, MaxConns: 2})
	return errors.Join(onboardingErr, messagingErr)
}

func (c *population) closePools() {
	for _, pool := range []*pgxpool.Pool{c.onboardingDB, c.messagingDB} {
		if pool != nil {
			pool.Close()
		}
	}
}

// sqlMoving and sqlInDoubt ask whether anything will still happen by itself.
const (
	sqlMoving = `
select exists (select from webhook_jobs where status in ('pending', 'processing'))
    or exists (select from step_alarms where published_at is null)
    or exists (select from engagement_outreach where status in ('pending', 'processing'))
    or exists (select from engagement_runs where status = 'running')
    or exists (select from conversation_sessions s join profiles p on p.id = s.profile_id
               where s.status = 'active' and s.next_step_id is not null and not p.hold)`
	sqlInDoubt = `select exists (select from sms_messages where status in ('sending', 'unknown'))`
)

// moving reports whether anything will still happen by itself.
func (c *population) moving(ctx context.Context) (bool, error) {
	var moves, inDoubt bool
	err := errors.Join(c.onboardingDB.QueryRow(ctx, sqlMoving).Scan(&moves), c.messagingDB.QueryRow(ctx, sqlInDoubt).Scan(&inDoubt))
	return moves || inDoubt, err
}
