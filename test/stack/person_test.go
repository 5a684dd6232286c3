package stack_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/stack"
	"paceline.internal/emulators/twilio"
	"paceline.internal/services/onboarding/catalog"
)

// The texts of the conversation, by their keys in the catalog.
const (
	opening     = "ONBOARDING_OPENING"
	explanation = "ONBOARDING_EXPLANATION"
	later       = "ONBOARDING_LATER"
	message1    = "ONBOARDING_MESSAGE_1"
	message2    = "ONBOARDING_MESSAGE_2"
	message3    = "ONBOARDING_MESSAGE_3"
	message4    = "ONBOARDING_MESSAGE_4"
)

// The state tokens, as clients see them.
const (
	atOpening     = "onboarding:awaiting_opening_response"
	atExplanation = "onboarding:awaiting_explanation_response"
	inBurst       = "onboarding:awaiting_burst"
	atInterview   = "onboarding:awaiting_interview_start"
	interviewing  = "interview:activity_01"
)

// role is a person who can be enrolled, and what they say at the three gates.
type role struct {
	locale, phone, name, zone string
	greets, begins, ready     string
}

var cast = map[string]role{
	"en": {
		locale: "en", phone: "+1415555%04d", name: "Zuleika", zone: "America/Los_Angeles",
		greets: "Delighted to hear from you", begins: "Please do go on then", ready: "Absolutely ready now",
	},
	"pt-BR": {
		locale: "pt-BR", phone: "+551198765%04d", name: "Iracema", zone: "America/Sao_Paulo",
		greets: "Que alegria receber isso", begins: "Pode mandar ver agora", ready: "Prontíssima pra começar já",
	},
}

// person is a person who is enrolled.
type person struct {
	role

	b  *bundle
	id string
}

// Shapes of the API.
type (
	profileJSON struct {
		ProfileID string    `json:"profile_id"`
		OrgID     string    `json:"org_id"`
		Phone     string    `json:"phone"`
		FirstName string    `json:"first_name"`
		Locale    string    `json:"locale"`
		TimeZone  string    `json:"time_zone"`
		Hold      bool      `json:"hold"`
		CreatedAt time.Time `json:"created_at"`
	}
	sessionJSON struct {
		SessionID  string    `json:"session_id"`
		ProfileID  string    `json:"profile_id"`
		Mode       string    `json:"mode"`
		StateToken string    `json:"state_token"`
		NextStepID string    `json:"next_step_id"`
		Status     string    `json:"status"`
		Paused     bool      `json:"paused"`
		CreatedAt  time.Time `json:"created_at"`
		UpdatedAt  time.Time `json:"updated_at"`
	}
	entryJSON struct {
		At        time.Time `json:"at"`
		Kind      string    `json:"kind"`
		From      string    `json:"from_state_token"`
		To        string    `json:"to_state_token"`
		Trigger   string    `json:"trigger"`
		StepID    string    `json:"step_id"`
		MessageID string    `json:"message_id"`
		Detail    string    `json:"detail"`
	}
	messageJSON struct {
		MessageID      string     `json:"message_id"`
		ProfileID      string     `json:"profile_id"`
		Direction      string     `json:"direction"`
		From           string     `json:"from"`
		To             string     `json:"to"`
		Body           string     `json:"body"`
		Status         string     `json:"status"`
		TwilioSID      string     `json:"twilio_sid"`
		IdempotencyKey string     `json:"idempotency_key"`
		ErrorCode      *int       `json:"error_code"`
		Segments       int        `json:"segments"`
		CreatedAt      time.Time  `json:"created_at"`
		AcceptedAt     *time.Time `json:"accepted_at"`
	}
	consentJSON struct {
		Consent struct {
			Phone string `json:"phone"`
			State string `json:"state"`
		} `json:"consent"`
		Events []struct {
			State  string `json:"state"`
			Source string `json:"source"`
			Words  string `json:"words"`
		} `json:"events"`
	}
	errorJSON struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Details []struct {
			Reason string `json:"reason"`
			Domain string `json:"domain"`
		} `json:"details"`
	}
)

// try makes one call of the API and returns the status with the raw answer; 0 when the connection was lost.
func (b *bundle) try(t *testing.T, token, method, path string, in any) (int, []byte) {
	t.Helper()
	var body io.Reader
	if in != nil {
		encoded, err := json.Marshal(in)
		require.NoError(t, err)
		body = bytes.NewReader(encoded)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+b.config.Addresses.Gateway+path, body)
	require.NoError(t, err)
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return b.send(t, req)
}

func (b *bundle) send(t *testing.T, req *http.Request) (int, []byte) {
	t.Helper()
	resp, err := b.http.Do(req)
	if err != nil {
		return 0, []byte(err.Error())
	}
	defer func() { require.NoError(t, resp.Body.Close()) }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, []byte(err.Error())
	}
	return resp.StatusCode, answer
}

// call makes a call that must succeed, as the operator.
func (b *bundle) call(t *testing.T, method, path string, in, out any) {
	t.Helper()
	status, answer := b.try(t, b.operator, method, path, in)
	require.Contains(t, []int{http.StatusOK, http.StatusCreated}, status, "%s %s: %s", method, path, answer)
	if out != nil {
		require.NoError(t, json.Unmarshal(answer, out), "%s", answer)
	}
}

// refused makes a call that must be refused and returns the reason.
func (b *bundle) refused(t *testing.T, token, method, path string, in any, wantStatus int) string {
	t.Helper()
	status, answer := b.try(t, token, method, path, in)
	require.Equal(t, wantStatus, status, "%s %s: %s", method, path, answer)
	var refusal errorJSON
	require.NoError(t, json.Unmarshal(answer, &refusal), "%s", answer)
	require.NotZero(t, refusal.Code)
	require.NotEmpty(t, refusal.Message)
	require.NotEmpty(t, refusal.Details)
	return refusal.Details[0].Reason
}

// enrol creates a profile for the next person of the cast with this locale.
func (b *bundle) enrol(t *testing.T, locale string) *person {
	t.Helper()
	b.people++
	p := &person{role: cast[locale], b: b}
	p.phone = fmt.Sprintf(p.phone, 2000+b.people)
	var created struct {
		Profile profileJSON `json:"profile"`
	}
	b.call(t, http.MethodPost, "/v1/profiles",
		map[string]string{"phone": p.phone, "first_name": p.name, "locale": p.locale, "time_zone": p.zone}, &created)
	p.id = created.Profile.ProfileID
	require.Equal(t, profileJSON{
		ProfileID: p.id, OrgID: stack.OrgID, Phone: p.phone, FirstName: p.name, Locale: p.locale, TimeZone: p.zone,
		CreatedAt: created.Profile.CreatedAt,
	}, created.Profile)
	return p
}

// activate opens a session.
func (p *person) activate(t *testing.T) sessionJSON {
	t.Helper()
	var opened struct {
		Session sessionJSON `json:"session"`
	}
	p.b.call(t, http.MethodPost, "/v1/profiles/"+p.id+":activate", struct{}{}, &opened)
	return opened.Session
}

// says sends a text from the person's phone, which Twilio must get rid of.
func (p *person) says(t *testing.T, text string) twilio.Delivery {
	t.Helper()
	delivery, err := p.b.vendors.Twilio.Receive(t.Context(), p.phone, stack.FromNumber, text)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, delivery.StatusCode, "%+v", delivery)
	require.Equal(t, "<Response/>", delivery.Body)
	return delivery
}

// sessions are the person's, newest first.
func (p *person) sessions(t *testing.T) []sessionJSON {
	t.Helper()
	var page struct {
		Sessions []sessionJSON `json:"sessions"`
	}
	p.b.call(t, http.MethodGet, "/v1/sessions?profile_id="+p.id, nil, &page)
	return page.Sessions
}

// session is the newest.
func (p *person) session(t *testing.T) sessionJSON {
	t.Helper()
	sessions := p.sessions(t)
	require.NotEmpty(t, sessions)
	return sessions[0]
}

// timeline returns the timeline of the newest session.
func (p *person) timeline(t *testing.T) []entryJSON {
	t.Helper()
	var read struct {
		Session  sessionJSON `json:"session"`
		Timeline []entryJSON `json:"timeline"`
	}
	p.b.call(t, http.MethodGet, "/v1/sessions/"+p.session(t).SessionID, nil, &read)
	require.Equal(t, p.id, read.Session.ProfileID)
	return read.Timeline
}

// messages lists the messages of the person that messaging knows, oldest first.
func (p *person) messages(t *testing.T) []messageJSON {
	t.Helper()
	var page struct {
		Messages []messageJSON `json:"messages"`
	}
	p.b.call(t, http.MethodGet, "/v1/messages?page_size=500&profile_id="+p.id, nil, &page)
	for i, j := 0, len(page.Messages)-1; i < j; i, j = i+1, j-1 {
		page.Messages[i], page.Messages[j] = page.Messages[j], page.Messages[i]
	}
	return page.Messages
}

func (p *person) consent(t *testing.T) consentJSON {
	t.Helper()
	var read consentJSON
	p.b.call(t, http.MethodGet, "/v1/consents/"+p.phone, nil, &read)
	return read
}

// heard returns what Twilio has taken for the person from us, oldest first. What Twilio itself answers to STOP is not in it.
func (p *person) heard() []twilio.Message {
	var ours []twilio.Message
	for _, m := range p.b.vendors.Twilio.Messages() {
		if m.To == p.phone && m.Direction == twilio.DirectionAPI {
			ours = append(ours, m)
		}
	}
	return ours
}

// text is a text of the catalog as this person gets it.
func (p *person) text(t *testing.T, key string) string {
	t.Helper()
	if body, literally := strings.CutPrefix(key, "="); literally {
		return body
	}
	texts := catalog.Default()
	body, err := texts.Render(texts.Current(), p.locale, key, p.name)
	require.NoError(t, err)
	return body
}

// The texts by which an opt-out is confirmed that Twilio does not confirm by itself.
const (
	confirmed   = "=You are unsubscribed and will get no more texts from this number. Reply START to get them again."
	confirmedPT = "=Você não receberá mais mensagens deste número. Responda START para voltar a receber."
)

// requireHeard holds what the person heard to be exactly these texts in this order.
func (p *person) requireHeard(t *testing.T, keys ...string) {
	t.Helper()
	var want, got []string
	for _, key := range keys {
		want = append(want, p.text(t, key))
	}
	for _, m := range p.heard() {
		got = append(got, m.Body)
	}
	require.Equal(t, want, got)
}

// at returns when Twilio took a text, on the clock. It must have taken it once.
func (p *person) at(t *testing.T, key string) time.Time {
	t.Helper()
	body := p.text(t, key)
	var times []time.Time
	for _, m := range p.heard() {
		if m.Body == body {
			times = append(times, m.CreatedAt)
		}
	}
	require.Len(t, times, 1, key)
	return times[0]
}

// requirePaced holds the burst to its pace: message 2 and 3 come at least eight seconds after the one before.
func (p *person) requirePaced(t *testing.T) {
	t.Helper()
	require.GreaterOrEqual(t, p.at(t, message2).Sub(p.at(t, message1)), 8*time.Second)
	require.GreaterOrEqual(t, p.at(t, message3).Sub(p.at(t, message2)), 8*time.Second)
	require.False(t, p.at(t, message4).Before(p.at(t, message3)))
}

// hears lets time pass until the person has heard so many texts.
func (p *person) hears(t *testing.T, n int) {
	t.Helper()
	p.b.until(t, fmt.Sprintf("the person hears %d texts", n), func() bool { return len(p.heard()) >= n })
}

// reaches lets time pass until the newest session waits for this.
func (p *person) reaches(t *testing.T, token string) sessionJSON {
	t.Helper()
	var s sessionJSON
	p.b.until(t, "the session reaches "+token, func() bool {
		s = p.session(t)
		return s.StateToken == token
	})
	return s
}

// begin brings a new person to the start of the burst: the next thing to happen is message 1.
func (b *bundle) begin(t *testing.T) *person {
	t.Helper()
	p := b.enrol(t, "en")
	p.activate(t)
	p.reaches(t, atOpening)
	p.hears(t, 1)
	p.says(t, p.greets)
	p.reaches(t, atExplanation)
	p.says(t, p.begins)
	return p
}

// requireWhole lets the conversation come to its end and holds it to what was promised: every text once, in order and
// paced, and the interview begun.
func (p *person) requireWhole(t *testing.T) {
	t.Helper()
	p.reaches(t, atInterview)
	p.says(t, p.ready)
	end := p.reaches(t, interviewing)
	require.Equal(t, "active", end.Status)
	p.b.rest(t)
	p.requireHeard(t, opening, explanation, message1, message2, message3, message4)
	p.requirePaced(t)
}
