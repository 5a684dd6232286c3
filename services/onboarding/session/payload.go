package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// ErrPayload is wrapped by the error of every refused payload. Sending it again never helps.
var ErrPayload = errors.New("step payload refused")

// StepPayload has what an alarm carries. It names a step and decides nothing: the session is read from the database.
type StepPayload struct {
	// ProfileID and SessionID are UUIDs in lower case.
	ProfileID string `json:"profile_id"`
	SessionID string `json:"session_id"`
	StepID    StepID `json:"step_id"`
	// ExpectedToken is the token that the session waited for when the alarm was set.
	ExpectedToken Token `json:"expected_state_token"`
	// IdempotencyKey is Key of the three ids.
	IdempotencyKey string `json:"idempotency_key"`
}

// NewStepPayload is the payload of a burst step's alarm.
func NewStepPayload(profileID, sessionID string, step StepID) StepPayload {
	return StepPayload{
		ProfileID:      profileID,
		SessionID:      sessionID,
		StepID:         step,
		ExpectedToken:  AwaitingBurst,
		IdempotencyKey: Key(profileID, sessionID, step),
	}
}

// Encode is the payload as it is published. It refuses what Validate refuses.
func (p StepPayload) Encode() ([]byte, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	body, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPayload, err)
	}
	return body, nil
}

// Validate refuses values that none of our payloads has. Whether the flow has the step is for the caller to ask.
func (p StepPayload) Validate() error {
	switch {
	case !isUUID(p.ProfileID):
		return fmt.Errorf("%w: profile_id is not a UUID in lower case", ErrPayload)
	case !isUUID(p.SessionID):
		return fmt.Errorf("%w: session_id is not a UUID in lower case", ErrPayload)
	case !validStepID(string(p.StepID)):
		return fmt.Errorf("%w: step_id must be 1 to 64 of a-z, 0-9 and _", ErrPayload)
	case p.IdempotencyKey != Key(p.ProfileID, p.SessionID, p.StepID):
		return fmt.Errorf("%w: idempotency_key is not that of its own fields", ErrPayload)
	}
	if _, err := ParseToken(string(p.ExpectedToken)); err != nil {
		return fmt.Errorf("%w: expected_state_token: %w", ErrPayload, err)
	}
	return nil
}

// isUUID takes the one canonical spelling only, so that equal ids are equal strings.
func isUUID(s string) bool {
	groups := strings.Split(s, "-")
	if len(s) != 36 || len(groups) != 5 {
		return false
	}
	for i, length := range []int{8, 4, 4, 4, 12} {
		if len(groups[i]) != length || strings.Trim(groups[i], "0123456789abcdef") != "" {
			return false
		}
	}
	return true
}
