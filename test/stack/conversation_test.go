package stack_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/qstash"
	"paceline.internal/emulators/twilio"
)

func TestConversation(t *testing.T) {
	t.Parallel()

	// Also: S0-23, S0-24, S0-25, S0-33, S0-35, S0-48, S0-60, S0-61, S0-62
	t.Run("S0_21_InEnglish", func(t *testing.T) {
		t.Parallel()
		happyPath(t, "en")
	})
	// Also: S0-23, S0-24, S0-25, S0-33, S0-35, S0-48, S0-60, S0-61, S0-62
	t.Run("S0_21_InPortuguese", func(t *testing.T) {
		t.Parallel()
		happyPath(t, "pt-BR")
	})
	// Also: S0-09, S0-40, S2-31
	t.Run("S2_28_ByWhatsAppAndSMSUntilSTOP", byWhatsApp)
}

// happyPath plays one conversation and holds all that can be seen of it from outside to what was promised.
func happyPath(t *testing.T, locale string) {
	t.Helper()
	b := setup(t)
	p := b.enrol(t, locale)

	b.clock.Advance(time.Hour)
	b.rest(t)
	require.Empty(t, p.heard(), "enrolled and not activated: nothing is sent")

	opened := p.activate(t)
	p.requireStands(t, atOpening, "")
	p.requireHeard(t, opening)
	require.Equal(t, opened.SessionID, p.activate(t).SessionID, "a second activation opens nothing")
	b.rest(t)
	b.clock.Advance(24 * time.Hour)
	b.rest(t)
	p.requireHeard(t, opening)

	p.says(t, p.greets)
	p.requireStands(t, atExplanation, "")
	p.requireHeard(t, opening, explanation)
	b.rest(t)
	b.clock.Advance(24 * time.Hour)
	b.rest(t)
	p.requireHeard(t, opening, explanation)
	require.Empty(t, b.vendors.QStash.Record(), "nothing is scheduled before the burst")

	began := b.clock.Now()
	p.says(t, p.begins)
	for i, at := range []time.Duration{0, 8 * time.Second, 16 * time.Second} {
		b.advanceTo(t, began.Add(at))
		steps := [][]string{{message1}, {message1, message2}, {message1, message2, message3, message4}}[i]
		p.requireHeard(t, append([]string{opening, explanation}, steps...)...)
		token := []string{inBurst, inBurst, atInterview}[i]
		p.requireStands(t, token, []string{"onboarding_message_2", "onboarding_message_3", ""}[i])
	}
	b.rest(t)
	p.says(t, p.ready)
	end := p.requireStands(t, interviewing, "")
	require.Equal(t, "interviewing", end.Mode)
	require.Equal(t, opened.SessionID, end.SessionID)
	b.rest(t)
	b.clock.Advance(24 * time.Hour)
	b.rest(t)

	p.requireHeard(t, opening, explanation, message1, message2, message3, message4)
	require.Equal(t, began, p.at(t, message1))
	require.Equal(t, 8*time.Second, p.at(t, message2).Sub(p.at(t, message1)))
	require.Equal(t, 8*time.Second, p.at(t, message3).Sub(p.at(t, message2)))
	require.Equal(t, p.at(t, message3), p.at(t, message4))
	p.requireTimeline(t)
	p.requireMessages(t, opened.SessionID)
	b.requireAlarms(t, opened.SessionID, began)
}

// advanceTo moves from one plan of the vendors to the next, up to an instant.
func (b *bundle) advanceTo(t *testing.T, at time.Time) {
	t.Helper()
	for {
		b.idle(t)
		next, planned := b.clock.Next()
		if !planned || next.After(at) {
			b.clock.Advance(at.Sub(b.clock.Now()))
			return
		}
		b.clock.AdvanceToNext()
	}
}

// requireStands holds the newest session to where it should be.
func (p *person) requireStands(t *testing.T, token, nextStep string) sessionJSON {
	t.Helper()
	s := p.session(t)
	require.Equal(t, token, s.StateToken)
	require.Equal(t, nextStep, s.NextStepID)
	require.Equal(t, "active", s.Status)
	require.Equal(t, p.id, s.ProfileID)
	require.False(t, s.Paused)
	return s
}

// requireTimeline holds the timeline to the whole story, each text of it to be found among the messages.
func (p *person) requireTimeline(t *testing.T) {
	t.Helper()
	bodies := map[string]string{}
	for _, m := range p.b.everyMessage(t) {
		bodies[m.MessageID] = m.Body
	}
	timeline := p.timeline(t)
	var last time.Time
	for i, e := range timeline {
		require.False(t, e.At.Before(last), "entry %d is before the one above it", i)
		last = e.At
		if e.Kind == "sent" {
			require.Equal(t, p.text(t, e.Detail), bodies[e.MessageID])
		}
		if e.Kind == "replied" {
			require.Equal(t, []string{p.greets, p.begins, p.ready}[replies(timeline[:i])], bodies[e.MessageID])
		}
		timeline[i].At, timeline[i].MessageID = time.Time{}, ""
	}
	step := func(n, text, from, to, trigger string) []entryJSON {
		return []entryJSON{
			{Kind: "sent", Trigger: "step", StepID: "onboarding_message_" + n, Detail: text},
			{Kind: "advanced", Trigger: trigger, StepID: "onboarding_message_" + n, From: from, To: to},
		}
	}
	want := []entryJSON{
		{Kind: "activated", Trigger: "activation", To: atOpening},
		{Kind: "sent", Trigger: "activation", Detail: opening},
		{Kind: "replied", Trigger: "reply"},
		{Kind: "sent", Trigger: "reply_advance", Detail: explanation},
		{Kind: "advanced", Trigger: "reply_advance", From: atOpening, To: atExplanation},
		{Kind: "replied", Trigger: "reply"},
		{Kind: "advanced", Trigger: "reply_advance", From: atExplanation, To: inBurst},
	}
	want = append(want, step("1", message1, inBurst, inBurst, "step_sent")...)
	want = append(want, step("2", message2, inBurst, inBurst, "step_sent")...)
	want = append(want, step("3", message3, inBurst, inBurst, "step_sent")...)
	want = append(want, step("4", message4, inBurst, atInterview, "burst_finished")...)
	want = append(want,
		entryJSON{Kind: "replied", Trigger: "reply"},
		entryJSON{Kind: "advanced", Trigger: "reply_advance", From: atInterview, To: interviewing},
	)
	require.Equal(t, want, timeline)
}

func replies(entries []entryJSON) (n int) {
	for _, e := range entries {
		if e.Kind == "replied" {
			n++
		}
	}
	return n
}

// everyMessage returns what messaging has of the whole organisation.
func (b *bundle) everyMessage(t *testing.T) []messageJSON {
	t.Helper()
	var page struct {
		Messages []messageJSON `json:"messages"`
	}
	b.call(t, http.MethodGet, "/v1/messages?page_size=500", nil, &page)
	return page.Messages
}

// requireMessages holds messaging's rows to what Twilio has: the same texts under the same SIDs, each with its own key, and
// delivered.
func (p *person) requireMessages(t *testing.T, sessionID string) {
	t.Helper()
	prefix := "onboarding:" + p.id + ":" + sessionID + ":"
	keys := []string{
		"opening", "explanation:1", "onboarding_message_1", "onboarding_message_2", "onboarding_message_3", "onboarding_message_4",
	}
	var sent []messageJSON
	for _, m := range p.messages(t) {
		if m.Direction == "outbound" {
			sent = append(sent, m)
		}
	}
	heard := p.heard()
	require.Len(t, sent, len(keys))
	for i, m := range sent {
		require.Equal(t, prefix+keys[i], m.IdempotencyKey)
		require.Equal(t, heard[i].SID, m.TwilioSID)
		require.Equal(t, heard[i].Body, m.Body)
		require.Equal(t, heard[i].From, m.From)
		require.Equal(t, p.phone, m.To)
		require.Equal(t, heard[i].Segments, m.Segments)
		require.Equal(t, "delivered", m.Status)
		require.Nil(t, m.ErrorCode)
		require.Equal(t, heard[i].CreatedAt, m.AcceptedAt.UTC())
		require.Equal(t, twilio.StatusDelivered, heard[i].Status)
	}
	require.Equal(t, 3, count(t, p.b.messaging, `select count(*) from sms_messages where direction = 'inbound' and status = 'received'`))
	require.Equal(t, 12, count(t, p.b.messaging, `select count(*) from sms_receipts`), "sent and delivered, of each")
	for _, callback := range p.b.vendors.Twilio.Callbacks() {
		require.Equal(t, http.StatusOK, callback.StatusCode)
	}
}

// requireAlarms holds QStash's record to one alarm per step, each published once, delivered once and answered 200.
func (b *bundle) requireAlarms(t *testing.T, sessionID string, began time.Time) {
	t.Helper()
	record := b.vendors.QStash.Record()
	require.Len(t, record.Of(qstash.Published), 4)
	for i, alarm := range record.Of(qstash.Published) {
		require.Equal(t, "onboarding-"+sessionID+"-onboarding_message_"+strconv.Itoa(i+1)+"-1", alarm.DeduplicationID)
		require.Equal(t, began.Add([]time.Duration{0, 8 * time.Second, 16 * time.Second, 16 * time.Second}[i]), alarm.Due)
		require.Equal(t, b.services.URL()+"/api/onboarding/step", alarm.URL)
	}
	require.Len(t, record.Of(qstash.Attempted), 4)
	require.Len(t, record.Of(qstash.Delivered), 4)
	require.Len(t, record, 16, "published, attempted, answered, delivered")
	for _, answered := range record.Of(qstash.Answered) {
		require.Equal(t, http.StatusOK, answered.Status)
	}
	require.Equal(t, 4, count(t, b.onboarding, `select count(*) from step_alarms where published_at is not null and generation = 1`))
	require.Zero(t, count(t, b.onboarding, `select count(*) from webhook_jobs where status <> 'completed'`))
}
