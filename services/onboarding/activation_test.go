package onboarding_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/messagingtest"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/session"
)

func TestActivation(t *testing.T) {
	t.Parallel()

	t.Run("S0_60_S0_08_SendsTheOpeningAloneAndOnce", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.person()
		require.Empty(t, b.messaging.Taken(p.Phone), "somebody who is only enrolled gets nothing")
		r := b.activate(p)
		require.Equal(t, session.AwaitingOpeningResponse, r.Token)
		require.Equal(t, r, b.activate(p), "the second activation returns the session as it is")
		b.pass(10 * time.Minute)
		require.Equal(t, []string{opening}, b.sequence(p))
		require.Zero(t, b.count(`select count(*) from step_alarms`))
		require.Equal(t, []session.Kind{session.KindActivated, session.KindSent}, b.story(r.ID))
	})

	t.Run("S0_61_NothingFollowsWithoutAReply", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.person()
		b.activate(p)
		b.pass(20 * time.Minute)
		require.Equal(t, []string{opening}, b.sequence(p))
		b.reply(p, "hi")
		b.pass(20 * time.Minute)
		require.Equal(t, []string{opening, explanation}, b.sequence(p))
	})

	t.Run("ConcurrentActivationsOpenOneSession", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.person()
		opened := make(chan string, 8)
		var calls sync.WaitGroup
		for range 8 {
			calls.Go(func() {
				if r, err := b.current().service.Activate(t.Context(), orgID, p.ID, nil); err == nil {
					opened <- r.ID
				}
			})
		}
		calls.Wait()
		close(opened)
		ids := map[string]int{}
		for id := range opened {
			ids[id]++
		}
		b.quiet()
		require.Len(t, ids, 1)
		require.Equal(t, 1, b.count(`select count(*) from conversation_sessions`))
		require.Equal(t, []string{opening}, b.sequence(p))
	})

	t.Run("OpeningThatCouldNotBeSentIsSentByTheLoop", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.person()
		b.messaging.Script(messagingtest.First(messagingtest.Unavailable, messagingtest.Throttle, messagingtest.UnknownMissed))
		r := b.activate(p)
		require.Empty(t, b.sequence(p))
		b.pass(time.Minute)
		b.messaging.Settle()
		b.quiet()
		require.Equal(t, []string{opening}, b.sequence(p))
		require.Equal(t, []session.Kind{session.KindActivated, session.KindSent}, b.story(r.ID))
	})

	t.Run("ReplyBeforeTheOpeningIsSettledWaitsForIt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.person()
		b.messaging.Script(messagingtest.First(messagingtest.UnknownTaken))
		r := b.activate(p)
		b.reply(p, "yes")
		b.pass(20 * time.Second)
		require.Equal(t, []string{opening}, b.sequence(p))
		b.messaging.Settle()
		b.quiet()
		require.Equal(t, []string{opening, explanation}, b.sequence(p))
		b.at(r.ID, session.AwaitingExplanationResponse, "")
		require.Equal(t, []session.Kind{session.KindActivated, session.KindSent, session.KindReplied, session.KindSent, session.KindAdvanced}, b.story(r.ID))
	})

	t.Run("ReplyWhileTheOpeningIsBeingSentIsAnsweredOnce", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.person()
		var once sync.Once
		b.messaging.Gate(func(*messagingv1.SendRequest) { once.Do(func() { b.reply(p, "yes") }) })
		r := b.activate(p)
		b.quiet()
		require.Equal(t, []string{opening, explanation}, b.sequence(p))
		b.at(r.ID, session.AwaitingExplanationResponse, "")
	})

	t.Run("RefusedOpeningParksTheSession", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.person()
		b.messaging.Script(messagingtest.First(messagingtest.Reject))
		require.Equal(t, session.Undeliverable, b.activate(p).Status)
	})

	t.Run("RefusesAPersonOnHold", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.person()
		_, err := b.current().service.Hold(t.Context(), orgID, p.ID, "")
		require.NoError(t, err)
		_, err = b.current().service.Activate(t.Context(), orgID, p.ID, nil)
		require.ErrorIs(t, err, conversation.ErrOnHold)
		require.Zero(t, b.count(`select count(*) from conversation_sessions`))
	})

	t.Run("RefusesAnOrganisationWithoutASender", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		other := newID()
		p, err := b.current().service.Enrol(t.Context(), other, conversation.Person{Phone: "+5511987651234", FirstName: "Bia"})
		require.NoError(t, err)
		_, err = b.current().service.Activate(t.Context(), other, p.ID, nil)
		require.ErrorIs(t, err, conversation.ErrNoSender)
		_, err = b.current().service.Activate(t.Context(), orgID, p.ID, nil)
		require.ErrorIs(t, err, conversation.ErrNoProfile, "another organisation's")
		require.Zero(t, b.count(`select count(*) from conversation_sessions`))
	})

	t.Run("OpeningOfWhichNothingIsEverLearntIsVisiblyStuck", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.person()
		b.messaging.Script(messagingtest.First(messagingtest.UnknownForever))
		r := b.activate(p)
		b.pass(10 * time.Minute)
		require.Equal(t, session.Active, b.session(r.ID).Status, "a receipt may still come")
		b.pass(25 * time.Minute)
		parked := b.session(r.ID)
		require.Equal(t, session.Stuck, parked.Status)
		require.Contains(t, parked.Reason, "nothing was heard")
		require.Equal(t, session.KindParked, b.story(r.ID)[len(b.story(r.ID))-1])
		require.Len(t, b.messaging.Attempts(), 1)
		require.Zero(t, b.count(`select count(*) from webhook_jobs where status <> 'completed'`), "or every later text would wait behind it")
	})

	t.Run("HoldRightAfterTheActivationKeepsTheOpeningBack", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p := b.person()
		b.messaging.Script(messagingtest.First(messagingtest.Throttle))
		b.activate(p)
		_, err := b.current().service.Hold(t.Context(), orgID, p.ID, "")
		require.NoError(t, err)
		b.pass(5 * time.Minute)
		require.Empty(t, b.sequence(p))
		_, err = b.current().service.Release(t.Context(), orgID, p.ID)
		require.NoError(t, err)
		b.quiet()
		require.Equal(t, []string{opening}, b.sequence(p))
	})
}

func TestReset(t *testing.T) {
	t.Parallel()

	t.Run("S0_57_NextActivationIsAnEpisodeOfItsOwn", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := b.explained()
		b.reply(p, "yes")
		b.quiet()
		closed, err := b.current().service.Reset(t.Context(), orgID, r.ID)
		require.NoError(t, err)
		require.Equal(t, session.Closed, closed.Status)
		again, err := b.current().service.Reset(t.Context(), orgID, r.ID)
		require.NoError(t, err)
		require.Equal(t, closed, again)
		require.Equal(t, session.KindClosed, b.story(r.ID)[len(b.story(r.ID))-1])

		b.clock.Advance(time.Minute)
		next := b.activate(p)
		require.NotEqual(t, r.ID, next.ID)
		b.reply(p, "yes")
		b.reply(p, "yes")
		b.quiet()
		all := []string{opening, explanation, first, second, third, fourth}
		require.Equal(t, append(all, all...), b.sequence(p))
		b.at(next.ID, session.AwaitingInterviewStart, "")
	})

	t.Run("OfAnotherOrganisationIsNotFound", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		r := b.activate(b.person())
		_, err := b.current().service.Reset(t.Context(), newID(), r.ID)
		require.ErrorIs(t, err, conversation.ErrNoSession)
		require.Equal(t, session.Active, b.session(r.ID).Status)
	})

	t.Run("DuringASendEndsTheSequence", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		p, r := b.inBurst(2)
		b.messaging.Gate(func(*messagingv1.SendRequest) {
			_, err := b.current().service.Reset(t.Context(), orgID, r.ID)
			require.NoError(t, err)
		})
		_, err := b.execute(payload(r))
		require.NoError(t, err)
		require.Equal(t, session.Closed, b.session(r.ID).Status)
		b.quiet()
		require.Equal(t, []string{opening, explanation, first, second}, b.sequence(p))
	})
}

func TestEnrolment(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, tt := range []struct {
		name   string
		person conversation.Person
		want   string // what is wrong, or empty
	}{
		{name: "International", person: conversation.Person{Phone: "+55 (11) 98765-4321", FirstName: "  Ana   Maria ", Locale: "PT-br", TimeZone: "America/Sao_Paulo"}},
		{name: "S0_68_NoName", person: conversation.Person{Phone: "+5511987650001"}, want: "first_name"},
		{name: "S0_68_NameWithoutALetter", person: conversation.Person{Phone: "+5511987650001", FirstName: "12 34"}, want: "first_name"},
		{name: "S0_68_NameWhoseLettersComeTooLate", person: conversation.Person{Phone: "+5511987650001", FirstName: "12345678901234567890 Ana"}, want: "first_name"},
		{name: "S0_68_NameOfEmoji", person: conversation.Person{Phone: "+5511987650001", FirstName: "🙂🙂"}, want: "first_name"},
		{name: "NameWithBraces", person: conversation.Person{Phone: "+5511987650001", FirstName: "{first_name}"}, want: "first_name"},
		{name: "NationalPhone", person: conversation.Person{Phone: "11987654321", FirstName: "Ana"}, want: "phone"},
		{name: "UnknownLocale", person: conversation.Person{Phone: "+5511987650001", FirstName: "Ana", Locale: "fr"}, want: "locale"},
		{name: "UnknownZone", person: conversation.Person{Phone: "+5511987650001", FirstName: "Ana", TimeZone: "Local"}, want: "time_zone"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, err := b.current().service.Enrol(t.Context(), orgID, tt.person)
			if tt.want != "" {
				require.ErrorIs(t, err, conversation.ErrInvalid)
				require.ErrorContains(t, err, tt.want)
				return
			}
			require.NoError(t, err)
			require.Equal(t, []string{"+5511987654321", "Ana Maria", "pt-BR", "America/Sao_Paulo"}, []string{p.Phone, p.FirstName, p.Locale, p.TimeZone})
		})
	}

	t.Run("EverythingThatIsWrongAtOnce", func(t *testing.T) {
		t.Parallel()
		_, err := b.current().service.Enrol(t.Context(), orgID, conversation.Person{Phone: "x", Locale: "fr", TimeZone: "Mars"})
		for _, field := range []string{"phone", "first_name", "locale", "time_zone"} {
			require.ErrorContains(t, err, field)
		}
	})

	t.Run("SamePhoneIsTheSameProfile", func(t *testing.T) {
		t.Parallel()
		one, err := b.current().service.Enrol(t.Context(), orgID, conversation.Person{Phone: "+5511987657777", FirstName: "Ana"})
		require.NoError(t, err)
		two, err := b.current().service.Enrol(t.Context(), orgID, conversation.Person{Phone: "+5511987657777", FirstName: "Bia"})
		require.NoError(t, err)
		require.Equal(t, one, two)
		elsewhere, err := b.current().service.Enrol(t.Context(), newID(), conversation.Person{Phone: "+5511987657777", FirstName: "Ana"})
		require.NoError(t, err)
		require.NotEqual(t, one.ID, elsewhere.ID)
	})
}
