package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// client speaks to /v1 like any other program would.
type client struct {
	base  string
	token string
	http  *http.Client
}

// The shapes of /v1, as far as the command reads them.
type (
	profileView struct {
		ProfileID string `json:"profile_id"`
	}
	sessionView struct {
		SessionID  string `json:"session_id"`
		Mode       string `json:"mode"`
		StateToken string `json:"state_token"`
		Status     string `json:"status"`
	}
	entryView struct {
		At           time.Time `json:"at"`
		Kind         string    `json:"kind"`
		ToStateToken string    `json:"to_state_token"`
		StepID       string    `json:"step_id"`
		MessageID    string    `json:"message_id"`
		Detail       string    `json:"detail"`
	}
	messageView struct {
		MessageID      string `json:"message_id"`
		Direction      string `json:"direction"`
		Body           string `json:"body"`
		Status         string `json:"status"`
		TwilioSID      string `json:"twilio_sid"`
		IdempotencyKey string `json:"idempotency_key"`
	}
)

func (c *client) enrol(ctx context.Context, phone, firstName, locale string) (profileView, error) {
	var answer struct{ Profile profileView }
	err := c.call(ctx, http.MethodPost, "/v1/profiles", map[string]string{
		"phone": phone, "first_name": firstName, "locale": locale,
	}, &answer)
	return answer.Profile, err
}

func (c *client) activate(ctx context.Context, profileID string) (sessionView, error) {
	var answer struct{ Session sessionView }
	err := c.call(ctx, http.MethodPost, "/v1/profiles/"+profileID+":activate", struct{}{}, &answer)
	return answer.Session, err
}

func (c *client) session(ctx context.Context, sessionID string) (sessionView, []entryView, error) {
	var answer struct {
		Session  sessionView
		Timeline []entryView
	}
	err := c.call(ctx, http.MethodGet, "/v1/sessions/"+sessionID, nil, &answer)
	return answer.Session, answer.Timeline, err
}

func (c *client) message(ctx context.Context, messageID string) (messageView, error) {
	var answer struct{ Message messageView }
	err := c.call(ctx, http.MethodGet, "/v1/messages/"+messageID, nil, &answer)
	return answer.Message, err
}

func (c *client) messages(ctx context.Context, profileID string) ([]messageView, error) {
	var answer struct{ Messages []messageView }
	err := c.call(ctx, http.MethodGet, "/v1/messages?page_size=500&profile_id="+url.QueryEscape(profileID), nil, &answer)
	return answer.Messages, err
}

// maxAnswer bounds what is read of an answer.
const maxAnswer = 4 << 20

func (c *client) call(ctx context.Context, method, path string, in, out any) (err error) {
	var body io.Reader
	if in != nil {
		encoded, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	request.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s: %s", method, path, response.Status, answer)
	}
	return json.Unmarshal(answer, out)
}
