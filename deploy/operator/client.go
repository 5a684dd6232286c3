// Package operator is a client of /v1 for programs of an operator.
package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Client calls one deployment.
type Client struct {
	BaseURL string // its origin
	Token   string // of an operator
	HTTP    *http.Client
}

// Profile is a person.
type Profile struct {
	ProfileID string `json:"profile_id"`
	Hold      bool   `json:"hold"`
}

// Session is one conversation.
type Session struct {
	SessionID  string `json:"session_id"`
	Mode       string `json:"mode"`
	StateToken string `json:"state_token"`
	NextStepID string `json:"next_step_id"`
	Status     string `json:"status"`
	Reason     string `json:"reason"`
}

// Entry is one line of a session's timeline.
type Entry struct {
	At           time.Time `json:"at"`
	Kind         string    `json:"kind"`
	ToStateToken string    `json:"to_state_token"`
	StepID       string    `json:"step_id"`
	MessageID    string    `json:"message_id"`
	Detail       string    `json:"detail"`
}

// Message is a message in either direction.
type Message struct {
	MessageID      string     `json:"message_id"`
	Direction      string     `json:"direction"`
	To             string     `json:"to"`
	Body           string     `json:"body"`
	Status         string     `json:"status"`
	TwilioSID      string     `json:"twilio_sid"`
	IdempotencyKey string     `json:"idempotency_key"`
	AcceptedAt     *time.Time `json:"accepted_at"`
}

// Person is a person to be enrolled.
type Person struct {
	Phone     string `json:"phone"`
	FirstName string `json:"first_name"`
	Locale    string `json:"locale"`
	TimeZone  string `json:"time_zone,omitempty"` // by default the phone's
}

// Enrol makes a profile, or finds the one that the phone has.
func (c *Client) Enrol(ctx context.Context, p Person) (Profile, error) {
	var answer struct{ Profile Profile }
	err := c.Call(ctx, http.MethodPost, "/v1/profiles", p, &answer)
	return answer.Profile, err
}

// Activate opens a session.
func (c *Client) Activate(ctx context.Context, profileID string) (Session, error) {
	var answer struct{ Session Session }
	err := c.Call(ctx, http.MethodPost, "/v1/profiles/"+profileID+":activate", struct{}{}, &answer)
	return answer.Session, err
}

// Hold puts a person on hold.
func (c *Client) Hold(ctx context.Context, profileID string) error {
	return c.Call(ctx, http.MethodPost, "/v1/profiles/"+profileID+":hold", struct{}{}, nil)
}

// Release releases the hold of a profile.
func (c *Client) Release(ctx context.Context, profileID string) error {
	return c.Call(ctx, http.MethodPost, "/v1/profiles/"+profileID+":release", struct{}{}, nil)
}

// Session reads a session with its timeline.
func (c *Client) Session(ctx context.Context, sessionID string) (Session, []Entry, error) {
	var answer struct {
		Session  Session
		Timeline []Entry
	}
	err := c.Call(ctx, http.MethodGet, "/v1/sessions/"+sessionID, nil, &answer)
	return answer.Session, answer.Timeline, err
}

// Sessions lists the sessions of a profile.
func (c *Client) Sessions(ctx context.Context, profileID string) ([]Session, error) {
	return c.sessions(ctx, url.Values{"profile_id": {profileID}})
}

// StuckSessions wait for an operator, in the whole organisation.
func (c *Client) StuckSessions(ctx context.Context) ([]Session, error) {
	return c.sessions(ctx, url.Values{"stuck": {"true"}})
}

func (c *Client) sessions(ctx context.Context, which url.Values) ([]Session, error) {
	which.Set("page_size", "500")
	var answer struct{ Sessions []Session }
	err := c.Call(ctx, http.MethodGet, "/v1/sessions?"+which.Encode(), nil, &answer)
	return answer.Sessions, err
}

// Resume has a session that is parked go on.
func (c *Client) Resume(ctx context.Context, sessionID string) error {
	return c.Call(ctx, http.MethodPost, "/v1/sessions/"+sessionID+":resume", struct{}{}, nil)
}

// Reset closes a session.
func (c *Client) Reset(ctx context.Context, sessionID string) error {
	return c.Call(ctx, http.MethodPost, "/v1/sessions/"+sessionID+":reset", struct{}{}, nil)
}

// Message reads one message.
func (c *Client) Message(ctx context.Context, messageID string) (Message, error) {
	var answer struct{ Message Message }
	err := c.Call(ctx, http.MethodGet, "/v1/messages/"+messageID, nil, &answer)
	return answer.Message, err
}

// Messages lists the messages of a profile, at most the newest 500.
func (c *Client) Messages(ctx context.Context, profileID string) ([]Message, error) {
	return c.messages(ctx, url.Values{"profile_id": {profileID}})
}

// ParkedMessages wait for an operator's resolution, in the whole organisation.
func (c *Client) ParkedMessages(ctx context.Context) ([]Message, error) {
	return c.messages(ctx, url.Values{"status": {"parked"}})
}

// Attempt is which attempt of a message a resolution would be about.
func (c *Client) Attempt(ctx context.Context, messageID string) (int, error) {
	var answer struct{ Attempt int }
	err := c.Call(ctx, http.MethodGet, "/v1/messages/"+messageID+"/evidence", nil, &answer)
	return answer.Attempt, err
}

// Resolve records the outcome of that attempt: Twilio has it under a SID, or with an empty one does not.
func (c *Client) Resolve(ctx context.Context, messageID string, attempt int, twilioSID, reason string) error {
	resolution := map[string]any{"resolution": "RESOLUTION_NOT_SENT", "reason": reason, "attempt": attempt}
	if twilioSID != "" {
		resolution["resolution"], resolution["twilio_sid"] = "RESOLUTION_SENT", twilioSID
	}
	return c.Call(ctx, http.MethodPost, "/v1/messages/"+messageID+":resolve", resolution, nil)
}

// MessagesOfKey lists the messages with an idempotency key.
func (c *Client) MessagesOfKey(ctx context.Context, key string) ([]Message, error) {
	return c.messages(ctx, url.Values{"idempotency_key": {key}})
}

func (c *Client) messages(ctx context.Context, which url.Values) ([]Message, error) {
	which.Set("page_size", "500")
	var answer struct{ Messages []Message }
	err := c.Call(ctx, http.MethodGet, "/v1/messages?"+which.Encode(), nil, &answer)
	return answer.Messages, err
}

// QueuedTexts counts what the outbound queue has stored for a profile, in any status; 500 at the most.
func (c *Client) QueuedTexts(ctx context.Context, profileID string) (int, error) {
	var answer struct{ Texts []json.RawMessage }
	err := c.Call(ctx, http.MethodGet, "/v1/outbound?page_size=500&profile_id="+url.QueryEscape(profileID), nil, &answer)
	return len(answer.Texts), err
}

// Consent is the state of a phone: opted_in, opted_out, or empty when nothing is known.
func (c *Client) Consent(ctx context.Context, phone string) (string, error) {
	var answer struct{ Consent struct{ State string } }
	err := c.Call(ctx, http.MethodGet, "/v1/consents/"+url.PathEscape(phone), nil, &answer)
	if refused, ok := errors.AsType[*StatusError](err); ok && refused.Code == http.StatusNotFound {
		return "", nil
	}
	return answer.Consent.State, err
}

// StatusError is an answer that is no success.
type StatusError struct {
	Method, Path string
	Code         int
	Answer       string
	RetryAfter   time.Duration // zero when the answer does not say
}

// Error leaves out which phone was asked for.
func (e *StatusError) Error() string {
	path := e.Path
	if strings.HasPrefix(path, pathConsents) {
		path = pathConsents + "PHONE"
	}
	return fmt.Sprintf("%s %s: %d %s: %s", e.Method, path, e.Code, http.StatusText(e.Code), e.Answer)
}

// Transient reports whether the same call may be answered differently a little later.
func (e *StatusError) Transient() bool {
	switch e.Code {
	case http.StatusConflict, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return true
	}
	return e.Code >= http.StatusInternalServerError
}

const pathConsents = "/v1/consents/"

// maxAnswer bounds what is read of an answer.
const maxAnswer = 4 << 20

// Call is any call: in is sent as JSON unless it is nil, and the answer is read into out unless that is nil. A *StatusError when it is no
// success.
func (c *Client) Call(ctx context.Context, method, path string, in, out any) (err error) {
	var body io.Reader
	if in != nil {
		encoded, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.BaseURL+path, body)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+c.Token)
	request.Header.Set("Content-Type", "application/json")
	response, err := c.HTTP.Do(request)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusCreated {
		seconds, _ := strconv.ParseUint(response.Header.Get("Retry-After"), 10, 16) // zero when it has none
		return &StatusError{
			Method: method, Path: path, Code: response.StatusCode, Answer: string(answer), RetryAfter: time.Duration(seconds) * time.Second,
		}
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}
