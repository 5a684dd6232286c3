package e2e

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"paceline.internal/platform/config"
	"paceline.internal/platform/reading/languages"
	"paceline.internal/platform/rpc"
	"paceline.internal/services/onboarding/session"
)

// Mode sets who rings the alarms of the steps.
type Mode string

// The modes.
const (
	// Stub has the harness ring every alarm itself, at once, through the same signed route as QStash. The deployment's own alarms
	// come late, if at all, and find their steps done.
	Stub Mode = "stub"
	// Real leaves the alarms to the QStash that the deployment publishes to, and watches the clock.
	Real Mode = "real"
)

// UnmarshalText refuses what is no mode.
func (m *Mode) UnmarshalText(text []byte) error {
	switch mode := Mode(text); mode {
	case Stub, Real:
		*m = mode
		return nil
	}
	return errors.New("must be stub or real")
}

// Config tells the harness about a deployment: where it is, and the secrets of the two vendors it plays.
type Config struct {
	Mode          Mode          `env:"HARNESS_QSTASH_MODE,required" help:"stub: the harness rings alarms at once; real: QStash or the database does"`
	PublicBaseURL config.Origin `env:"PUBLIC_BASE_URL,required" help:"origin by which QStash and Twilio reach the gateway; signatures are computed from it"`
	URL           config.Origin `env:"HARNESS_URL" help:"where the harness reaches the gateway, if not PUBLIC_BASE_URL"`
	Phone         string        `env:"HARNESS_PHONE" envDefault:"+12025550155" help:"phone that is texted, E.164"`
	Lift          string        `env:"HARNESS_LIFT" help:"that phone again, to lift its opt-out or hold"`
	Locale        string        `env:"HARNESS_LOCALE" envDefault:"en" help:"language of the conversation, such as pt-BR"`

	FromNumber string        `env:"TWILIO_FROM_NUMBER,required" help:"number to send from, E.164"`
	AuthToken  config.Secret `env:"TWILIO_AUTH_TOKEN,required" help:"verifies Twilio's callbacks; calls Twilio if messaging has no API key; OLD,NEW during a change"`
	SigningKey config.Secret `env:"QSTASH_CURRENT_SIGNING_KEY" help:"verifies QStash's callbacks, unless ALARMS is postgres; console.upstash.com, QStash, Signing Keys"`
	FlowFile   string        `env:"ONBOARDING_FLOW_FILE" help:"flow file instead of the built-in one"`

	APIToken    config.Secret `env:"HARNESS_API_TOKEN" help:"an operator's token for /v1; this or API_JWT_SECRET"`
	JWTSecret   config.Secret `env:"API_JWT_SECRET" help:"verifies HS256 tokens of /v1, at least 32 bytes; several with commas; this or API_JWKS_URL"`
	JWTIssuer   string        `env:"API_JWT_ISSUER" help:"iss that every token must have"`
	JWTAudience string        `env:"API_JWT_AUDIENCE" help:"aud that every token must have"`
	OrgID       string        `env:"DEFAULT_ORG_ID" envDefault:"00000000-0000-7000-8000-000000000001" help:"organisation of the configured sender"`
}

// LoadConfig reads the environment and reports every problem with it at once.
func LoadConfig(environ map[string]string) (Config, error) {
	var cfg Config
	err := config.Load(environ, &cfg)
	return cfg, err
}

// Validate reports what no single variable can be blamed for.
func (c *Config) Validate() error {
	var problems []error
	if c.APIToken.IsZero() && c.JWTSecret.IsZero() {
		problems = append(problems, &config.Problem{
			Variable: "HARNESS_API_TOKEN or API_JWT_SECRET", Reason: "is missing", Help: "lets the harness use /v1; one of them",
		})
	}
	if c.Mode == Stub && c.SigningKey.IsZero() {
		problems = append(problems, &config.Problem{
			Variable: "QSTASH_CURRENT_SIGNING_KEY", Reason: "is missing",
			Help: "signs the alarms that the harness rings; or HARNESS_QSTASH_MODE=real",
		})
	}
	if known := languages.Written(); !slices.Contains(known, c.Locale) {
		problems = append(problems, &config.Problem{
			Variable: "HARNESS_LOCALE", Reason: "must be " + strings.Join(known, " or "), Help: "the language of the conversation",
		})
	}
	return errors.Join(problems...)
}

// origin returns the URL of the gateway.
func (c *Config) origin() string {
	if c.URL.IsZero() {
		return c.PublicBaseURL.String()
	}
	return c.URL.String()
}

// flow is the deployment's.
func (c *Config) flow() (session.Flow, error) {
	if c.FlowFile == "" {
		return session.DefaultFlow(), nil
	}
	content, err := os.ReadFile(c.FlowFile)
	if err != nil {
		return session.Flow{}, fmt.Errorf("ONBOARDING_FLOW_FILE: %w", err)
	}
	return session.ParseFlow(content)
}

// tokenTTL outlives the longest run.
const tokenTTL = time.Hour

// token is for /v1.
func (c *Config) token(now time.Time) (string, error) {
	if !c.APIToken.IsZero() {
		return c.APIToken.Reveal(), nil
	}
	claims := jwt.MapClaims{
		"sub": "paceline-e2e", "org_id": c.OrgID, "role": string(rpc.RoleOperator), "iat": now.Unix(), "exp": now.Add(tokenTTL).Unix(),
	}
	if c.JWTIssuer != "" {
		claims["iss"] = c.JWTIssuer
	}
	if c.JWTAudience != "" {
		claims["aud"] = c.JWTAudience
	}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(c.JWTSecret.First()))
	if err != nil {
		return "", fmt.Errorf("sign a token for /v1: %w", err)
	}
	return token, nil
}
