package outbound

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"paceline.internal/platform/hours"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sms"
)

// payload is the request as it is stored. The times are there as they were asked for and not as they were decided, so that the
// same request made again a second later is the same; only a validity that was not asked for is noted as it was promised.
type payload struct {
	To            string             `json:"to"`
	Body          string             `json:"body"`
	Purpose       Purpose            `json:"purpose"`
	ProfileID     *uuid.UUID         `json:"profile_id,omitempty"`
	SendAt        time.Time          `json:"send_at,omitzero"`
	ExpiresAt     time.Time          `json:"expires_at,omitzero"`
	ValidSeconds  int                `json:"valid_seconds,omitempty"`
	UnknownPolicy send.UnknownPolicy `json:"unknown_policy,omitempty"`
	OpenHours     *openHours         `json:"open_hours,omitempty"`
}

type openHours struct {
	Window   string `json:"window"`
	TimeZone string `json:"time_zone"`
}

// Payload is the request as it is stored.
func (r Request) Payload() (json.RawMessage, error) {
	p := payload{
		To: r.To.String(), Body: string(r.Body), Purpose: r.Purpose, SendAt: r.SendAt.UTC(), ExpiresAt: r.ExpiresAt.UTC(),
		UnknownPolicy: r.UnknownPolicy,
	}
	if r.ProfileID != uuid.Nil {
		p.ProfileID = &r.ProfileID
	}
	if !r.Hours.Window.Always() {
		p.OpenHours = &openHours{Window: r.Hours.Window.String(), TimeZone: r.Hours.Zone.String()}
	}
	if r.ExpiresAt.IsZero() {
		p.ValidSeconds = int(r.Purpose.validity().Seconds())
	}
	stored, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("payload: %w", err)
	}
	return stored, nil
}

// ReadPayload reads a stored request back, with its times as they were decided when it was stored.
func ReadPayload(stored json.RawMessage, at time.Time) (Request, error) {
	var p payload
	if err := json.Unmarshal(stored, &p); err != nil {
		return Request{}, fmt.Errorf("payload: %w", err)
	}
	to, err := sms.StoredPhone(p.To)
	if err != nil {
		return Request{}, fmt.Errorf("payload: %w", err)
	}
	r := Request{
		To: to, Body: sms.Body(p.Body), Purpose: p.Purpose, SendAt: p.SendAt, ExpiresAt: p.ExpiresAt, UnknownPolicy: p.UnknownPolicy,
	}
	if p.ProfileID != nil {
		r.ProfileID = *p.ProfileID
	}
	if p.OpenHours != nil {
		window, err := hours.ParseWindow(p.OpenHours.Window)
		if err != nil {
			return Request{}, fmt.Errorf("payload: %w", err)
		}
		zone, _ := hours.Stored(p.OpenHours.TimeZone)
		r.Hours = hours.Quiet{Window: window, Zone: zone}
	}
	asked := r.SendAt
	r.SendAt = r.Due(at).UTC()
	if asked.IsZero() {
		asked = r.SendAt
	}
	if r.ExpiresAt.IsZero() { // of one that was asked for too late, less is left
		r.ExpiresAt = asked.Add(time.Duration(p.ValidSeconds) * time.Second).UTC()
	}
	return r, nil
}
