package stack_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"paceline.internal/deploy/stack"
	"paceline.internal/emulators/twilio"
	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
)

// textJSON is one text of the outbound queue.
type textJSON struct {
	TextID        string     `json:"text_id"`
	Status        string     `json:"status"`
	Failure       string     `json:"failure"`
	Explanation   string     `json:"explanation"`
	MessageID     string     `json:"message_id"`
	MessageStatus string     `json:"message_status"`
	SendAt        time.Time  `json:"send_at"`
	ExpiresAt     time.Time  `json:"expires_at"`
	EndedAt       *time.Time `json:"ended_at"`
}

// soon is as exact as a time can be here: until moves the clock much faster than the machine's.
const soon = 15 * time.Second

// unenrolled is a number that no profile has.
const unenrolled = "+14155559901"

// queue asks for one text.
func (b *bundle) queue(t *testing.T, fields map[string]any) textJSON {
	t.Helper()
	var answer struct {
		Text textJSON `json:"text"`
	}
	request := map[string]any{"to": unenrolled}
	maps.Copy(request, fields)
	b.call(t, http.MethodPost, "/v1/outbound", request, &answer)
	return answer.Text
}

// queued reads one text.
func (b *bundle) queued(t *testing.T, id string) textJSON {
	t.Helper()
	var answer struct {
		Text textJSON `json:"text"`
	}
	b.call(t, http.MethodGet, "/v1/outbound/"+id, nil, &answer)
	return answer.Text
}

// ends lets time pass until a text of the queue is at its end.
func (b *bundle) ends(t *testing.T, id, how string) (text textJSON) {
	t.Helper()
	b.until(t, "the text is "+how, func() bool {
		text = b.queued(t, id)
		return text.EndedAt != nil
	})
	require.Equal(t, how, text.Status, "%+v", text)
	return text
}

// texted returns what a number got, and when.
func (b *bundle) texted(number string) map[string]time.Time {
	texts := map[string]time.Time{}
	for _, m := range b.vendors.Twilio.Messages() {
		if m.Direction == twilio.DirectionAPI && m.To == number {
			texts[m.Body] = m.CreatedAt
		}
	}
	return texts
}

// TestOutboundQueue checks what is sent next to a conversation.
func TestOutboundQueue(t *testing.T) {
	t.Parallel()
	t.Run("S0_07_AConversationLeavesNoRowInItAndAnotherMessageDoesNotMoveTheBurst", burstBesideAReminder)
	// Also: S0-16
	t.Run("R_08_AHoldStopsTheBurstAndTheQueueUntilTheRelease", holdOverBothServices)
	t.Run("SendsAtTheTimeThatAClientAsksForOverARestart", queueOfAClient)
}

func burstBesideAReminder(t *testing.T) {
	t.Parallel()
	b := setup(t, "OUTBOUND_POLL", "20ms")
	p := b.begin(t)
	p.hears(t, 3)
	before := p.session(t)
	conn, err := grpc.NewClient(b.services.Addresses.Messaging, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	messages := messagingv1.NewMessagingServiceClient(conn)
	service := b.as(t, rpc.Principal{Subject: rpc.Onboarding, OrgID: stack.OrgID, Role: rpc.RoleService})
	for _, want := range []messagingv1.Outcome{messagingv1.Outcome_OUTCOME_ACCEPTED, messagingv1.Outcome_OUTCOME_ALREADY_ACCEPTED} {
		answer, err := messages.Send(service, &messagingv1.SendRequest{
			OrgId: stack.OrgID, ProfileId: p.id, To: p.phone, Body: "Your table is at eight.", IdempotencyKey: "reminder:1",
		})
		require.NoError(t, err)
		require.Equal(t, want, answer.GetOutcome())
	}
	require.Len(t, p.heard(), 4)
	require.Equal(t, before, p.session(t))
	b.restart(t)
	p.reaches(t, atInterview)
	p.says(t, p.ready)
	p.reaches(t, interviewing)
	b.rest(t)
	p.requirePaced(t)
	require.Len(t, p.heard(), 7, "six of the conversation and the reminder")
	require.Zero(t, count(t, b.messaging, `select count(*) from sms_messages where idempotency_key like 'outbound:%'`))
	require.Zero(t, count(t, b.messaging, `select count(*) from sms_outbound_jobs`))
	require.Zero(t, count(t, b.messaging, `select n_tup_ins::int from pg_stat_user_tables where relname = 'sms_outbound_jobs'`), "nor ever had one")
}

func holdOverBothServices(t *testing.T) {
	t.Parallel()
	b := setup(t, "OUTBOUND_POLL", "20ms")
	p := b.begin(t)
	p.hears(t, 4)
	b.call(t, http.MethodPost, "/v1/profiles/"+p.id+":hold", map[string]string{"reason": "a worrying reply"}, nil)
	reminder := b.queue(t, map[string]any{"to": p.phone, "idempotency_key": "h", "purpose": "reminder", "body": "Quokka match at two"})
	b.until(t, "the text waits for the release", func() bool { return strings.Contains(b.queued(t, reminder.TextID).Explanation, "safety hold") })
	p.says(t, "Is anybody there at all?")
	b.rest(t)
	p.requireHeard(t, opening, explanation, message1, message2)
	require.Equal(t, "safety_hold", b.log.events(t, "onboarding.step_skipped")[0]["reason"])
	require.Equal(t, "onboarding_message_3", p.session(t).NextStepID)

	b.call(t, http.MethodPost, "/v1/profiles/"+p.id+":release", struct{}{}, nil)
	b.ends(t, reminder.TextID, "completed")
	p.reaches(t, atInterview)
	p.says(t, p.ready)
	p.reaches(t, interviewing)
	b.rest(t)
	p.requirePaced(t)
	require.Len(t, p.heard(), 7, "six of the conversation and the reminder")
}

// queueOfAClient is the queue as a client of the API sees it.
func queueOfAClient(t *testing.T) {
	t.Parallel()
	b := setup(t, "OUTBOUND_POLL", "20ms")
	at := noon.Add(time.Hour)
	reminder := b.queue(t, map[string]any{"idempotency_key": "r", "purpose": "reminder", "body": "Quokka match at two", "send_at": at})
	require.Equal(t, "pending", reminder.Status)
	require.Equal(t, at, reminder.SendAt)
	dropped := b.queue(t, map[string]any{"idempotency_key": "d", "purpose": "invite", "body": "Quokka party tonight", "send_at": at})
	code := b.queue(t, map[string]any{"idempotency_key": "c", "purpose": "otp", "body": "Quokka code 991122"})
	sent := b.ends(t, code.TextID, "completed")
	require.NotEmpty(t, sent.MessageID)
	texts := b.texted(unenrolled)
	require.Len(t, texts, 1, "nothing else")
	require.WithinDuration(t, noon, texts["Quokka code 991122"], soon)

	again := b.queue(t, map[string]any{"idempotency_key": "c", "purpose": "otp", "body": "Quokka code 991122"})
	require.Equal(t, code.TextID, again.TextID)
	require.Equal(t, "REASON_IDEMPOTENCY_KEY_REUSED", b.refused(t, b.operator, http.MethodPost, "/v1/outbound",
		map[string]any{"to": unenrolled, "idempotency_key": "c", "purpose": "otp", "body": "Quokka code 000000"}, http.StatusConflict))

	b.restart(t)
	b.call(t, http.MethodPost, "/v1/outbound/"+dropped.TextID+":cancel", struct{}{}, nil)
	require.Equal(t, "cancelled", b.queued(t, dropped.TextID).Status)
	b.advanceTo(t, at.Add(-time.Second))
	b.ends(t, reminder.TextID, "completed")
	texts = b.texted(unenrolled)
	require.Len(t, texts, 2, "the cancelled one is never sent")
	require.False(t, texts["Quokka match at two"].Before(at), "not before its time")
	require.WithinDuration(t, at, texts["Quokka match at two"], soon)
	b.until(t, "the reminder is delivered", func() bool { return b.queued(t, reminder.TextID).MessageStatus == "delivered" })
	require.Equal(t, "REASON_NOT_CANCELLABLE",
		b.refused(t, b.operator, http.MethodPost, "/v1/outbound/"+reminder.TextID+":cancel", struct{}{}, http.StatusBadRequest))

	var page struct {
		Texts []textJSON `json:"texts"`
	}
	b.call(t, http.MethodGet, "/v1/outbound?status=completed", nil, &page)
	require.Len(t, page.Texts, 2)

	require.Equal(t, http.StatusOK, func() int { s, _ := b.postText(t, "SM"+strings.Repeat("9", 32), unenrolled, "STOP"); return s }())
	late := b.queue(t, map[string]any{"idempotency_key": "l", "purpose": "otp", "body": "Quokka code 334455"})
	require.Equal(t, "opted_out", b.ends(t, late.TextID, "failed").Failure, "consent holds for the queue too")
	require.Len(t, b.texted(unenrolled), 2)
}
