package doctor

import (
	"time"

	"paceline.internal/platform/config"
)

// Keys are the keys that the deployment checks signatures with.
type Keys struct {
	PublicBaseURL             string // the origin that they are computed from
	QStashCurrent, QStashNext string // empty when there is none
	TwilioAuthTokens          []string
	// Leeway bounds the difference of clocks.
	Leeway time.Duration
}

// leeway is the difference of clocks that the gateway forgives.
const leeway = 5 * time.Second

// LoadKeys reads them as the gateway does, each from its variable or from the file that NAME_FILE names. None is required: a vendor
// without keys has signed nothing that is good.
func LoadKeys(environ map[string]string) (Keys, error) {
	var cfg struct {
		PublicBaseURL   config.Origin `env:"PUBLIC_BASE_URL,required" help:"origin by which QStash and Twilio reach the gateway; signatures are computed from it"`
		QStashCurrent   config.Secret `env:"QSTASH_CURRENT_SIGNING_KEY" help:"verifies QStash's callbacks; console.upstash.com, QStash, Signing Keys"`
		QStashNext      config.Secret `env:"QSTASH_NEXT_SIGNING_KEY" help:"the key after QSTASH_CURRENT_SIGNING_KEY"`
		TwilioAuthToken config.Secret `env:"TWILIO_AUTH_TOKEN" help:"verifies Twilio's callbacks; calls Twilio if messaging has no API key; OLD,NEW during a change"`
	}
	if err := config.Load(environ, &cfg); err != nil {
		return Keys{}, err
	}
	tokens, err := cfg.TwilioAuthToken.Keys()
	if err != nil {
		return Keys{}, &config.Problem{Variable: "TWILIO_AUTH_TOKEN", Reason: err.Error()}
	}
	return Keys{
		PublicBaseURL: cfg.PublicBaseURL.String(), QStashCurrent: cfg.QStashCurrent.Reveal(), QStashNext: cfg.QStashNext.Reveal(),
		TwilioAuthTokens: tokens, Leeway: leeway,
	}, nil
}
