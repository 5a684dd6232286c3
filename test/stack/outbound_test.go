package stack_test

import (
	"context"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"paceline.internal/deploy/stack"
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

// TestOutboundQueue checks what is sent next to a conversation.
func TestOutboundQueue(t *testing.T) {
	t.Parallel()
	t.Run("S0_07_AConversationLeavesNoRowInItAndAnotherMessageDoesNotMoveTheBurst", burstBesideAReminder)
	// Also: S0-16
	t.Run("R_08_AHoldStopsTheBurstAndTheQueueUntilTheRelease", holdOverBothServices)
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
	p.says(t, "My sister had a worrying day")
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

// as returns a context with a token for a principal in its calls.
func (b *bundle) as(t *testing.T, p rpc.Principal) context.Context {
	t.Helper()
	token, err := b.services.Secrets.ServiceToken(p, b.clock.Now, time.Hour)
	require.NoError(t, err)
	return metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
}
