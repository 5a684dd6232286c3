package stack_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestQuietHours plays a night in São Paulo, three hours behind the clock.
func TestQuietHours(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var read struct {
		Settings struct {
			QuietHours struct {
				Enabled bool   `json:"enabled"`
				Open    string `json:"open"`
				Close   string `json:"close"`
			} `json:"quiet_hours"`
		} `json:"settings"`
	}
	b.call(t, http.MethodPut, "/v1/settings", map[string]any{"settings": map[string]any{"quiet_hours": map[string]any{"enabled": true}}}, nil)
	b.call(t, http.MethodGet, "/v1/settings", nil, &read)
	require.True(t, read.Settings.QuietHours.Enabled)
	require.Equal(t, []string{"08:00", "21:00"}, []string{read.Settings.QuietHours.Open, read.Settings.QuietHours.Close})

	saoPaulo, err := time.LoadLocation("America/Sao_Paulo")
	require.NoError(t, err)
	local := func(day, hour, minute int) time.Time {
		return time.Date(2026, time.November, day, hour, minute, 0, 0, saoPaulo).UTC()
	}
	p := b.enrol(t, "pt-BR")
	p.activate(t)
	p.requireHeard(t, opening)

	b.rest(t)
	b.clock.Advance(local(20, 22, 30).Sub(b.clock.Now()))
	p.says(t, p.greets)
	p.requireHeard(t, opening, explanation) // a reply is answered, whatever the hour
	b.rest(t)
	b.clock.Advance(local(20, 22, 45).Sub(b.clock.Now()))
	p.says(t, p.begins)
	b.idle(t)
	p.requireStands(t, inBurst, "onboarding_message_1")
	p.requireHeard(t, opening, explanation)

	b.advanceTo(t, local(21, 7, 59))
	p.requireHeard(t, opening, explanation)
	b.rest(t)
	p.requireHeard(t, opening, explanation, message1, message2, message3, message4)
	require.Equal(t, local(21, 8, 0), p.at(t, message1).UTC())
	require.Equal(t, 8*time.Second, p.at(t, message2).Sub(p.at(t, message1)))
	require.Equal(t, 8*time.Second, p.at(t, message3).Sub(p.at(t, message2)))
	require.Equal(t, 1, count(t, b.onboarding, `select count(*) from session_transitions where kind = 'waiting'`))

	b.clock.Advance(local(21, 23, 0).Sub(b.clock.Now()))
	p.says(t, "Agora não")
	p.requireHeard(t, opening, explanation, message1, message2, message3, message4, later)
}
