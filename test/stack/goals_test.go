package stack_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// enrolDevice registers a device of a person.
func (p *person) enrolDevice(t *testing.T) (id, token string) {
	t.Helper()
	var registered struct {
		Device struct {
			ID string `json:"device_id"`
		} `json:"device"`
		Token string `json:"token"`
	}
	p.b.call(t, http.MethodPost, "/v1/devices", map[string]string{"profile_id": p.id, "name": "door"}, &registered)
	return registered.Device.ID, registered.Token
}

// TestGoalInput checks what people and devices get wrong, from the route to the tables: each is told what, a device's connection ends
// where it must, nothing is recorded, and the goal that there is stays.
func TestGoalInput(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	b := setup(t)
	p, other := b.enrol(t, "en"), b.enrol(t, "en")
	door, token := p.enrolDevice(t)
	theirs, theirToken := other.enrolDevice(t)
	goal := func(changes ...string) map[string]string {
		body := map[string]string{
			"profile_id": p.id, "device_id": door, "goal": "open the door in 20 minutes", "idempotency_key": uuid.NewString(),
		}
		for i := 0; i < len(changes); i += 2 {
			body[changes[i]] = changes[i+1]
		}
		return body
	}
	b.call(t, http.MethodPost, "/v1/goals", goal(), nil)
	at := func(d time.Duration) string { return b.clock.Now().Add(d).Format(time.RFC3339) }

	for _, tc := range []struct {
		name   string
		body   map[string]string
		status int
		reason string
		says   string
	}{
		{"NoSuchDevice", goal("device_id", uuid.NewString()), http.StatusNotFound, "DEVICE_NOT_FOUND", "device"},
		{"DeviceOfAnother", goal("device_id", theirs), http.StatusNotFound, "DEVICE_NOT_FOUND", "device"},
		{"NoSuchPerson", goal("profile_id", uuid.NewString()), http.StatusNotFound, "PROFILE_NOT_FOUND", ""},
		{"TooFar", goal("goal", "open the door", "scheduled_for", at(367*24*time.Hour)), http.StatusBadRequest, "TIME_TOO_FAR", "more than 366 days ahead"},
		{"Past", goal("goal", "open the door", "scheduled_for", at(-time.Hour)), http.StatusBadRequest, "TIME_PAST", ""},
		{"PastInWords", goal("goal", "open the door yesterday at 9am"), http.StatusBadRequest, "TIME_PAST", ""},
		{"Unclear", goal("goal", "open the door later"), http.StatusBadRequest, "TIME_UNCLEAR", "later"},
		{"NothingToDo", goal("goal", ""), http.StatusBadRequest, "INVALID", "goal"},
		{"NoKey", goal("idempotency_key", ""), http.StatusBadRequest, "INVALID", "idempotency_key"},
		{"NoTime", goal("scheduled_for", "soon"), http.StatusBadRequest, "INVALID", "RFC 3339"},
		{"AnotherField", goal("when", "soon"), http.StatusBadRequest, "INVALID", "when"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			status, answer := b.try(t, b.operator, http.MethodPost, "/v1/goals", tc.body)
			require.Equal(t, tc.status, status, "%s", answer)
			require.Contains(t, string(answer), tc.reason)
			require.Contains(t, string(answer), tc.says)
		})
	}

	const hello = `{"hello":{"client":"door 1.0"}}`
	for _, tc := range []struct {
		name, token string
		frames      []string
		code        websocket.StatusCode
	}{
		{"TokenOfAnotherDevice", theirToken, []string{hello}, 4401},
		{"FrameBeforeHello", token, []string{`{"end":{"run_id":"` + uuid.NewString() + `","ok":true}}`}, websocket.StatusProtocolError},
		{"ReportOfNoRun", token, []string{hello, `{"report":{"run_id":"` + uuid.NewString() + `","state":"ended"}}`}, websocket.StatusProtocolError},
		{"FrameTooLarge", token, []string{hello, `{"goal":{"key":"1","goal":"` + strings.Repeat("a", 17<<10) + `"}}`}, websocket.StatusMessageTooBig},
	} {
		t.Run(tc.name, func(t *testing.T) { // one after the other: a newer stream of the device ends the older
			require.Equal(t, tc.code, b.says(t, door, tc.token, tc.frames...))
		})
	}
	t.Cleanup(func() { // when the subtests have ended
		var goals, scheduled, devices int
		require.NoError(t, b.onboarding.QueryRow(context.WithoutCancel(t.Context()), `
			select count(*), count(*) filter (where status = 'scheduled'), (select count(*) from devices) from goals`).Scan(&goals, &scheduled, &devices))
		require.Equal(t, []int{1, 1, 2}, []int{goals, scheduled, devices})
	})
}

// says sends frames as a device, and returns how its stream ends.
func (b *bundle) says(t *testing.T, device, token string, frames ...string) websocket.StatusCode {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, response, err := websocket.Dial(ctx, b.services.URL()+"/v1/devices/"+device+"/connect", &websocket.DialOptions{
		HTTPHeader: http.Header{"Authorization": {"Bearer " + token}},
	})
	require.NoError(t, err)
	require.Equal(t, http.StatusSwitchingProtocols, response.StatusCode)
	defer func() { _ = conn.CloseNow() }() // it is closed already
	for _, frame := range frames {
		require.True(t, json.Valid([]byte(frame)))
		require.NoError(t, conn.Write(ctx, websocket.MessageText, []byte(frame)))
	}
	for {
		if _, _, err := conn.Read(ctx); err != nil {
			return websocket.CloseStatus(err)
		}
	}
}
