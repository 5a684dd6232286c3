package stack_test

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/stack"
	"paceline.internal/emulators/qstash"
	"paceline.internal/emulators/twilio"
)

// once spoils the first create request of a text that contains this.
func once(text string, fault twilio.CreateFault) twilio.Script {
	spoiled := false
	return twilio.Script{OnCreate: func(_ int, m twilio.Message) twilio.CreateFault {
		if spoiled || m.Body != text {
			return twilio.CreateFault{}
		}
		spoiled = true
		return fault
	}}
}

// TestCarrierFaults is Twilio at its worst, over real HTTP. Answers that are lost are in TestCrashMatrix and TestRestart, at every text.
func TestCarrierFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()

	t.Run("S0_65_AnswerLostAndReceiptsLate", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.enrol(t, "en")
		script := once(p.text(t, message2), twilio.CreateFault{Answer: twilio.AnswerReset, Commit: true})
		script.OnCallback = func(twilio.Message) twilio.CallbackFault { return twilio.CallbackFault{Delay: 20 * time.Second} }
		b.vendors.Twilio.SetScript(script)
		p.activate(t)
		p.says(t, p.greets)
		p.says(t, p.begins)
		p.requireWhole(t)
		require.GreaterOrEqual(t, p.at(t, message3).Sub(p.at(t, message2)), 20*time.Second, "the outcome is unknown before, and the text is not sent again")
		attempts := b.vendors.QStash.Record().Of(qstash.Waiting)
		require.Len(t, attempts, 5, "the pauses grow, so that QStash does not give up meanwhile")
	})
	// Also: S0-62
	t.Run("S0_63_ReceiptsComeTwiceLateAndInAnyOrderOfMessagesThatAreNotDelivered", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.vendors.Twilio.SetScript(twilio.Script{
			OnFate: func(twilio.Message) twilio.Fate { return twilio.Fate{Final: twilio.StatusUndelivered, Code: 30003} },
			OnCallback: func(m twilio.Message) twilio.CallbackFault {
				if m.Status == twilio.StatusSent { // behind its successor
					return twilio.CallbackFault{Duplicate: 2, Delay: time.Minute}
				}
				return twilio.CallbackFault{Duplicate: 1}
			},
		})
		p := b.begin(t)
		p.requireWhole(t)
		for _, m := range p.messages(t) {
			if m.Direction == "outbound" {
				require.Equal(t, "undelivered", m.Status)
				require.Equal(t, 30003, *m.ErrorCode)
			}
		}
	})
	carrierRefuses(t)
}

// carrierRefuses are the answers that say what happened to a text.
func carrierRefuses(t *testing.T) {
	t.Helper()
	t.Run("S0_65_UnknownAndNeverTakenIsVisibleAndNotSentAgain", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.enrol(t, "en")
		b.vendors.Twilio.SetScript(once(p.text(t, message2), twilio.CreateFault{Answer: twilio.AnswerUnavailable}))
		p.activate(t)
		p.says(t, p.greets)
		p.says(t, p.begins)
		b.rest(t) // QStash comes back until it gives up
		p.requireHeard(t, opening, explanation, message1)
		stuck := p.session(t)
		require.Equal(t, "onboarding_message_2", stuck.NextStepID)
		var open []messageJSON
		for _, m := range p.messages(t) {
			if m.Status == "unknown" {
				open = append(open, m)
			}
		}
		require.Len(t, open, 1)
		require.Equal(t, p.text(t, message2), open[0].Body)
		require.Equal(t, "onboarding:"+p.id+":"+stuck.SessionID+":onboarding_message_2", open[0].IdempotencyKey)
		require.Equal(t, 6, len(b.vendors.QStash.Record().Of(qstash.Waiting))+1, "one attempt and five retries")
		require.Equal(t, 1, count(t, b.onboarding, `select count(*) from dead_letters where step_id = 'onboarding_message_2' and status = 503`))

		status, header, _ := b.ring(t, p.payload(t, stuck.SessionID, "onboarding_message_2"), qstash.DevCurrentKey)
		require.Equal(t, http.StatusServiceUnavailable, status)
		require.NotEmpty(t, header.Get("Retry-After"))
		p.requireHeard(t, opening, explanation, message1)
	})
	t.Run("S0_70_ANumberThatCanNeverBeReached", func(t *testing.T) {
		t.Parallel()
		b := prepare(t)
		refusing := newDetour(t, b.vendors.TwilioURL, func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasPrefix(postedText(r), "We'll ask a few questions") {
				return false
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"code":21211,"message":"Invalid 'To' Phone Number","status":400}`))
			return true
		})
		b.start(t, "TWILIO_API_URL", refusing.url)
		p := b.begin(t)
		b.rest(t)
		p.requireHeard(t, opening, explanation, message1)
		parked := p.session(t)
		require.Equal(t, "undeliverable", parked.Status)
		timeline := p.timeline(t)
		last := timeline[len(timeline)-2:]
		require.Equal(t, "parked", last[0].Kind)
		require.Contains(t, last[0].Detail, "21211")
		require.Equal(t, "failed", last[1].Kind, "QStash says that it gives up")

		record := b.vendors.QStash.Record()
		require.Empty(t, record.Of(qstash.Waiting), "it is not tried again")
		require.Equal(t, 489, record.Of(qstash.DeadLettered)[0].Status)
		require.Equal(t, 1, count(t, b.onboarding, `select count(*) from dead_letters where step_id = 'onboarding_message_2' and status = 489 and session_id = $1`, parked.SessionID))
		var stuck struct {
			Sessions []sessionJSON `json:"sessions"`
		}
		b.call(t, http.MethodGet, "/v1/sessions?stuck=true", nil, &stuck)
		require.Equal(t, []sessionJSON{parked}, stuck.Sessions)
	})
	t.Run("S0_41_TwilioKnowsOfAnOptOutThatWeDoNot", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.begin(t)
		b.idle(t)
		b.vendors.Twilio.SetInboundURL("") // the callback never comes
		_, err := b.vendors.Twilio.Receive(t.Context(), p.phone, stack.FromNumber, "STOP")
		require.NoError(t, err)
		b.rest(t)
		p.requireHeard(t, opening, explanation, message1)
		require.Equal(t, "stopped", p.session(t).Status)
		ledger := p.consent(t)
		require.Equal(t, "opted_out", ledger.Consent.State)
		require.Equal(t, "twilio_21610", ledger.Events[len(ledger.Events)-1].Source)
		require.Equal(t, "opted_out", b.log.events(t, "onboarding.step_skipped")[0]["reason"])
		require.Empty(t, b.vendors.QStash.Record().Of(qstash.Waiting, qstash.DeadLettered), "the alarm is answered 200")
	})
}

// postedText is the text of a create request, which stays to be read.
func postedText(r *http.Request) string {
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	form, formErr := url.ParseQuery(string(body))
	if err != nil || formErr != nil {
		return ""
	}
	return form.Get("Body")
}
