package inbound_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	emulator "paceline.internal/emulators/twilio"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/inbound"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/senders"
	"paceline.internal/services/messaging/sendtest"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

const serviceSID = "MG0123456789abcdef0123456789abcdef"

// pool is Twilio with a messaging service of two numbers, each of which has got as many texts as it has pages.
type pool struct {
	numbers []string
	pages   map[string][][]twilio.Incoming
	asked   []string
}

func (p *pool) ServiceNumbers(_ context.Context, sid string) ([]string, error) {
	if sid != serviceSID {
		return nil, errors.New("no such service")
	}
	return p.numbers, nil
}

func (p *pool) ListInbound(_ context.Context, to string, _, _ time.Time, page string) ([]twilio.Incoming, string, error) {
	p.asked = append(p.asked, to+page)
	if page == "" {
		if len(p.pages[to]) > 1 {
			return p.pages[to][0], "/second", nil
		}
		return p.pages[to][0], "", nil
	}
	return p.pages[to][1], "", nil
}

func TestInboundSweep(t *testing.T) {
	t.Parallel()

	t.Run("SaysWhichTextsAreNotRecorded", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		service := b.inbox(nil)
		heard, err := b.Emulator.Receive(t.Context(), theirs, ours, "hello")
		require.NoError(t, err)
		b.Receive(heard.MessageSID, "hello")
		b.Clock.Advance(time.Minute)
		missed, err := b.Emulator.ReceiveText(t.Context(), emulator.Incoming{From: theirs, To: ours, Body: "STOP\x00"})
		require.NoError(t, err)
		now := b.Clock.Now()
		page, err := service.ListInbound(t.Context(), inbound.Span{OrgID: b.Config.Senders.Environment.OrgID, Since: now.Add(-time.Hour), Until: now})
		require.NoError(t, err)
		require.Empty(t, page.Next)
		require.Len(t, page.Messages, 2)
		require.Equal(t, inbound.Listed{Incoming: twilio.Incoming{
			SID: missed.MessageSID, From: theirs, To: ours, Body: "STOP", Segments: 1, SentAt: now,
		}}, page.Messages[0], "storable, as every text")
		require.True(t, page.Messages[1].Recorded)
		stored, err := b.Store.RecordedSIDs(t.Context(), []string{heard.MessageSID, missed.MessageSID})
		require.NoError(t, err)
		require.Equal(t, []string{heard.MessageSID}, stored, "it records nothing")
	})

	t.Run("TextAheadOfOnboardingIsNotRecorded", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		service := b.inbox(nil)
		for sid, words := range map[string]string{"SM1": "STOP", "SM2": "hello"} {
			text := b.Inbound(sid, words)
			text.ProfileID, text.Ahead = uuid.Nil, true
			ahead, err := service.RecordInbound(t.Context(), text)
			require.NoError(t, err)
			stored, err := b.Store.RecordedSIDs(t.Context(), []string{sid})
			require.NoError(t, err)
			require.Empty(t, stored)

			text.ProfileID, text.Ahead = uuid.Must(uuid.NewV7()), false
			for range 2 {
				again, err := service.RecordInbound(t.Context(), text)
				require.NoError(t, err)
				require.Equal(t, ahead.ID, again.ID)
				text.Ahead = true // a delivery that Twilio repeats changes nothing
			}
			stored, err = b.Store.RecordedSIDs(t.Context(), []string{sid})
			require.NoError(t, err)
			require.Equal(t, []string{sid}, stored)
			page, err := b.Store.Messages(t.Context(), send.Query{OrgID: ahead.OrgID, ProfileID: text.ProfileID, Before: uuid.Max, Limit: 2})
			require.NoError(t, err)
			require.Len(t, page, 1, "the person is known now")
		}
		require.Equal(t, consent.OptedOut, b.Ledger().State)
	})

	t.Run("GoesThroughEveryNumberOfTheService", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		const other = "+14155550101"
		carrier := &pool{numbers: []string{ours, other}, pages: map[string][][]twilio.Incoming{
			ours:  {{{SID: "SM1", To: ours}}, {{SID: "SM2", To: ours}}},
			other: {{{SID: "SM3", To: other}}},
		}}
		sender := sendtest.Only(senders.Sender{OrgID: uuid.Must(uuid.NewV7()), ServiceSID: serviceSID, Number: ours})
		service := b.Inbox(b.Service(func(c *send.Config) { c.Senders = sender }), func(c *inbound.Config) { c.Twilio = carrier })
		span := inbound.Span{OrgID: sender.Environment.OrgID, Since: b.Clock.Now().Add(-time.Hour), Until: b.Clock.Now()}
		var got []string
		for {
			page, err := service.ListInbound(t.Context(), span)
			require.NoError(t, err)
			for _, m := range page.Messages {
				got = append(got, m.SID)
				owner, err := sender.Owner(t.Context(), "", m.To, m.ServiceSID)
				require.NoError(t, err, "it is ours in the way that RecordInbound sees it")
				require.Equal(t, sender.Environment.OrgID, owner.OrgID)
			}
			if span.Page = page.Next; span.Page == "" {
				break
			}
		}
		require.Equal(t, []string{"SM1", "SM2", "SM3"}, got)
		require.Equal(t, []string{ours, ours + "/second", other}, carrier.asked, "each number once, ours too")
	})

	t.Run("Refuses", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		now := b.Clock.Now()
		service := b.inbox(nil)
		good := inbound.Span{OrgID: b.Config.Senders.Environment.OrgID, Since: now, Until: now}
		for name, tc := range map[string]struct {
			edit func(*inbound.Span)
			want error
		}{
			"AnotherOrganisation": {func(s *inbound.Span) { s.OrgID = uuid.Must(uuid.NewV7()) }, senders.ErrNoSender},
			"NoSpan":              {func(s *inbound.Span) { s.Until = s.Since.Add(-time.Second) }, sms.ErrInvalid},
			"ForeignToken":        {func(s *inbound.Span) { s.Page = "x" }, sms.ErrInvalid},
			"EmptyToken":          {func(s *inbound.Span) { s.Page = "e30" }, sms.ErrInvalid},
		} {
			span := good
			tc.edit(&span)
			_, err := service.ListInbound(t.Context(), span)
			require.ErrorIs(t, err, tc.want, name)
		}
		b.Emulator.Close()
		_, err := b.inbox(func(c *send.Config) {
			environment := c.Senders.Environment
			environment.ServiceSID = "MGunknown"
			c.Senders = sendtest.Only(environment)
		}).ListInbound(t.Context(), good)
		require.ErrorIs(t, err, sms.ErrUnavailable, "Twilio does not know the service")
	})
}
