package stack_test

import (
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/stack"
	"paceline.internal/emulators/qstash"
	"paceline.internal/emulators/twilio"
)

// TestOptOut is STOP and START, by real signed callbacks of Twilio.
func TestOptOut(t *testing.T) {
	t.Parallel()

	// Also: S0-41
	t.Run("S0_40_STOPDuringTheBurst", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.begin(t)
		p.hears(t, 4) // opening, explanation, messages 1 and 2
		p.says(t, "STOP")
		require.Equal(t, "stopped", p.session(t).Status, "it is so before Twilio is answered")
		require.Equal(t, "opted_out", p.consent(t).Consent.State)
		b.rest(t)
		p.requireHeard(t, opening, explanation, message1, message2)

		skipped := b.log.events(t, "onboarding.step_skipped")
		require.Len(t, skipped, 1)
		require.Equal(t, "onboarding_message_3", skipped[0]["step_id"])
		require.Equal(t, "opted_out", skipped[0]["reason"])
		require.Len(t, b.vendors.QStash.Record().Of(qstash.Delivered), 3, "message 3's alarm is answered 200")
		require.Len(t, b.vendors.QStash.Record().Of(qstash.Published), 3, "and there is none for message 4")
		timeline := p.timeline(t)
		require.Equal(t, "stopped", timeline[len(timeline)-1].Kind)
		require.Equal(t, "stop", timeline[len(timeline)-1].Trigger)
	})
	t.Run("S0_41_STOPWhileAMessageIsBeingSent", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.enrol(t, "en")
		var stopped sync.WaitGroup
		b.vendors.Twilio.SetScript(twilio.Script{OnCreate: func(_ int, m twilio.Message) twilio.CreateFault {
			if m.Body == p.text(t, message2) { // claimed, and not yet taken
				stopped.Go(func() {
					_, err := b.vendors.Twilio.Receive(t.Context(), p.phone, stack.FromNumber, "stop please")
					if err != nil {
						t.Error(err)
					}
				})
			}
			return twilio.CreateFault{}
		}})
		p.activate(t)
		p.says(t, p.greets)
		p.says(t, p.begins)
		b.rest(t)
		stopped.Wait()
		b.until(t, "the session is stopped", func() bool { return p.session(t).Status == "stopped" })
		p.hears(t, 5)
		b.rest(t)
		p.requireHeard(t, opening, explanation, message1, message2, confirmed)
	})
	t.Run("S0_69_STOPThenSTARTThenANewActivation", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.begin(t)
		p.hears(t, 3)
		p.says(t, "Pare!")
		p.hears(t, 4)
		b.rest(t)
		first := p.session(t)
		require.Equal(t, "stopped", first.Status)

		activate := "/v1/profiles/" + p.id + ":activate"
		require.Equal(t, "REASON_OPTED_OUT", b.refused(t, b.operator, http.MethodPost, activate, struct{}{}, http.StatusBadRequest))
		require.Equal(t, "REASON_OPTED_OUT", b.refused(t, b.operator, http.MethodPost, activate, struct{}{}, http.StatusBadRequest))
		b.rest(t)
		p.requireHeard(t, opening, explanation, message1, confirmedPT)
		p.says(t, p.greets) // an ordinary text is no consent
		require.Equal(t, "opted_out", p.consent(t).Consent.State)

		p.says(t, "START")
		ledger := p.consent(t)
		require.Equal(t, "opted_in", ledger.Consent.State)
		var states, sources []string
		for _, e := range ledger.Events {
			states, sources = append(states, e.State), append(sources, e.Source)
		}
		require.Equal(t, []string{"opted_in", "opted_out", "opted_out", "opted_in"}, states)
		require.Equal(t, []string{"collected_elsewhere", "inbound", "confirmation", "inbound"}, sources)
		b.rest(t)
		p.requireHeard(t, opening, explanation, message1, confirmedPT)

		second := p.activate(t)
		require.NotEqual(t, first.SessionID, second.SessionID)
		p.says(t, p.greets)
		p.says(t, p.begins)
		p.reaches(t, atInterview)
		b.rest(t)
		p.requireHeard(t, opening, explanation, message1, confirmedPT, opening, explanation, message1, message2, message3, message4)
	})
}
