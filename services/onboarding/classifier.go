package onboarding

import (
	"strings"

	"github.com/google/uuid"

	"paceline.internal/platform/config"
	"paceline.internal/services/onboarding/goals/classifier"
)

// ClassifierConfig is the model that reads when a goal is meant where the rules cannot: all of it, or nothing and no text leaves.
type ClassifierConfig struct {
	URL    string        `env:"CLASSIFIER_URL" help:"server of OpenAI's chat protocol for goals with times that the rules cannot read"`
	Model  string        `env:"CLASSIFIER_MODEL" help:"its model"`
	APIKey config.Secret `env:"CLASSIFIER_API_KEY" help:"its key"`
	Orgs   string        `env:"CLASSIFIER_ORGS" help:"ids of the organisations that may use it"`
}

// Validate reports a half configuration.
func (c *ClassifierConfig) Validate() error {
	if _, err := c.client(); err != nil {
		return &config.Problem{
			Variable: "CLASSIFIER_URL", Reason: "cannot be used: " + err.Error(),
			Help: "set CLASSIFIER_URL, CLASSIFIER_MODEL, CLASSIFIER_API_KEY and CLASSIFIER_ORGS, or none of them",
		}
	}
	return nil
}

// client is nil where no model is configured.
func (c *ClassifierConfig) client() (*classifier.Client, error) {
	if c.URL == "" && c.Model == "" && c.APIKey.IsZero() && c.Orgs == "" {
		return nil, nil //nolint:nilnil // then the rules read alone
	}
	var orgs []string
	for org := range strings.SplitSeq(c.Orgs, ",") {
		org = strings.TrimSpace(org)
		if err := uuid.Validate(org); err != nil {
			return nil, &config.Problem{Variable: "CLASSIFIER_ORGS", Reason: "must be ids of organisations, parted by commas"}
		}
		orgs = append(orgs, org)
	}
	return classifier.New(classifier.Config{URL: c.URL, Model: c.Model, APIKey: c.APIKey.Reveal(), Orgs: orgs})
}
