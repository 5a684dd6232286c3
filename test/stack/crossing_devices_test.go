package stack_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
)

const (
	connectDevice = "/v1/devices/{device_id}/connect"
	unknownToken  = websocket.StatusCode(4401)
	saysHello     = `{"hello":{"client":"door 1.0"}}`
)

// stream is the WebSocket of a device; nil where the gateway refuses the token by its form.
func (b *bundle) stream(t *testing.T, deviceID, token string) *websocket.Conn {
	t.Helper()
	address := "http://" + b.config.Addresses.Gateway + strings.ReplaceAll(connectDevice, "{device_id}", deviceID)
	conn, answer, err := websocket.Dial(t.Context(), address, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + token}}})
	if err != nil {
		require.NotNil(t, answer, "%v", err)
		require.Equal(t, http.StatusUnauthorized, answer.StatusCode)
		return nil
	}
	t.Cleanup(func() { _ = conn.CloseNow() }) // most are closed already
	return conn
}

// reads is a read that does not wait for ever.
func reads(t *testing.T, conn *websocket.Conn) (text []byte, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, text, err = conn.Read(ctx)
	return text, err
}

// says sends frames.
func says(t *testing.T, conn *websocket.Conn, frames ...string) {
	t.Helper()
	for _, frame := range frames {
		require.NoError(t, conn.Write(t.Context(), websocket.MessageText, []byte(frame)))
	}
}

// hears reads frames until one is of a kind, and returns a field of it.
func hears(t *testing.T, conn *websocket.Conn, kind, field string) string {
	t.Helper()
	for {
		text, err := reads(t, conn)
		require.NoError(t, err)
		var frame map[string]map[string]any
		require.NoError(t, json.Unmarshal(text, &frame))
		if found := frame[kind]; found != nil {
			value, _ := found[field].(string)
			return value
		}
	}
}

// device registers one, and returns its id and its token.
func (b *bundle) device(t *testing.T, operator, profileID string) (id, token string) {
	t.Helper()
	status, answer := b.try(t, operator, http.MethodPost, "/v1/devices", map[string]any{"name": "Door", "kind": "stream", "profile_id": profileID})
	require.Equal(t, http.StatusCreated, status, "%s", answer)
	var made struct {
		Device struct {
			DeviceID string `json:"device_id"`
		} `json:"device"`
		Token string `json:"token"`
	}
	require.NoError(t, json.Unmarshal(answer, &made))
	return made.Device.DeviceID, made.Token
}

// runs gives a person a device that is at a goal, and returns the ids of the device and of the run.
func (b *bundle) runs(t *testing.T, p *person) (deviceID, runID string) {
	t.Helper()
	deviceID, token := b.device(t, b.operator, p.id)
	theirs := b.stream(t, deviceID, token)
	says(t, theirs, saysHello)
	hears(t, theirs, "welcome", "epoch")
	b.call(t, http.MethodPost, "/v1/goals", map[string]any{ // soon, for a leap of the clock would be a silence of the device
		"profile_id": p.id, "device_id": deviceID, "goal": "open the door", "scheduled_for": b.clock.Now().Add(5 * time.Second).Format(time.RFC3339),
		"idempotency_key": "theirs-1",
	}, nil)
	b.until(t, "the goal is offered", func() bool {
		return count(t, b.onboarding, `select count(*) from goals where device_id = $1 and offered_at is not null`, deviceID) == 1
	})
	runID = hears(t, theirs, "offer", "run_id")
	says(t, theirs, `{"acknowledge":{"run_id":"`+runID+`"}}`)
	b.until(t, "the run has begun", func() bool {
		return count(t, b.onboarding, `select count(*) from goals where device_id = $1 and status = 'running'`, deviceID) == 1
	})
	return deviceID, runID
}

// attackDevices attacks the stream of the other's device with our tokens, and the other's run through the stream of our device. It returns
// the number of attacks.
func (b *bundle) attackDevices(t *testing.T, deviceID, runID string, tokens []string) (calls int) {
	t.Helper()
	var own struct {
		Profile profileJSON `json:"profile"`
	}
	status, answer := b.try(t, tokens[0], http.MethodPost, "/v1/profiles", map[string]string{"phone": "+14155550177", "first_name": "Mallory", "locale": "en"})
	require.Equal(t, http.StatusCreated, status, "%s", answer)
	require.NoError(t, json.Unmarshal(answer, &own))
	ownID, ownToken := b.device(t, tokens[0], own.Profile.ProfileID)
	for _, token := range append(tokens, ownToken) {
		calls++
		conn := b.stream(t, deviceID, token)
		if conn == nil {
			continue
		}
		says(t, conn, saysHello)
		said, err := reads(t, conn)
		if err == nil { // the error frame, which says no more than the code
			require.Contains(t, string(said), `"error"`)
			require.NotContains(t, string(said), runID)
			_, err = reads(t, conn)
		}
		require.Equal(t, unknownToken, websocket.CloseStatus(err), "%v", err)
	}
	for _, frame := range []string{
		`{"report":{"run_id":"` + runID + `","state":"ended","ok":true}}`, `{"report":{"run_id":"` + runID + `","state":"never_saw"}}`,
		`{"acknowledge":{"run_id":"` + runID + `"}}`, `{"progress":{"run_id":"` + runID + `"}}`, `{"end":{"run_id":"` + runID + `","ok":true}}`,
	} {
		conn := b.stream(t, ownID, ownToken)
		says(t, conn, saysHello)
		hears(t, conn, "welcome", "epoch")
		// What is said on our stream behind the frame is answered behind it, or the stream was closed for it.
		_ = conn.Write(t.Context(), websocket.MessageText, []byte(frame))
		_ = conn.Write(t.Context(), websocket.MessageText, []byte(`{"goal":{"key":"k","goal":"?"}}`))
		for {
			said, err := reads(t, conn)
			require.NotContains(t, string(said), deviceID)
			if err != nil || strings.Contains(string(said), `"goal"`) {
				break
			}
		}
		calls++
	}
	return calls
}
