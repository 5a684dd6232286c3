package gateway

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"paceline.internal/gateway/console/signin"
	"paceline.internal/gateway/route"
	"paceline.internal/platform/config"
	"paceline.internal/platform/qstash"
	"paceline.internal/platform/rpc"
	"paceline.internal/platform/telemetry"
)

// Config is the environment of the gateway.
type Config struct {
	Addr           config.Addr   `env:"GATEWAY_ADDR" envDefault:":8080" help:"public HTTP port"`
	OpsAddr        config.Addr   `env:"GATEWAY_OPS_ADDR" envDefault:":9100" help:"metrics, health and profiles; not for the internet"`
	OnboardingAddr config.Addr   `env:"ONBOARDING_ADDR" envDefault:":9001" help:"onboarding's gRPC address; on another machine name its host"`
	MessagingAddr  config.Addr   `env:"MESSAGING_ADDR" envDefault:":9002" help:"messaging's gRPC address; on another machine name its host"`
	PublicBaseURL  config.Origin `env:"PUBLIC_BASE_URL,required" help:"origin by which QStash and Twilio reach the gateway; signatures are computed from it"`

	Alarms            string        `env:"ALARMS" envDefault:"qstash" help:"who rings alarms: qstash, postgres (onboarding's database), or qstash,postgres: the database while QStash does not"`
	QStashCurrentKey  config.Secret `env:"QSTASH_CURRENT_SIGNING_KEY" help:"verifies QStash's callbacks, unless ALARMS is postgres; console.upstash.com, QStash, Signing Keys"`
	QStashNextKey     config.Secret `env:"QSTASH_NEXT_SIGNING_KEY" help:"the key after QSTASH_CURRENT_SIGNING_KEY"`
	TwilioAuthToken   config.Secret `env:"TWILIO_AUTH_TOKEN,required" help:"verifies Twilio's callbacks; calls Twilio if messaging has no API key; OLD,NEW during a change"`
	SigningKey        config.Secret `env:"GATEWAY_SIGNING_KEY" help:"signs the gateway's calls: Ed25519 private key, PKCS #8"`
	ServiceAuthSecret config.Secret `env:"SERVICE_AUTH_SECRET" help:"shared secret of earlier releases; leave it out once every process has keys"`

	// A vendor without a secret is not served: its route answers 404.
	KapsoSecret        config.Secret `env:"KAPSO_WEBHOOK_SECRET" help:"verifies Kapso's webhooks (WhatsApp): SECRET for all organisations, ORG_ID=SECRET for one; several with commas; none turns the route off"`
	KapsoPhoneNumberID string        `env:"KAPSO_PHONE_NUMBER_ID" help:"WhatsApp numbers served: ID for DEFAULT_ORG_ID, ID=ORG_ID for another; empty: all for DEFAULT_ORG_ID"`
	ShopifySecret      config.Secret `env:"SHOPIFY_WEBHOOK_SECRET" help:"verifies Shopify's webhooks: as KAPSO_WEBHOOK_SECRET"`
	ShopifyShops       string        `env:"SHOPIFY_SHOPS" help:"shops served, by myshopify.com name: SHOP for DEFAULT_ORG_ID, SHOP=ORG_ID for another; empty: all for DEFAULT_ORG_ID"`

	// These decide which tokens may use /v1. With both, HS256 is verified with the secret and every other method with the keys.
	JWTSecret config.Secret `env:"API_JWT_SECRET" help:"verifies HS256 tokens of /v1, at least 32 bytes; several with commas; this or API_JWKS_URL"`
	JWKSURL   string        `env:"API_JWKS_URL" help:"public keys of RSA, ECDSA and Ed25519 tokens of /v1"`
	// JWKSPlatform is off, as an issuer may let the administrators of one organisation choose the roles of its people.
	JWKSPlatform string `env:"API_JWKS_PLATFORM" envDefault:"off" help:"on lets tokens of API_JWKS_URL have the role platform"`
	JWTIssuer    string `env:"API_JWT_ISSUER" help:"iss that every token must have"`
	JWTAudience  string `env:"API_JWT_AUDIENCE" help:"aud that every token must have"`

	CORSOrigins []config.Origin `env:"CORS_ORIGINS" help:"origins of pages that may call /v1 from a browser"`

	// In requests a second and how many at once, of each process by itself.
	RateOrg   Rate `env:"API_RATE_ORG" envDefault:"1000:10000" help:"requests a second of an organisation at each gateway, and at once; 0 for no limit"`
	RateToken Rate `env:"API_RATE_TOKEN" envDefault:"500:5000" help:"the same for a role and sub"`

	TrustedProxies []config.Network `env:"TRUSTED_PROXIES" help:"networks of proxies whose X-Forwarded-For is believed"`

	Console          string        `env:"CONSOLE" envDefault:"off" help:"on serves the console at /console"`
	ConsoleKey       config.Secret `env:"CONSOLE_KEY" help:"seals the console's cookies: 32 bytes in base64 or hexadecimal; several with commas, the first seals"`
	OIDCIssuer       string        `env:"OIDC_ISSUER" help:"OpenID Connect provider of the console"`
	OIDCClientID     string        `env:"OIDC_CLIENT_ID" help:"its client; the redirect URI is PUBLIC_BASE_URL/console/sign-in/callback"`
	OIDCClientSecret config.Secret `env:"OIDC_CLIENT_SECRET" help:"its secret"`
	OIDCOrgClaim     string        `env:"OIDC_ORG_CLAIM" help:"claim with the organisation's UUID"`
	OIDCRoleClaim    string        `env:"OIDC_ROLE_CLAIM" help:"claim that is or contains operator"`

	// ConsoleLinks lets the console take links that sign in once. No variable sets it: only paceline up does.
	ConsoleLinks bool

	// The page does not exist without it, and it is refused at a public origin (docs/adr/0043).
	HandsetsURL config.Origin `env:"CONSOLE_HANDSETS_URL" help:"origin of the emulated Twilio, for /console/handsets"`
	// DefaultOrgID has the number that the emulated phones text, so its operators alone have them.
	DefaultOrgID string `env:"DEFAULT_ORG_ID" envDefault:"00000000-0000-7000-8000-000000000001" help:"organisation of the configured sender"`

	TLS       rpc.TLSFiles
	Telemetry telemetry.Config
}

// LoadConfig reads the environment and reports every problem with it at once.
func LoadConfig(environ map[string]string) (Config, error) {
	var cfg Config
	err := config.Load(environ, &cfg)
	return cfg, err
}

// Validate reports problems of several variables together, and keys that are too short to sign with.
func (c *Config) Validate() error {
	var problems []error
	if c.JWTSecret.IsZero() && c.JWKSURL == "" {
		problems = append(problems, &config.Problem{
			Variable: "API_JWT_SECRET or API_JWKS_URL", Reason: "is missing", Help: "verifies the tokens of /v1; at least one of them",
		})
	}
	if !c.JWTSecret.IsZero() {
		problems = append(problems, rpc.CheckSecret("API_JWT_SECRET", c.JWTSecret))
	}
	if c.JWKSPlatform != "on" && c.JWKSPlatform != "off" {
		problems = append(problems, &config.Problem{
			Variable: "API_JWKS_PLATFORM", Reason: "must be on or off", Help: "on lets tokens of API_JWKS_URL have the role platform",
		})
	}
	problems = append(problems, c.keys().CheckSigning())
	problems = append(problems, c.qstashKeys()...)
	problems = append(problems, c.publishedKeys()...)
	for _, secrets := range []struct {
		variable string
		value    config.Secret
	}{{"KAPSO_WEBHOOK_SECRET", c.KapsoSecret}, {"SHOPIFY_WEBHOOK_SECRET", c.ShopifySecret}} {
		if _, err := route.NewKeys(secrets.value); err != nil {
			problems = append(problems, &config.Problem{
				Variable: secrets.variable, Reason: err.Error(), Help: "verifies webhooks; SECRET or ORG_ID=SECRET, several separated by commas",
			})
		}
	}
	if _, err := route.ReadOwners(c.KapsoPhoneNumberID); err != nil {
		problems = append(problems, &config.Problem{
			Variable: "KAPSO_PHONE_NUMBER_ID", Reason: err.Error(), Help: "the WhatsApp numbers that are served, such as 123=ORG_ID,456=ORG_ID",
		})
	}
	if _, err := route.ReadOwners(c.ShopifyShops); err != nil {
		problems = append(problems, &config.Problem{
			Variable: "SHOPIFY_SHOPS", Reason: err.Error(), Help: "the shops that are served, such as a.myshopify.com=ORG_ID,b.myshopify.com=ORG_ID",
		})
	}
	if u, err := url.Parse(c.JWKSURL); c.JWKSURL != "" && (err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "") {
		problems = append(problems, &config.Problem{
			Variable: "API_JWKS_URL", Reason: "must be an http or https URL", Help: "public keys that verify tokens of /v1",
		})
	}
	return errors.Join(append(append(problems, c.handsets()), c.console()...)...)
}

// keys returns the keys that sign the gateway's calls. It believes none, for no process calls it.
func (c *Config) keys() rpc.Keys {
	return rpc.Keys{Process: rpc.Gateway, Signing: c.SigningKey, Shared: c.ServiceAuthSecret}
}

// takesQStash reports whether QStash's callbacks are taken. After a change to ALARMS=postgres the keys stay until the last alarm has come.
func (c *Config) takesQStash() bool {
	return c.Alarms != "postgres" || !c.QStashCurrentKey.IsZero() || !c.QStashNextKey.IsZero()
}

// qstashKeys reports the keys that are missing.
func (c *Config) qstashKeys() (problems []error) {
	for _, key := range []struct {
		variable string
		value    config.Secret
	}{{"QSTASH_CURRENT_SIGNING_KEY", c.QStashCurrentKey}, {"QSTASH_NEXT_SIGNING_KEY", c.QStashNextKey}} {
		if key.value.IsZero() && c.takesQStash() {
			problems = append(problems, &config.Problem{
				Variable: key.variable, Reason: "is missing",
				Help: "verifies QStash's callbacks; console.upstash.com, QStash, Signing Keys; or ALARMS=postgres, which needs no QStash",
			})
		}
	}
	return problems
}

// console reports what its pages cannot be served with.
func (c *Config) console() (problems []error) {
	problem := func(variable, reason, help string) {
		problems = append(problems, &config.Problem{Variable: variable, Reason: reason, Help: help})
	}
	if c.Console != "on" && c.Console != "off" {
		problem("CONSOLE", "must be on or off", "on serves the console at /console")
	}
	if c.Console != "on" {
		return problems
	}
	if err := signin.CheckKey(c.ConsoleKey); err != nil {
		problem("CONSOLE_KEY", err.Error(), "seals the console's cookies; openssl rand -hex 32")
	}
	if c.PublicBaseURL.Public() && strings.HasPrefix(c.PublicBaseURL.String(), "http:") {
		problem("CONSOLE", "is on, and PUBLIC_BASE_URL is a public origin without TLS",
			"its cookies would cross the internet in the open; use https")
	}
	provider := c.provider()
	whole := provider.Issuer != "" && provider.ClientID != "" && !provider.ClientSecret.IsZero() &&
		provider.OrgClaim != "" && provider.RoleClaim != ""
	if provider != (signin.OIDC{}) && !whole {
		problem("OIDC_ISSUER, OIDC_CLIENT_ID, OIDC_CLIENT_SECRET, OIDC_ORG_CLAIM and OIDC_ROLE_CLAIM", "are not all set",
			"set all of them, or none")
	}
	if issuer, err := url.Parse(c.OIDCIssuer); c.OIDCIssuer != "" && (err != nil || issuer.Host == "" || !private(issuer)) {
		problem("OIDC_ISSUER", "must be an https URL, or an http one in a private network", "whom the console believes who a person is")
	}
	return problems
}

// private reports whether no host on the way can change what a URL is answered: by https, or because no way leads through the internet.
func private(u *url.URL) bool {
	origin, err := config.ParseOrigin(u.Scheme + "://" + u.Host)
	return err == nil && (u.Scheme == "https" || !origin.Public())
}

// provider is the provider of OpenID Connect that people sign in with; the zero value is none.
func (c *Config) provider() signin.OIDC {
	return signin.OIDC{
		Issuer: c.OIDCIssuer, ClientID: c.OIDCClientID, ClientSecret: c.OIDCClientSecret, OrgClaim: c.OIDCOrgClaim, RoleClaim: c.OIDCRoleClaim,
	}
}

// handsets refuses the emulators' phones where real people's messages may go.
func (c *Config) handsets() error {
	if c.HandsetsURL.IsZero() || !c.PublicBaseURL.Public() {
		return nil
	}
	return &config.Problem{
		Variable: "CONSOLE_HANDSETS_URL", Reason: "is set, and PUBLIC_BASE_URL is a public origin",
		Help: "leave it out where Twilio is real; it is the origin of an emulated one, such as http://emulators:8082",
	}
}

// publishedTwilioToken is the auth token of the emulators' account, which deploy/compose/secrets.sh writes.
const publishedTwilioToken = "0123456789abcdef0123456789abcdef"

// publishedKeys refuses the keys of the emulators, which are public, at a public origin.
func (c *Config) publishedKeys() (problems []error) {
	if !c.PublicBaseURL.Public() {
		return nil
	}
	for _, key := range []struct {
		variable  string
		value     config.Secret
		published []string
	}{
		{"QSTASH_CURRENT_SIGNING_KEY", c.QStashCurrentKey, []string{qstash.PublishedCurrentKey, qstash.PublishedNextKey}},
		{"QSTASH_NEXT_SIGNING_KEY", c.QStashNextKey, []string{qstash.PublishedCurrentKey, qstash.PublishedNextKey}},
		{"TWILIO_AUTH_TOKEN", c.TwilioAuthToken, []string{publishedTwilioToken}},
	} {
		values, _ := key.value.Keys() // a malformed one is reported as another problem
		if slices.ContainsFunc(values, func(value string) bool { return slices.Contains(key.published, value) }) {
			problems = append(problems, &config.Problem{
				Variable: key.variable, Reason: "is a published key of the emulators, and PUBLIC_BASE_URL is a public origin",
				Help: "use the key of your own account; the emulators' are for an origin on this machine or in a private network",
			})
		}
	}
	return problems
}
