package stack_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/qstash"
	"paceline.internal/emulators/twilio"
	"paceline.internal/test/stack"
)

// TestReplies is what people do to a conversation, by real signed callbacks of Twilio.
func TestReplies(t *testing.T) {
	t.Parallel()

	// Also: S0-37, S0-42, S0-43
	t.Run("S0_34_LaterAtEveryGate", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.enrol(t, "en")
		p.activate(t)

		p.says(t, "No, thanks!")
		require.True(t, p.session(t).Paused)
		require.Equal(t, atOpening, p.session(t).StateToken)
		p.requireHeard(t, opening, later)
		p.says(t, "not yet") // again, in another turn: another LATER
		p.requireHeard(t, opening, later, later)

		p.says(t, p.greets)
		p.requireStands(t, atExplanation, "")
		p.requireHeard(t, opening, later, later, explanation)

		p.says(t, "Later")
		require.True(t, p.session(t).Paused)
		require.Equal(t, atOpening, p.session(t).StateToken)
		p.requireHeard(t, opening, later, later, explanation, later)
		require.Empty(t, b.vendors.QStash.Record(), "nothing is scheduled for who said later")

		p.says(t, p.greets)
		p.requireStands(t, atExplanation, "")
		p.says(t, p.begins)
		p.reaches(t, atInterview)
		b.rest(t)

		p.says(t, "agora não, obrigada")
		require.True(t, p.session(t).Paused)
		require.Equal(t, atInterview, p.session(t).StateToken)
		require.Equal(t, "onboarding", p.session(t).Mode)
		p.says(t, p.ready)
		p.requireStands(t, interviewing, "")
		b.rest(t)
		p.requireHeard(t, opening, later, later, explanation, later, explanation, message1, message2, message3, message4, later)
		p.requirePaced(t)
	})
	repliesThatStop(t)
	repliesThatAreHeld(t)
	repliesAfterAReset(t)
	repliesOnceOnly(t)
}

// repliesThatStop are STOP, START and HELP.
func repliesThatStop(t *testing.T) {
	t.Helper()
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
	t.Run("S0_40_HELPPassesTheHold", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.begin(t)
		p.hears(t, 3)
		p.says(t, "help")
		require.Equal(t, "opted_in", p.consent(t).Consent.State)
		timeline := p.timeline(t)
		require.Equal(t, "replied", timeline[len(timeline)-1].Kind, "answered, not held")
		require.Equal(t, "HELP", timeline[len(timeline)-1].Detail)
		p.requireWhole(t)
	})
}

// repliesThatAreHeld wait for the end of the burst, or for the release of a hold.
func repliesThatAreHeld(t *testing.T) {
	t.Helper()
	// Also: S0-67
	t.Run("S0_39_HeldRepliesAnswerNothingButTheLastAnswersMessage4", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.enrol(t, "en")
		b.vendors.Twilio.SetScript(once(p.text(t, message4), twilio.CreateFault{Answer: twilio.AnswerReset, Commit: true}))
		p.activate(t)
		p.says(t, p.greets)
		p.says(t, p.begins)
		p.hears(t, 3)
		p.says(t, "Wonderful, thank you") // during the burst: answers nothing
		p.hears(t, 4)
		p.says(t, "Later") // nor does this, or the session would pause
		p.hears(t, 6)      // message 4 is out, and we do not know it yet
		b.advanceTo(t, p.at(t, message4).Add(time.Second))
		require.Equal(t, inBurst, p.session(t).StateToken)
		p.says(t, "Yes, whenever you like")
		b.advanceTo(t, p.at(t, message4).Add(1500*time.Millisecond))
		p.says(t, "No, not now") // the last one counts
		require.Equal(t, 4, held(p.timeline(t)))
		p.reaches(t, atInterview)
		b.until(t, "the last reply is answered", func() bool { return p.session(t).Paused })
		b.rest(t)
		p.requireHeard(t, opening, explanation, message1, message2, message3, message4, later)
		p.requirePaced(t)
		require.Equal(t, atInterview, p.session(t).StateToken)
		p.says(t, p.ready)
		p.requireStands(t, interviewing, "")
	})
	t.Run("S0_67_AHeldYesBeginsTheInterview", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.enrol(t, "en")
		b.vendors.Twilio.SetScript(once(p.text(t, message4), twilio.CreateFault{Answer: twilio.AnswerReset, Commit: true}))
		p.activate(t)
		p.says(t, p.greets)
		p.says(t, p.begins)
		p.hears(t, 6)
		b.advanceTo(t, p.at(t, message4).Add(time.Second))
		p.says(t, p.ready)
		p.reaches(t, interviewing)
		b.rest(t)
		p.requireHeard(t, opening, explanation, message1, message2, message3, message4)
	})
	t.Run("S0_16_AHoldStopsTheBurstAndItsReleaseGoesOn", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.begin(t)
		p.hears(t, 4)
		b.call(t, http.MethodPost, "/v1/profiles/"+p.id+":hold", map[string]string{"reason": "a worrying reply"}, nil)
		b.rest(t)
		p.requireHeard(t, opening, explanation, message1, message2)
		require.Equal(t, "safety_hold", b.log.events(t, "onboarding.step_skipped")[0]["reason"])
		p.says(t, "Is anybody there at all?")
		b.clock.Advance(time.Hour)
		b.rest(t)
		p.requireHeard(t, opening, explanation, message1, message2)
		require.Equal(t, "onboarding_message_3", p.session(t).NextStepID)

		b.call(t, http.MethodPost, "/v1/profiles/"+p.id+":release", struct{}{}, nil)
		p.requireWhole(t)
	})
	t.Run("S0_16_NobodyOnHoldIsActivated", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.enrol(t, "en")
		b.call(t, http.MethodPost, "/v1/profiles/"+p.id+":hold", struct{}{}, nil)
		activate := "/v1/profiles/" + p.id + ":activate"
		require.Equal(t, "REASON_SAFETY_HOLD", b.refused(t, b.operator, http.MethodPost, activate, struct{}{}, http.StatusBadRequest))
		b.call(t, http.MethodPost, "/v1/profiles/"+p.id+":release", struct{}{}, nil)
		require.Empty(t, p.heard())
		p.activate(t)
		p.requireHeard(t, opening)
	})
}

// repliesAfterAReset begin anew.
func repliesAfterAReset(t *testing.T) {
	t.Helper()
	t.Run("S0_57_ResetAndASecondRunWithNewKeys", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.begin(t)
		p.requireWhole(t)
		first := p.session(t)
		p.reset(t, first.SessionID)
		require.Equal(t, "closed", p.session(t).Status)

		second := p.activate(t)
		require.NotEqual(t, first.SessionID, second.SessionID)
		p.says(t, p.greets)
		p.says(t, p.begins)
		p.reaches(t, atInterview)
		p.says(t, p.ready)
		p.reaches(t, interviewing)
		b.rest(t)
		once := []string{opening, explanation, message1, message2, message3, message4}
		p.requireHeard(t, append(once, once...)...)
		keys := map[string]bool{}
		for _, m := range p.messages(t) {
			if m.Direction == "outbound" {
				keys[m.IdempotencyKey] = true
			}
		}
		require.Len(t, keys, 12)
	})
	t.Run("S0_57_ResetInTheBurstEndsIt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.begin(t)
		p.hears(t, 4)
		p.reset(t, p.session(t).SessionID)
		p.activate(t)
		b.rest(t) // message 3 of the closed session rings in vain
		p.requireHeard(t, opening, explanation, message1, message2, opening)
		require.Equal(t, "session_inactive", b.log.events(t, "onboarding.step_skipped")[0]["reason"])
		p.says(t, p.greets)
		p.says(t, p.begins)
		p.reaches(t, atInterview)
		b.rest(t)
		p.requireHeard(t, opening, explanation, message1, message2, opening, explanation, message1, message2, message3, message4)
	})
	t.Run("S0_60_EightActivationsAtOnceAreOneOpening", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.enrol(t, "en")
		var together sync.WaitGroup
		opened := make([]string, 8)
		for i := range opened {
			together.Go(func() {
				status, answer := b.try(t, b.operator, http.MethodPost, "/v1/profiles/"+p.id+":activate", struct{}{})
				if status != http.StatusOK {
					t.Errorf("%d: %s", status, answer)
				}
				opened[i] = string(sessionID.Find(answer))
			})
		}
		together.Wait()
		for _, id := range opened {
			require.Equal(t, opened[0], id)
		}
		p.hears(t, 1)
		b.rest(t)
		p.requireHeard(t, opening)
		require.Len(t, p.sessions(t), 1)
	})
}

// repliesOnceOnly count once, or not at all.
func repliesOnceOnly(t *testing.T) {
	t.Helper()
	t.Run("S0_45_OneTextPostedThreeTimesCountsOnce", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.enrol(t, "en")
		p.activate(t)
		sid := "SM00000000000000000000000000000001"
		var together sync.WaitGroup
		for range 3 {
			together.Go(func() {
				if status, answer := b.postText(t, sid, p.phone, p.greets); status != http.StatusOK || answer != "<Response/>" {
					t.Errorf("%d: %s", status, answer)
				}
			})
		}
		together.Wait()
		p.reaches(t, atExplanation)
		status, _ := b.postText(t, sid, p.phone, p.greets) // late
		require.Equal(t, http.StatusOK, status)
		b.rest(t)
		p.requireStands(t, atExplanation, "")
		p.requireHeard(t, opening, explanation)
		require.Equal(t, 1, replies(p.timeline(t)))
		require.Equal(t, 1, count(t, b.onboarding, `select count(*) from webhook_jobs where source = 'twilio'`))
		require.Equal(t, 1, count(t, b.messaging, `select count(*) from sms_messages where direction = 'inbound'`))
	})
	t.Run("S0_45_TwoRepliesAtTheSameInstantAreOneExplanation", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.enrol(t, "en")
		p.activate(t)
		var together sync.WaitGroup
		for sid, text := range map[string]string{"SM00000000000000000000000000000001": p.greets, "SM00000000000000000000000000000002": p.begins} {
			together.Go(func() {
				if status, answer := b.postText(t, sid, p.phone, text); status != http.StatusOK {
					t.Errorf("%d: %s", status, answer)
				}
			})
		}
		together.Wait()
		p.reaches(t, atInterview) // one after the other, as any two replies: the second begins the burst
		b.rest(t)
		p.requireHeard(t, opening, explanation, message1, message2, message3, message4)
		p.requirePaced(t)
		require.Equal(t, 2, replies(p.timeline(t)))
	})
	t.Run("S0_61_SomebodyWhoIsNotEnrolledIsNotAnswered", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := &person{role: cast["en"], b: b}
		p.phone = "+14155559999"
		p.says(t, "Who is this anyway?")
		b.rest(t)
		require.Empty(t, p.heard())
		require.Equal(t, 1, count(t, b.messaging, `select count(*) from sms_messages where from_number = $1`, p.phone), "it is kept")
	})
	t.Run("AForgedTextIsRefusedAndChangesNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.begin(t)
		status, _, _ := b.post(t, b.services.URL()+"/api/webhooks/twilio/inbound", http.Header{
			"Content-Type": {"application/x-www-form-urlencoded"}, "X-Twilio-Signature": {"Zm9yZ2Vk"},
		}, "MessageSid=SM1&From=%2B14155552001&To=%2B12025550100&Body=STOP")
		require.Equal(t, http.StatusForbidden, status)
		p.requireWhole(t)
	})
}

// held counts the replies that were kept.
func held(entries []entryJSON) (n int) {
	for _, e := range entries {
		if e.Kind == "held" {
			n++
		}
	}
	return n
}

func (p *person) reset(t *testing.T, sessionID string) {
	t.Helper()
	p.b.call(t, http.MethodPost, "/v1/sessions/"+sessionID+":reset", struct{}{}, nil)
}
