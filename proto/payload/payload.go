// Package payload reads the body of an alarm: what onboarding publishes and QStash brings back to the gateway. Its shape is a
// contract like the protos, and is read here and nowhere else; what its values may be is onboarding's to say.
package payload

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"unicode/utf8"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// Whole is the name of the whole payload among the issues.
const Whole = "payload"

// DecodeStep reads a step payload: the five fields, each exactly once, and nothing before, between or after them. Issues
// are the faults, by field, and nil when nothing is.
func DecodeStep(body []byte) (step *onboardingv1.ExecuteStepRequest, issues map[string]string) {
	step = new(onboardingv1.ExecuteStepRequest)
	if issues := decode(body, map[string]*string{
		"profile_id":           &step.ProfileId,
		"session_id":           &step.SessionId,
		"step_id":              &step.StepId,
		"expected_state_token": &step.ExpectedStateToken,
		"idempotency_key":      &step.IdempotencyKey,
	}); issues != nil {
		return nil, issues
	}
	return step, nil
}

// DecodeGoal reads the payload of a goal's alarm: its id and nothing else, as DecodeStep.
func DecodeGoal(body []byte) (goal *onboardingv1.ExecuteGoalRequest, issues map[string]string) {
	goal = new(onboardingv1.ExecuteGoalRequest)
	if issues := decode(body, map[string]*string{"goal_id": &goal.GoalId}); issues != nil {
		return nil, issues
	}
	return goal, nil
}

// decode reads an object of text fields, each of which has to be there once.
func decode(body []byte, fields map[string]*string) (issues map[string]string) {
	if !json.Valid(body) || !utf8.Valid(body) {
		return map[string]string{Whole: "is not one JSON value in UTF-8"}
	}
	// encoding/json would take a field twice and in any case, so the object is read token by token.
	decoder := json.NewDecoder(bytes.NewReader(body))
	if opening, err := decoder.Token(); err != nil || opening != json.Delim('{') {
		return map[string]string{Whole: "is not a JSON object"}
	}
	issues, seen := map[string]string{}, map[string]bool{}
	for decoder.More() {
		name, err := decoder.Token()
		var value any
		if err = errors.Join(err, decoder.Decode(&value)); err != nil { // valid JSON has no such place
			return map[string]string{Whole: "cannot be read"}
		}
		readField(name, value, fields, seen, issues)
	}
	if _, err := decoder.Token(); err != nil {
		return map[string]string{Whole: "cannot be read"}
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return map[string]string{Whole: "is followed by something"}
	}
	for name := range fields {
		if !seen[name] {
			issues[name] = "is missing"
		}
	}
	if len(issues) > 0 {
		return issues
	}
	return nil
}

// readField puts one field into its place, or says what is wrong with it.
func readField(name json.Token, value any, fields map[string]*string, seen map[string]bool, issues map[string]string) {
	field, _ := name.(string)
	target, known := fields[field]
	text, isText := value.(string)
	switch {
	case !known:
		issues[Whole] = "has a field that does not belong there"
	case seen[field]:
		issues[field] = "is there more than once"
	case !isText:
		issues[field] = "is not text"
	case text == "":
		issues[field] = "is empty"
	default:
		*target = text
	}
	seen[field] = true
}
