package stack_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/twilio"
	"paceline.internal/test/stack"
)

// The numbers and names that texts of this page come from and go to.
const (
	strangersPhone = "+14155559999"
	nobodysNumber  = "+12025550199"
	pictureURL     = "https://api.twilio.com/2010-04-01/Accounts/AC1/Messages/MM1/Media/ME557ce644e5ab84fa21cc21112e22c485"
)

// picture is what makes an MMS of a text.
func picture() []twilio.Media { return []twilio.Media{{URL: pictureURL, ContentType: "image/jpeg"}} }

// sends is a text with all that Twilio may say of it, which Twilio must get rid of at the first attempt.
func (b *bundle) sends(t *testing.T, in twilio.Incoming) twilio.Delivery {
	t.Helper()
	if in.To == "" {
		in.To = stack.FromNumber
	}
	delivery, err := b.vendors.Twilio.ReceiveText(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, delivery.StatusCode, "%+v", delivery)
	require.Equal(t, "<Response/>", delivery.Body)
	require.Len(t, delivery.Attempts, 1)
	return delivery
}

// jobJSON is a webhook job, as the API shows it.
type jobJSON struct {
	JobID        string         `json:"job_id"`
	Status       string         `json:"status"`
	Attempts     int            `json:"attempts"`
	ErrorMessage string         `json:"error_message"`
	Payload      map[string]any `json:"payload"`
}

// failedJobs are all that an operator sees of what could not be done.
func (b *bundle) failedJobs(t *testing.T) []jobJSON {
	t.Helper()
	var page struct {
		Jobs []jobJSON `json:"jobs"`
	}
	b.call(t, http.MethodGet, "/v1/webhook-jobs?status=failed", nil, &page)
	return page.Jobs
}

// fails waits until there is one failed job, which was not tried again, and returns it with its payload.
func (b *bundle) fails(t *testing.T) jobJSON {
	t.Helper()
	b.until(t, "the job has failed", func() bool { return len(b.failedJobs(t)) > 0 })
	jobs := b.failedJobs(t)
	require.Len(t, jobs, 1)
	require.Equal(t, 1, jobs[0].Attempts, "no retry can help")
	require.Empty(t, jobs[0].Payload, "a list shows nobody's words")
	var read struct {
		Job jobJSON `json:"job"`
	}
	b.call(t, http.MethodGet, "/v1/webhook-jobs/"+jobs[0].JobID, nil, &read)
	return read.Job
}

// requireDone holds the jobs of all texts to their end.
func (b *bundle) requireDone(t *testing.T, texts int) {
	t.Helper()
	b.until(t, "every job is completed", func() bool {
		return count(t, b.onboarding, `select count(*) from webhook_jobs where source = 'twilio' and status = 'completed'`) == texts
	})
	require.Equal(t, texts, count(t, b.onboarding, `select count(*) from webhook_jobs where source = 'twilio'`))
}

// tablesWith are the tables that hold a text in any row and column.
func tablesWith(t *testing.T, db *pgxpool.Pool, text string) (found []string) {
	t.Helper()
	rows, err := db.Query(t.Context(), `select tablename::text from pg_tables where schemaname = 'public' order by 1`)
	require.NoError(t, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	for _, table := range tables {
		sql := fmt.Sprintf(`select count(*) from %s r where strpos(r::text, $1) > 0`, pgx.Identifier{table}.Sanitize())
		if count(t, db, sql, text) > 0 {
			found = append(found, table)
		}
	}
	return found
}

// TestMultiPartTextIsOneReply: the parts of a long text come as one webhook.
func TestMultiPartTextIsOneReply(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, locale, text string
		segments           int
	}{
		{"InEnglish", "en", strings.Repeat("I have wanted to tell this story for a long time. ", 7) + "Go on!", 3},
		{"InPortugueseWithEmoji", "pt-BR", strings.Repeat("Faz tempo que quero contar essa história 😊 ", 4) + "Vamos!", 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := b.enrol(t, tc.locale)
			p.activate(t)
			b.sends(t, twilio.Incoming{From: p.phone, Body: tc.text})
			p.requireStands(t, atExplanation, "")
			b.rest(t)
			p.requireHeard(t, opening, explanation)
			require.Equal(t, 1, replies(p.timeline(t)))
			require.Equal(t, 1, count(t, b.messaging, `
				select count(*) from sms_messages where direction = 'inbound' and body = $1 and segments = $2`, tc.text, tc.segments))
			b.requireDone(t, 1)
		})
	}
}

// TestMediaIsReadByItsWords: a picture says nothing that anybody here can read, and where it lies is not kept.
func TestMediaIsReadByItsWords(t *testing.T) {
	t.Parallel()
	const words = "Look at my grandmother's quilt"
	for _, tc := range []struct {
		name, body   string
		token        string
		paused, ends bool
		heard        []string
	}{
		{"PictureWithWordsGoesOn", words, atExplanation, false, false, []string{opening, explanation}},
		{"PictureAloneGoesOn", "", atExplanation, false, false, []string{opening, explanation}},
		{"PictureWithLaterWaits", "Later", atOpening, true, false, []string{opening, later}},
		{"PictureWithSTOPEndsIt", "STOP", atOpening, false, true, []string{opening}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := b.enrol(t, "en")
			p.activate(t)
			b.sends(t, twilio.Incoming{From: p.phone, Body: tc.body, Media: picture()})
			s := p.session(t)
			require.Equal(t, tc.token, s.StateToken)
			require.Equal(t, tc.paused, s.Paused)
			require.Equal(t, tc.ends, s.Status == "stopped", s.Status)
			b.rest(t)
			p.requireHeard(t, tc.heard...)
			b.requireDone(t, 1)
			require.Equal(t, 1, count(t, b.onboarding, `select count(*) from webhook_jobs where payload -> 'media' = '1'`), "that there was one is kept")
			require.Equal(t, 1, count(t, b.messaging, `select count(*) from sms_messages where direction = 'inbound' and body = $1`, tc.body))

			for _, place := range []string{pictureURL, "ME557ce644e5ab84fa21cc21112e22c485"} {
				require.Empty(t, tablesWith(t, b.onboarding, place))
				require.Empty(t, tablesWith(t, b.messaging, place))
				for _, line := range b.log.all() {
					require.NotContains(t, line, place)
				}
			}
			if tc.body == words { // so it would have been found
				require.Equal(t, []string{"webhook_jobs"}, tablesWith(t, b.onboarding, words))
				require.Equal(t, []string{"sms_messages"}, tablesWith(t, b.messaging, words))
			}
		})
	}
}

// TestWordlessTextsAreReplies: nobody is left waiting because their text says nothing.
func TestWordlessTextsAreReplies(t *testing.T) {
	t.Parallel()
	for name, nothing := range map[string]string{"Empty": "", "OnlySpace": " \n ", "OnlyInvisible": "\u200b\u200d"} {
		t.Run(name+"AtEveryGate", func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := b.enrol(t, "pt-BR")
			p.activate(t)
			for _, reached := range []string{atExplanation, atInterview, interviewing} {
				b.sends(t, twilio.Incoming{From: p.phone, Body: nothing})
				p.reaches(t, reached)
			}
			b.rest(t)
			p.requireHeard(t, opening, explanation, message1, message2, message3, message4)
			require.Equal(t, 3, replies(p.timeline(t)))
			require.Equal(t, 3, count(t, b.messaging, `
				select count(*) from sms_messages where direction = 'inbound' and body = $1 and consent_effect = 'none'`, nothing))
			b.requireDone(t, 3)
		})
	}
}

// TestStrangersTexts are those of a phone that belongs to nobody who is enrolled.
func TestStrangersTexts(t *testing.T) {
	t.Parallel()

	for _, tc := range []struct {
		name, text, optOutType string
		effect, state          string // of the text, and of consent in the end; empty when nothing is recorded
		hears                  string // the beginning of the one text that they get from us; empty for none
	}{
		{name: "OrdinaryTextIsKeptAndNotAnswered", text: "Who is this anyway?", effect: "none"},
		{name: "EmptyTextIsKeptAndNotAnswered", effect: "none"},
		{name: "STOPHoldsAndTwilioConfirmsIt", text: "STOP", effect: "opt_out", state: "opted_out"},
		{name: "STOPAsTwilioReadsItHolds", text: "no more quilts", optOutType: "STOP", effect: "opt_out", state: "opted_out"},
		{name: "PARETwilioDoesNotKnowAndWeConfirm", text: "Pare!", effect: "opt_out", state: "opted_out", hears: "Você não receberá mais mensagens"},
		{name: "ClearWordsHoldAndWeConfirm", text: "please stop texting me", effect: "opt_out", state: "opted_out", hears: "You are unsubscribed"},
		{name: "STARTHolds", text: "START", effect: "opt_in", state: "opted_in"},
		{name: "HELPIsTwiliosToAnswer", text: "HELP", effect: "help"},
		{name: "AJUDAIsOurs", text: "Ajuda", effect: "help", state: "opted_in", hears: "Você recebe estas mensagens"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := &person{b: b}
			p.phone = strangersPhone
			b.sends(t, twilio.Incoming{From: p.phone, Body: tc.text, OptOutType: tc.optOutType})
			b.requireDone(t, 1)
			require.Equal(t, 1, count(t, b.messaging, `
				select count(*) from sms_messages where direction = 'inbound' and from_number = $1 and profile_id is null and body = $2
					and consent_effect = $3`, p.phone, tc.text, tc.effect))
			if tc.hears != "" {
				p.hears(t, 1)
				require.True(t, strings.HasPrefix(p.heard()[0].Body, tc.hears), p.heard()[0].Body)
			}
			b.clock.Advance(time.Minute)
			b.rest(t)
			require.Len(t, p.heard(), min(len(tc.hears), 1))
			require.Equal(t, 1, count(t, b.messaging, `
				select count(*) from (select (select state from consents where phone = $1) as state) c where coalesce(state, '') = $2`,
				p.phone, tc.state))
			require.Zero(t, count(t, b.onboarding, `select count(*) from conversation_sessions`))
			require.Empty(t, b.failedJobs(t))
		})
	}

	t.Run("WordsThatMayBeAnOptOutWaitForAnOperator", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := &person{b: b}
		p.phone = strangersPhone
		b.sends(t, twilio.Incoming{From: p.phone, Body: "leave me alone"})
		failed := b.fails(t)
		require.Contains(t, failed.ErrorMessage, "needs an operator: the person may want no more texts")
		var id string
		require.NoError(t, b.messaging.QueryRow(t.Context(), `select id::text from sms_messages where consent_effect = 'doubtful'`).Scan(&id))
		require.Contains(t, failed.ErrorMessage, "GET /v1/messages/"+id)
		require.Zero(t, count(t, b.messaging, `select count(*) from consents`))
		for range 3 {
			b.sends(t, twilio.Incoming{From: p.phone, Body: "leave me alone now"})
		}
		b.rest(t)
		require.Empty(t, p.heard())
		require.Equal(t, map[string]int{"failed": 1, "completed": 3}, map[string]int{
			"failed":    count(t, b.onboarding, `select count(*) from webhook_jobs where status = 'failed'`),
			"completed": count(t, b.onboarding, `select count(*) from webhook_jobs where status = 'completed'`),
		}, "one person is one question to the operator")
	})

	t.Run("SoDoThoseOfSomebodyWhoseSessionHasEnded", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.enrol(t, "en")
		p.reset(t, p.activate(t).SessionID)
		b.sends(t, twilio.Incoming{From: p.phone, Body: "leave me alone"})
		require.Contains(t, b.fails(t).ErrorMessage, "needs an operator: the person may want no more texts")
		timeline := p.timeline(t)
		require.Equal(t, "may be an opt-out", timeline[len(timeline)-1].Detail)
		require.Equal(t, "closed", p.session(t).Status)
	})

	t.Run("STOPBeforeTheyAreEnrolledKeepsTheirConversationShut", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.people = 40
		phone := fmt.Sprintf(cast["en"].phone, 2041) // of the next one to be enrolled
		b.sends(t, twilio.Incoming{From: phone, Body: "STOP"})
		p := b.enrol(t, "en")
		require.Equal(t, phone, p.phone)
		activate := "/v1/profiles/" + p.id + ":activate"
		require.Equal(t, "REASON_OPTED_OUT", b.refused(t, b.operator, http.MethodPost, activate, struct{}{}, http.StatusBadRequest))
		b.rest(t)
		require.Empty(t, p.heard())
		p.says(t, "START")
		p.activate(t)
		p.requireHeard(t, opening)
	})
}

// TestTextsToANumberOfNobodys: whatever it says, it must not become the word of a person to an organisation that they did not write to.
func TestTextsToANumberOfNobodys(t *testing.T) {
	t.Parallel()

	// Also: S2-38
	t.Run("S2_36_FailsAtOnceAndIsAcknowledged", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.begin(t)
		status, answer := b.postForm(t, url.Values{
			"MessageSid": {"SM00000000000000000000000000000001"}, "From": {p.phone}, "To": {nobodysNumber}, "Body": {"STOP"},
			"NumSegments": {"1"}, "NumMedia": {"0"},
		})
		require.Equal(t, http.StatusOK, status, "Twilio would only repeat it")
		require.Equal(t, "<Response/>", answer)
		failed := b.fails(t)
		require.Equal(t, "record message: no organisation owns the number that this was sent to", failed.ErrorMessage)
		require.Equal(t, nobodysNumber, failed.Payload["to"])
		require.Equal(t, "STOP", failed.Payload["body"], "nothing is lost")
		require.Equal(t, 1, count(t, b.onboarding, `select count(*) from webhook_jobs where status = 'failed' and error_message like '%no organisation owns%'`))
		require.Zero(t, count(t, b.messaging, `select count(*) from sms_messages where to_number = $1`, nobodysNumber))
		require.Equal(t, "opted_in", p.consent(t).Consent.State)
		p.requireWhole(t)
	})

	t.Run("S2_38_IsTakenUpOnceTheNumberIsOurs", func(t *testing.T) {
		t.Parallel()
		b := setup(t, "TWILIO_FROM_NUMBER", nobodysNumber) // Twilio posts what comes to another number of the account
		p := b.enrol(t, "en")
		b.sends(t, twilio.Incoming{From: p.phone, Body: "STOP"})
		failed := b.fails(t)
		require.Zero(t, count(t, b.messaging, `select count(*) from consents`))
		said := b.clock.Now()
		b.clock.Advance(time.Hour)
		b.restart(t, "TWILIO_FROM_NUMBER", stack.FromNumber)
		b.call(t, http.MethodPost, "/v1/webhook-jobs/"+failed.JobID+":retry", struct{}{}, nil)
		b.requireDone(t, 1)
		require.Equal(t, 1, count(t, b.messaging, `
			select count(*) from consent_events where phone = $1 and state = 'opted_out' and at <= $2`, p.phone, said), "from when it was said")
		require.Equal(t, "REASON_OPTED_OUT",
			b.refused(t, b.operator, http.MethodPost, "/v1/profiles/"+p.id+":activate", struct{}{}, http.StatusBadRequest))
	})
}

// TestTextsOfNoPhoneNumber: what a short code or a name says is nobody's answer, and nobody could be answered.
func TestTextsOfNoPhoneNumber(t *testing.T) {
	t.Parallel()
	for name, from := range map[string]string{
		"ShortCode": "24273", "AName": "ACMEBANK", "AnAddressOfAnotherChannel": "messenger:1234567890123456", "AnonymousCaller": "anonymous",
	} {
		t.Run("S2_36_"+name+"FailsAtOnceAndIsAcknowledged", func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := b.begin(t)
			status, answer := b.postText(t, "SM00000000000000000000000000000001", from, "Your code is 123456")
			require.Equal(t, http.StatusOK, status, "Twilio would only repeat it")
			require.Equal(t, "<Response/>", answer)
			failed := b.fails(t)
			require.Contains(t, failed.ErrorMessage, "not in E.164")
			require.NotContains(t, failed.ErrorMessage, from)
			require.Equal(t, from, failed.Payload["from"])
			require.Zero(t, count(t, b.messaging, `select count(*) from sms_messages where direction = 'inbound' and from_number <> $1`, p.phone))
			p.requireWhole(t)
		})
	}
}

// TestMissedTextsHaveTheSameOutcomes: what is found at Twilio after an outage goes the way of every text.
func TestMissedTextsHaveTheSameOutcomes(t *testing.T) {
	t.Parallel()
	b := setup(t, "INBOUND_AUDIT_INTERVAL", "1s")
	p := b.enrol(t, "en")
	p.activate(t)
	b.stop(t)
	b.clock.Advance(time.Minute)
	for _, in := range []twilio.Incoming{
		{From: p.phone, Media: picture()},
		{From: strangersPhone, Body: "Pare!"},
		{From: "ACMEBANK", Body: "Your statement has arrived"},
	} {
		in.To = stack.FromNumber
		delivery, err := b.vendors.Twilio.ReceiveText(t.Context(), in)
		require.NoError(t, err)
		require.Zero(t, delivery.StatusCode)
	}
	b.clock.Advance(10 * time.Minute)
	b.start(t)
	p.reaches(t, atExplanation)
	require.Contains(t, b.fails(t).ErrorMessage, "not in E.164")
	b.until(t, "the others are completed", func() bool {
		return count(t, b.onboarding, `select count(*) from webhook_jobs where status = 'completed' and payload ? 'received_at'`) == 2
	})
	b.rest(t)
	p.requireHeard(t, opening, explanation)
	require.Equal(t, 1, count(t, b.messaging, `select count(*) from consents where phone = $1 and state = 'opted_out'`, strangersPhone))
	require.Empty(t, tablesWith(t, b.onboarding, pictureURL))
	for _, m := range b.vendors.Twilio.Messages() {
		require.False(t, m.To == strangersPhone && m.Direction == twilio.DirectionAPI, "a STOP of ten minutes ago is not confirmed any more")
	}
	missed := b.log.events(t, "onboarding.missed_stop")
	require.NotEmpty(t, missed)
	require.Equal(t, "opt_out", missed[0]["consent_effect"])
}

// postForm posts a webhook of a text as Twilio would.
func (b *bundle) postForm(t *testing.T, form url.Values) (int, string) {
	t.Helper()
	target := b.services.URL() + "/api/webhooks/twilio/inbound"
	status, _, answer := b.post(t, target, http.Header{
		"Content-Type": {"application/x-www-form-urlencoded"}, "X-Twilio-Signature": {twilio.Sign(stack.AuthToken, target, form)},
	}, form.Encode())
	return status, answer
}
