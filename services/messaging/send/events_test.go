package send_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	emulator "paceline.internal/emulators/twilio"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sendtest"
)

// everyEvent is all that messaging tells.
var everyEvent = []string{
	"message.accepted", "message.delivered", "message.undelivered", "message.received", "consent.opted_in", "consent.opted_out",
}

// takes fetches what waits, as onboarding does.
func (b *bundle) takes(done ...int64) []send.Event {
	b.T.Helper()
	events, err := b.Store.Events(b.T.Context(), done, everyEvent, 100)
	require.NoError(b.T, err)
	return events
}

// told are the types of what waits.
func (b *bundle) told() (types []string) {
	b.T.Helper()
	for _, e := range b.takes() {
		types = append(types, e.Type)
	}
	return types
}

func TestEvents(t *testing.T) {
	t.Parallel()
	begin := func(t *testing.T) *bundle {
		t.Helper()
		b := setup(t)
		b.takes() // now it is known what is wanted
		return b
	}
	t.Run("AMessageIsToldOnceAcceptedAndOnceDelivered", func(t *testing.T) {
		t.Parallel()
		b := begin(t)
		sent := b.Send("").Message
		b.Pass(time.Minute)
		require.Equal(t, []string{"consent.opted_in", "message.accepted", "message.delivered"}, b.told())
		events := b.takes()
		accepted := events[1]
		require.Equal(t, sendtest.Key, accepted.CausationID, "the step of onboarding")
		require.Equal(t, sent.ProfileID.String(), accepted.ProfileID)
		require.True(t, sent.AcceptedAt.Equal(accepted.Time))
		require.Contains(t, accepted.Data, sent.ID.String())
		require.Equal(t, uuid.Version(7), uuid.MustParse(accepted.EventID).Version())
		for _, e := range events {
			require.Equal(t, sendtest.Theirs, e.Phone, "for onboarding to find the person by")
			require.NotContains(t, e.Data, strings.TrimPrefix(sendtest.Theirs, "+"))
			require.NotContains(t, e.Data, sendtest.Body)
		}
		require.Len(t, b.takes(events[0].Row, events[1].Row), 1, "what is stored there goes")
		require.Len(t, b.takes(events[0].Row), 1)
	})

	t.Run("AReceiptThatIsQuickerThanTheAnswerTellsBoth", func(t *testing.T) {
		t.Parallel()
		b := begin(t)
		b.Emulator.SetScript(sendtest.Lose(emulator.AnswerReset, true))
		require.Equal(t, send.Unknown, b.Send("").Outcome)
		require.Equal(t, []string{"consent.opted_in"}, b.told())
		b.Pass(time.Minute)
		require.Equal(t, []string{"consent.opted_in", "message.accepted", "message.delivered"}, b.told())
	})

	t.Run("ARefusedMessageIsToldAndSoIsWhatAPersonWritesAndWants", func(t *testing.T) {
		t.Parallel()
		b := begin(t)
		b.Emulator.SetScript(sendtest.Lose(emulator.AnswerReset, true))
		b.Receive("SM00000000000000000000000000000001", "hello")
		b.Receive("SM00000000000000000000000000000002", "STOP")
		b.Receive("SM00000000000000000000000000000003", "stop")
		b.Receive("SM00000000000000000000000000000004", "START")
		require.Equal(t, []string{
			"message.received", "message.received", "consent.opted_out", "message.received", "message.received", "consent.opted_in",
		}, b.told())
		require.Equal(t, "message:"+b.takes()[1].Data[len(`{"status": "received", "segments": 1, "message_id": "`):][:36], b.takes()[2].CausationID)
	})

	t.Run("WhatIsNotWantedIsNotWritten", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Send("before onboarding asks")
		require.Empty(t, b.told())
		_, err := b.Store.Events(t.Context(), nil, []string{"message.delivered"}, 10)
		require.NoError(t, err)
		b.Send("another")
		b.Pass(time.Minute)
		var types []string
		rows, err := b.Pool.Query(t.Context(), `select distinct type from event_outbox`)
		require.NoError(t, err)
		types, err = pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		require.Equal(t, []string{"message.delivered"}, types)
	})

	t.Run("AHeldTransactionDelaysItsOwnEventsAndNoOthers", func(t *testing.T) {
		t.Parallel()
		b := begin(t)
		held, err := b.Pool.Begin(t.Context())
		require.NoError(t, err)
		defer func() { _ = held.Rollback(context.Background()) }() // when the test ends early
		_, err = held.Exec(t.Context(), `insert into event_outbox (event_id, org_id, type, phone, time, causation_id, data)
			values (gen_random_uuid(), $1, 'message.accepted', '', now(), 'held', jsonb_build_object('message_id', gen_random_uuid(), 'status', 'accepted'))`, b.Config.Senders.Environment.OrgID)
		require.NoError(t, err)
		b.Receive("SM00000000000000000000000000000001", "hello")
		seen := b.takes()
		require.Len(t, seen, 1)
		require.NoError(t, held.Commit(t.Context()))
		late := b.takes(seen[0].Row)
		require.Len(t, late, 1)
		require.Equal(t, "held", late[0].CausationID)
		require.Less(t, late[0].Row, seen[0].Row, "its number is older than what was fetched before")
	})

	t.Run("WhatIsNeverFetchedIsDroppedAfterAWhile", func(t *testing.T) {
		t.Parallel()
		b := begin(t)
		b.Receive("SM00000000000000000000000000000001", "hello")
		at := b.Clock.Now()
		n, err := b.Store.DropEvents(t.Context(), at, 10)
		require.NoError(t, err)
		require.Zero(t, n)
		n, err = b.Store.DropEvents(t.Context(), at.Add(time.Second), 10)
		require.NoError(t, err)
		require.Equal(t, 1, n)
	})
}
