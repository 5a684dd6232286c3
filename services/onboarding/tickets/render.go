package tickets

import (
	"context"
	"regexp"
	"strings"

	"paceline.internal/platform/letters"
	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/people"
)

// placeholder is a value in a saved reply with its fallback, as in the texts of flows: {first_name|there}.
var placeholder = regexp.MustCompile(`\{([a-z_][a-z0-9_]*)(?:\|([^{}|]*))?\}`)

// person reads who a saved reply is for.
type person interface {
	Profile(ctx context.Context, orgID, profileID string) (people.Profile, error)
	// Fields returns what flows have learnt of a person, as JSON has it.
	Fields(ctx context.Context, orgID, profileID string) (map[string]any, error)
}

// values returns what placeholders stand for. people.ErrNoProfile.
func values(ctx context.Context, of person, orgID, profileID string) (map[string]string, error) {
	p, err := of.Profile(ctx, orgID, profileID)
	if err != nil {
		return nil, err
	}
	fields, err := of.Fields(ctx, orgID, profileID)
	if err != nil {
		return nil, err
	}
	known := map[string]string{}
	for name, value := range fields {
		switch v := value.(type) {
		case string:
			known[name] = v
		case float64:
			known[name], _ = flow.Figures(v) // one that is too long is as good as none
		}
	}
	known["first_name"] = catalog.ReadableName(p.FirstName)
	return known, nil
}

// render fills the placeholders of a saved reply in. One without a value is its fallback.
func render(body string, known map[string]string) string {
	return placeholder.ReplaceAllStringFunc(body, func(match string) string {
		parts := placeholder.FindStringSubmatch(match)
		if value := strings.TrimSpace(known[parts[1]]); letters.Visible(value) {
			return value
		}
		return parts[2]
	})
}

// checkPlaceholders returns what is wrong with the placeholders of a saved reply; empty when nothing is.
func checkPlaceholders(body string) string {
	for _, match := range placeholder.FindAllStringSubmatch(body, -1) {
		if !letters.Visible(match[2]) {
			return "has no fallback in " + match[0] + ": write it as {" + match[1] + "|...}"
		}
	}
	if strings.ContainsAny(placeholder.ReplaceAllString(body, ""), "{}") {
		return "has a brace that is no placeholder such as {first_name|there}"
	}
	return ""
}

func tooLong(text string) bool { return letters.Units(text) > maxBody }
