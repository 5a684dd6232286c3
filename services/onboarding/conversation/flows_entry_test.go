package conversation_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/roster"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/inbound"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/people"
)

// TestStranger texts the keyword of a flow from a phone without a profile.
func TestStranger(t *testing.T) {
	t.Parallel()
	begin := func(t *testing.T) *bundle {
		b := setup(t)
		_, err := b.Store.Flows().Publish(t.Context(), onboardingtest.OrgID, map[string]string{
			"flow.yaml": "flow: join\nlanguages: [en, pt-BR]\nentry: {keywords: [JOIN, ENTRAR]}\nstart: hello\n" +
				"steps:\n  hello: {send: HELLO, wait: reply, then: done}\n  done: {end: completed}\n",
			"en.yaml": "texts:\n  HELLO: Hi {first_name|there}\n", "pt-BR.yaml": "texts:\n  HELLO: Oi {first_name|de novo}\n",
		}, b.Clock.Now())
		require.NoError(t, err)
		return b
	}

	t.Run("IsEnrolledAndAgrees", func(t *testing.T) {
		t.Parallel()
		for from, want := range map[string]struct{ locale, text string }{
			"+12025550147": {"en", "Hi there"}, "+5511987659999": {"pt-BR", "Oi de novo"}, "+4915123456789": {"en", "Hi there"},
		} {
			b := begin(t)
			stranger := people.Profile{Phone: from}
			b.Reply(stranger, "what is this?")
			require.Zero(t, b.Count(`select count(*) from profiles`), "no other word enrols")
			joined := b.Reply(stranger, "Entrar!")
			b.Pass(time.Second)
			require.Equal(t, []string{b.Messaging.Inbound(joined).GetProfileId()},
				onboardingtest.List[string](b.Bundle, `select id::text from profiles`), "the text is theirs")
			require.Equal(t, []string{want.text}, said(b, stranger))
			require.Equal(t, []string{"- " + want.locale},
				onboardingtest.List[string](b.Bundle, `select first_name || ' ' || locale from profiles where phone = $1`, from))
			consent := b.Messaging.Attempts()[0].GetConsent()
			require.Equal(t, []string{inbound.EntrySource, "Entrar!"}, []string{consent.GetSource(), consent.GetWordsShown()})
			b.Reply(stranger, "join") // an answer by now
			b.Pass(time.Second)
			require.Equal(t, 1, b.Count(`select count(*) from conversation_sessions where status = 'closed'`))
		}
	})

	t.Run("WhoIsOutIsNotEnrolled", func(t *testing.T) {
		t.Parallel()
		b := begin(t)
		stranger := people.Profile{Phone: "+12025550147"}
		b.Reply(stranger, "STOP")
		b.Reply(stranger, "join")
		b.Pass(time.Second)
		require.Zero(t, b.Count(`select count(*) from profiles`))
		require.Empty(t, said(b, stranger))
	})

	t.Run("NeedsANameForTheBuiltInConversation", func(t *testing.T) {
		t.Parallel()
		b := begin(t)
		p, err := b.Current().Persons.EnrolStranger(t.Context(), onboardingtest.OrgID, "+12025550147", []string{"en"})
		require.NoError(t, err)
		_, err = b.Current().Service.Begin(t.Context(), onboardingtest.OrgID, conversation.Start{ProfileID: p.ID})
		require.ErrorIs(t, err, roster.ErrInvalid)
		require.Zero(t, b.Sessions())
	})
}
