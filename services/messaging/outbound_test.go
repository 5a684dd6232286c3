package messaging

import (
	"cmp"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/postgres/pgtest"
	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/outbound"
	"paceline.internal/services/messaging/schema"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/senders"
	"paceline.internal/services/messaging/sendtest"
)

func setupOutbound(t *testing.T) clients {
	t.Helper()
	sender, now := sendtest.Only(senders.Sender{OrgID: uuid.MustParse(orgA), Number: ours}), func() time.Time { return noon }
	pool := pgtest.New(t, schema.Migrations())
	sending := send.New(send.Config{Store: sendtest.NewStore(pool), Senders: sender, Now: now})
	return serve(t, rooms{
		sending: sending,
		intake:  &outbound.Intake{Store: outbound.NewStore(pool), Send: sending, Senders: sender, Log: slog.New(slog.DiscardHandler), Now: now},
	})
}

func ask(key string) *messagingv1.EnqueueTextRequest {
	return &messagingv1.EnqueueTextRequest{
		IdempotencyKey: key, To: theirs, Body: "See you at noon.", Purpose: "reminder", ProfileId: ana,
		SendAt: timestamppb.New(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)),
	}
}

func TestOutbound(t *testing.T) {
	t.Parallel()
	s := setupOutbound(t)
	operator := as(t, rpc.RoleOperator, orgA, "op")
	answer, err := s.EnqueueText(operator, ask("k"))
	require.NoError(t, err)
	require.False(t, answer.GetDuplicate())
	stored := answer.GetText()
	require.Equal(t, "pending", stored.GetStatus())
	require.Equal(t, "2026-11-21T09:00:00Z", stored.GetNextAttemptAt().AsTime().Format(time.RFC3339))
	require.Equal(t, "2026-11-21T15:00:00Z", stored.GetExpiresAt().AsTime().Format(time.RFC3339))
	require.Equal(t, []string{ana, theirs, "See you at noon.", "reminder", "k"},
		[]string{stored.GetProfileId(), stored.GetTo(), stored.GetBody(), stored.GetPurpose(), stored.GetIdempotencyKey()})
	require.Nil(t, stored.GetEndedAt())
	require.Empty(t, stored.GetMessageId())

	t.Run("RepeatIsTheSameText", func(t *testing.T) {
		t.Parallel()
		again, err := s.EnqueueText(operator, ask("k"))
		require.NoError(t, err)
		require.True(t, again.GetDuplicate())
		require.Equal(t, stored.GetTextId(), again.GetText().GetTextId())
	})

	t.Run("IsReadByItsIDAndListedInPages", func(t *testing.T) {
		t.Parallel()
		s := setupOutbound(t)
		for _, key := range []string{"1", "2", "3"} {
			_, err := s.EnqueueText(operator, ask(key))
			require.NoError(t, err)
		}
		var keys []string
		for token := ""; ; {
			page, err := s.ListQueuedTexts(operator, &messagingv1.ListQueuedTextsRequest{
				Status: "pending", Purpose: "reminder", ProfileId: ana, PageSize: 2, PageToken: token,
			})
			require.NoError(t, err)
			for _, text := range page.GetTexts() {
				got, err := s.GetQueuedText(operator, &messagingv1.GetQueuedTextRequest{TextId: text.GetTextId()})
				require.NoError(t, err)
				keys = append(keys, got.GetText().GetIdempotencyKey())
			}
			if token = page.GetNextPageToken(); token == "" {
				break
			}
		}
		require.Equal(t, []string{"3", "2", "1"}, keys)
	})

	t.Run("CancelledOneStaysSo", func(t *testing.T) {
		t.Parallel()
		s := setupOutbound(t)
		answer, err := s.EnqueueText(operator, ask("k"))
		require.NoError(t, err)
		for range 2 {
			cancelled, err := s.CancelQueuedText(operator, &messagingv1.CancelQueuedTextRequest{TextId: answer.GetText().GetTextId()})
			require.NoError(t, err)
			require.Equal(t, "cancelled", cancelled.GetText().GetStatus())
			require.NotNil(t, cancelled.GetText().GetEndedAt())
		}
	})

	t.Run("IsHiddenFromAnotherOrganisation", func(t *testing.T) {
		t.Parallel()
		other := as(t, rpc.RoleOperator, orgB, "op")
		_, err := s.GetQueuedText(other, &messagingv1.GetQueuedTextRequest{TextId: stored.GetTextId()})
		requireRefused(t, err, codes.NotFound, messagingv1.Reason_REASON_QUEUED_TEXT_NOT_FOUND)
		_, err = s.CancelQueuedText(other, &messagingv1.CancelQueuedTextRequest{TextId: stored.GetTextId()})
		requireRefused(t, err, codes.NotFound, messagingv1.Reason_REASON_QUEUED_TEXT_NOT_FOUND)
		page, err := s.ListQueuedTexts(other, &messagingv1.ListQueuedTextsRequest{})
		require.NoError(t, err)
		require.Empty(t, page.GetTexts())
		_, err = s.EnqueueText(other, ask("k"))
		requireRefused(t, err, codes.FailedPrecondition, messagingv1.Reason_REASON_ORGANISATION_WITHOUT_SENDER)
	})
}

func TestOutboundSaysWhatMakesATextDearer(t *testing.T) {
	t.Parallel()
	s := setupOutbound(t)
	operator := as(t, rpc.RoleOperator, orgA, "op")
	for _, tt := range []struct {
		name, body string
		stored     string // the body where it is another
		want       string
	}{
		{name: "Plain", body: "See you at noon. €5 {ok}", want: "1 GSM-7"},
		{name: "LettersOfGSM7", body: "Olà Ñandú é", want: "1 UCS-2 ú U+00FA ?"},
		{name: "QuotesAreSentAsTheyAre", body: "It’s – ok\u200b", want: "1 UCS-2 ’ U+2019 ' – U+2013 - \u200b U+200B "},
		{name: "LettersAndEmoji", body: strings.Repeat("não 👋 ", 12), want: "2 UCS-2 ã U+00E3 ? 👋 U+1F44B ?"},
		{name: "AccentsApartAreComposed", body: "e\u0301 a\u0303", stored: "é ã", want: "1 UCS-2 ã U+00E3 ?"},
		{name: "AccentsOfGSM7ThatWereApart", body: "cafe\u0301", stored: "café", want: "1 GSM-7"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in := ask(tt.name)
			in.Body = tt.body
			answer, err := s.EnqueueText(operator, in)
			require.NoError(t, err)
			require.Equal(t, cmp.Or(tt.stored, tt.body), answer.GetText().GetBody())
			said := fmt.Sprintf("%d %s", answer.GetText().GetSegments(), answer.GetText().GetEncoding())
			for _, c := range answer.GetText().GetDearerCharacters() {
				instead := "?"
				if c.Instead != nil {
					instead = c.GetInstead()
				}
				said += fmt.Sprintf(" %s %s %s", c.GetCharacter(), c.GetCodePoint(), instead)
			}
			require.Equal(t, tt.want, said)
			again, err := s.GetQueuedText(operator, &messagingv1.GetQueuedTextRequest{TextId: answer.GetText().GetTextId()})
			require.NoError(t, err)
			require.Equal(t, answer.GetText().GetEncoding(), again.GetText().GetEncoding())
		})
	}
}

func TestOutboundRefusals(t *testing.T) {
	t.Parallel()
	s := setupOutbound(t)
	operator := as(t, rpc.RoleOperator, orgA, "op")
	_, err := s.EnqueueText(operator, ask("used"))
	require.NoError(t, err)
	for _, c := range []struct {
		name   string
		change func(r *messagingv1.EnqueueTextRequest)
		code   codes.Code
		want   messagingv1.Reason
	}{
		{name: "NoKey", change: func(r *messagingv1.EnqueueTextRequest) { r.IdempotencyKey = "" }},
		{name: "BadPhone", change: func(r *messagingv1.EnqueueTextRequest) { r.To = "4155550123" }},
		{name: "BlankBody", change: func(r *messagingv1.EnqueueTextRequest) { r.Body = "  " }},
		{name: "InvisibleBody", change: func(r *messagingv1.EnqueueTextRequest) { r.Body = "\u200b\ufe0f" }},
		{name: "LongBody", change: func(r *messagingv1.EnqueueTextRequest) { r.Body = strings.Repeat("a", 1601) }},
		{name: "NoPurpose", change: func(r *messagingv1.EnqueueTextRequest) { r.Purpose = "" }},
		{name: "BadProfile", change: func(r *messagingv1.EnqueueTextRequest) { r.ProfileId = "ana" }},
		{name: "ZeroTime", change: func(r *messagingv1.EnqueueTextRequest) { r.SendAt = timestamppb.New(time.Time{}) }},
		{name: "AbsurdTime", change: func(r *messagingv1.EnqueueTextRequest) {
			r.ExpiresAt = timestamppb.New(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))
		}},
		{name: "TimeThatIsOver", change: func(r *messagingv1.EnqueueTextRequest) {
			r.SendAt = timestamppb.New(time.Date(2026, 11, 20, 5, 59, 0, 0, time.UTC)) // six hours is a reminder's validity
		}},
		{name: "BadTime", change: func(r *messagingv1.EnqueueTextRequest) { r.SendAt = &timestamppb.Timestamp{Nanos: -1} }},
		{name: "BadExpiry", change: func(r *messagingv1.EnqueueTextRequest) { r.ExpiresAt = &timestamppb.Timestamp{Nanos: -1} }},
		{name: "BadPolicy", change: func(r *messagingv1.EnqueueTextRequest) { r.UnknownPolicy = 7 }},
		{
			name: "KeyReused", change: func(r *messagingv1.EnqueueTextRequest) { r.Body = "Something else." },
			code: codes.AlreadyExists, want: messagingv1.Reason_REASON_IDEMPOTENCY_KEY_REUSED,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := ask("used")
			c.change(r)
			_, err := s.EnqueueText(operator, r)
			if c.code == 0 {
				c.code, c.want = codes.InvalidArgument, messagingv1.Reason_REASON_INVALID
			}
			requireRefused(t, err, c.code, c.want)
		})
	}
	for _, r := range []*messagingv1.ListQueuedTextsRequest{
		{Status: "sent"}, {Purpose: "spam"}, {PageSize: 501}, {PageToken: "?"}, {ProfileId: "ana"}, {IdempotencyKey: "\x00"},
	} {
		_, err := s.ListQueuedTexts(operator, r)
		requireRefused(t, err, codes.InvalidArgument, messagingv1.Reason_REASON_INVALID)
	}
	_, err = s.GetQueuedText(operator, &messagingv1.GetQueuedTextRequest{TextId: "1"})
	requireRefused(t, err, codes.InvalidArgument, messagingv1.Reason_REASON_INVALID)
}

// TestQueueHasTheKeyOfDigests: without it the key of a code would answer other words once its own are deleted.
func TestQueueHasTheKeyOfDigests(t *testing.T) {
	t.Parallel()
	require.True(t, newStores(nil, consent.NewPseudonyms("a key of at least 32 bytes ........")).outbound.Pseudonyms.Known())
}

// TestNoServiceHasAPartInTheQueue is half of what keeps onboarding's bursts out of it: its calls are a service's.
func TestNoServiceHasAPartInTheQueue(t *testing.T) {
	t.Parallel()
	rules, err := rpc.Rules(messagingv1.OutboundService_ServiceDesc.ServiceName)
	require.NoError(t, err)
	require.NotEmpty(t, rules)
	for method, rule := range rules {
		require.NotContains(t, rule.Callers, rpc.RoleService, method)
	}
}
