package inbound_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/consent/ledger"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sendtest"
	"paceline.internal/services/messaging/sms"
)

const question = "Do you want us to stop texting you? Reply STOP to stop, or YES to go on."

// later sends with another key.
func (b *bundle) later(key string) send.Outcome {
	b.T.Helper()
	return b.ask(func(r *send.Request) { r.Key = key }).Outcome
}

func TestQuestionOfAHold(t *testing.T) {
	t.Parallel()
	t.Run("ItIsAskedOnceAndStandsInTheLedger", func(t *testing.T) {
		t.Parallel()
		b := enrolled(t)
		for range 2 {
			require.Equal(t, consent.Ambiguous, b.says("SM1", "leave me alone").ConsentEffect, "a repeat gets the same answer")
		}
		b.respond()
		require.Equal(t, consent.Ambiguous, b.says("SM2", "go away").ConsentEffect)
		b.respond()
		require.Equal(t, []string{question}, b.heard())
		line := b.Ledger().Events[1]
		require.Equal(t, ledger.FromQuestion, line.Source)
		require.Equal(t, question, line.Words)
		require.Equal(t, consent.OptedIn, b.Ledger().State)
		require.Len(t, b.Ledger().Events, 2)
	})

	t.Run("NobodyInDistressIsAsked", func(t *testing.T) {
		t.Parallel()
		b := enrolled(t)
		in := b.Inbound("SM1", "leave me alone, I want to die")
		in.Distressed = true
		m, err := b.Inbox(b.Service(nil), nil).RecordInbound(t.Context(), in)
		require.NoError(t, err)
		require.Equal(t, consent.Ambiguous, m.ConsentEffect)
		b.respond()
		require.Empty(t, b.heard())
		require.Equal(t, send.Held, b.later("waits"))
	})

	t.Run("YesLiftsTheHoldAndTheNextHoldAsksAnew", func(t *testing.T) {
		t.Parallel()
		b := enrolled(t)
		b.says("SM1", "leave me alone")
		b.respond()
		for range 2 {
			answer := b.says("SM2", "Yes!")
			require.True(t, answer.LiftsHold, "a repeat gets the same answer")
			require.Equal(t, consent.None, answer.ConsentEffect)
		}
		require.Equal(t, send.Accepted, b.later("goes on"))
		line := b.Ledger().Events[2]
		require.Equal(t, ledger.FromPerson, line.Source)
		require.Equal(t, "Yes!", line.Words)
		require.Len(t, b.Ledger().Events, 3)
		b.says("SM3", "leave me alone")
		b.respond()
		require.Equal(t, question, b.heard()[2])
		require.Equal(t, send.Held, b.later("held"))
	})

	for name, words := range map[string]string{"MaybeToStopping": "yes please", "No": "no", "Other": "who is this?"} {
		t.Run("AnythingElseIsLeftToAnOperator_"+name, func(t *testing.T) {
			t.Parallel()
			b := enrolled(t)
			b.says("SM1", "leave me alone")
			b.respond()
			require.False(t, b.says("SM2", words).LiftsHold)
			require.Equal(t, send.Held, b.later("held"))
		})
	}

	t.Run("YesThatAnswersNoQuestionLiftsNothing", func(t *testing.T) {
		t.Parallel()
		b := enrolled(t)
		require.False(t, b.says("SM1", "yes").LiftsHold, "not held")
		b.says("SM2", "leave me alone")
		require.False(t, b.says("SM3", "yes").LiftsHold, "not asked yet")
		b.respond()
		before := b.Inbound("SM4", "yes")
		before.ReceivedAt = b.Clock.Now().Add(-time.Minute)
		m, err := b.inbox(nil).RecordInbound(t.Context(), before)
		require.NoError(t, err)
		require.False(t, m.LiftsHold, "said before")
		b.says("SM5", "I said go away")
		late := b.Inbound("SM6", "yes")
		late.ReceivedAt = b.Clock.Now().Add(-time.Millisecond)
		m, err = b.inbox(nil).RecordInbound(t.Context(), late)
		require.NoError(t, err)
		require.False(t, m.LiftsHold, "said before the last doubt")
		require.Equal(t, send.Held, b.later("held"))
	})

	t.Run("StopOptsOut", func(t *testing.T) {
		t.Parallel()
		b := enrolled(t)
		b.says("SM1", "leave me alone")
		b.respond()
		require.Equal(t, consent.OptOut, b.says("SM2", "stop").ConsentEffect)
		require.Equal(t, send.OptedOut, b.later("out"))
		require.False(t, b.says("SM3", "go on").LiftsHold)
	})

	t.Run("ItIsNotSentOnceAnOperatorHasJudged", func(t *testing.T) {
		t.Parallel()
		b := enrolled(t)
		m := b.says("SM1", "leave me alone")
		require.NoError(t, b.Store.JudgeWords(t.Context(), b.Config.Senders.Environment.OrgID, sendtest.Phone(t, theirs)))
		b.respond()
		require.Empty(t, b.heard())
		outcome, due := b.outcome(m.ID)
		require.Equal(t, "judged", outcome)
		require.False(t, due)
	})

	t.Run("ItIsNotSentAnHourLater", func(t *testing.T) {
		t.Parallel()
		b := enrolled(t)
		m := b.says("SM1", "leave me alone")
		b.Clock.Advance(time.Hour)
		b.respond()
		require.Empty(t, b.heard())
		outcome, _ := b.outcome(m.ID)
		require.Equal(t, "expired", outcome)
	})

	t.Run("ItIsInTheLanguageOfTheProfile", func(t *testing.T) {
		t.Parallel()
		b := enrolled(t)
		in := b.Inbound("SM1", "leave me alone")
		in.Locale = "pt-BR"
		_, err := b.inbox(nil).RecordInbound(t.Context(), in)
		require.NoError(t, err)
		b.respond()
		require.Equal(t, []string{"Quer que a gente pare de enviar mensagens? Responda PARAR para parar ou SIM para continuar."}, b.heard())
		require.True(t, b.says("SM2", "sim").LiftsHold)
	})
}

// TestCrashMatrixOfTheQuestion delivers doubtful words, has them answered and delivers a YES, each until it is done. Whatever happened,
// one question went out at most, and the hold is lifted exactly if the YES came after it.
func TestCrashMatrixOfTheQuestion(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	sendtest.Matrix(t, func(t *testing.T, p *sendtest.Process) {
		b := enrolled(t)
		sick, healthy := listener{Service: b.InboxOn(p)}, b.inbox(nil)
		service := func() listener {
			if p.Over() {
				return healthy
			}
			return sick
		}
		until := func(done func() error) {
			for range 4 {
				err := sms.ErrUnavailable
				sendtest.Within(func() { err = done() })
				if err == nil {
					return
				}
			}
			t.Fatal("not done after four tries")
		}
		record := func(sid, words string) (m send.Message) {
			b.Clock.Advance(time.Second)
			until(func() (err error) {
				m, err = service().RecordInbound(t.Context(), b.Inbound(sid, words))
				return err
			})
			return m
		}
		record("SM1", "leave me alone")
		for range 2 { // an answer that was lost is found in Twilio's list once its lease is over
			until(func() error {
				_, err := service().Respond(t.Context())
				return err
			})
			b.Pass(2 * time.Minute)
		}
		lifted := record("SM2", "yes").LiftsHold
		require.LessOrEqual(t, len(b.heard()), 1)
		require.Equal(t, len(b.heard()) == 1, lifted)
		require.Equal(t, map[bool]send.Outcome{true: send.Accepted, false: send.Held}[lifted], b.later("after"))
	})
}
