package inbound_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	emulator "paceline.internal/emulators/twilio"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/consent/ledger"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sendtest"
	"paceline.internal/services/messaging/sms"
)

// ask sends with something changed.
func (b *bundle) ask(change func(*send.Request)) send.Result {
	b.T.Helper()
	r := b.Request()
	if change != nil {
		change(&r)
	}
	result, err := b.Service(nil).Send(b.T.Context(), r)
	require.NoError(b.T, err)
	return result
}

func TestSafetyHold(t *testing.T) {
	t.Parallel()
	nothingIsSentWhileHeld(t)
	holdIsAnsweredAfterWhatIsOnItsWay(t)
}

func nothingIsSentWhileHeld(t *testing.T) {
	t.Helper()
	t.Run("R_08_NothingIsSentBeforeTheReleaseAlsoOfWhatWasAskedForBefore", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Emulator.SetScript(sendtest.Lose(emulator.AnswerTooMany, false))
		require.Equal(t, send.Throttled, b.ask(nil).Outcome)
		b.Hold(true, 1)
		b.Clock.Advance(time.Minute)
		held := b.ask(nil)
		require.Equal(t, send.Held, held.Outcome)
		require.NotNil(t, held.Message)
		require.Positive(t, held.RetryAfter)
		fresh := b.ask(func(r *send.Request) { r.Key = "fresh" })
		require.Equal(t, send.Held, fresh.Outcome)
		require.Nil(t, fresh.Message)
		require.Empty(t, b.Sent())
		b.Hold(false, 2)
		require.Equal(t, send.Accepted, b.ask(nil).Outcome)
		require.Equal(t, send.Accepted, b.ask(func(r *send.Request) { r.Key = "fresh" }).Outcome)
		b.Hold(true, 3)
		require.Equal(t, send.AlreadyAccepted, b.ask(nil).Outcome)
	})

	t.Run("R_08_HoldOfANumberThatWasNeverTextedLeavesNoWordOfConsent", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Hold(true, 1)
		require.Equal(t, send.Held, b.ask(nil).Outcome)
		_, err := b.Store.Consent(t.Context(), b.Config.Senders.Environment.OrgID, sendtest.Phone(t, theirs), ledger.Page{Limit: 1})
		require.ErrorIs(t, err, ledger.ErrConsentNotFound)
	})

	t.Run("R_08_OptOutIsToldBeforeTheHold", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Hold(true, 1)
		b.Receive("SM1", "STOP")
		require.Equal(t, send.OptedOut, b.ask(nil).Outcome)
	})

	t.Run("R_08_LaterVersionCountsWhicheverIsToldLast", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Hold(false, 2)
		b.Hold(true, 1)
		require.Equal(t, send.Accepted, b.ask(nil).Outcome)
		b.Hold(true, 3)
		b.Hold(false, 2)
		require.Equal(t, send.Held, b.ask(func(r *send.Request) { r.Key = "2" }).Outcome)
	})

	t.Run("R_08_CallerWhoHasReadTheReleaseIsNotHeldByWhatCameBeforeIt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Hold(true, 3)
		require.Equal(t, send.Held, b.ask(func(r *send.Request) { r.HoldVersion = 2 }).Outcome)
		require.Equal(t, send.Accepted, b.ask(func(r *send.Request) { r.HoldVersion = 4 }).Outcome)
	})

	t.Run("R_08_AnswersToWordsAboutConsentPass", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		require.Equal(t, send.Accepted, b.ask(nil).Outcome)
		b.Hold(true, 1)
		require.Equal(t, consent.Help, b.says("SM1", "ajuda").ConsentEffect)
		b.respond()
		require.Len(t, b.Sent(), 2)
		require.Equal(t, consent.OptOut, b.says("SM2", "please stop texting me").ConsentEffect)
		b.respond()
		require.Len(t, b.Sent(), 3)
	})
}

// TestWordsThatMayBeAnOptOut holds the person who said them, until an operator has judged them.
func TestWordsThatMayBeAnOptOut(t *testing.T) {
	t.Parallel()
	key := func(k string) func(*send.Request) { return func(r *send.Request) { r.Key = k } }
	judge := func(b *bundle) {
		require.NoError(b.T, b.Store.JudgeWords(b.T.Context(), b.Config.Senders.Environment.OrgID, sendtest.Phone(b.T, theirs)))
	}
	t.Run("NothingButAnswersToWordsAboutConsentIsSentUntilTheyAreJudged", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		require.Equal(t, consent.Ambiguous, b.Receive("SM1", "leave me alone").ConsentEffect)
		require.Equal(t, send.Held, b.ask(nil).Outcome)
		require.Equal(t, send.Held, b.ask(func(r *send.Request) { r.HoldVersion = 9 }).Outcome, "it is no version of an operator's hold")
		b.says("SM2", "ajuda")
		b.respond()
		require.Len(t, b.Sent(), 2, "the question and the help")
		judge(b)
		require.Equal(t, send.Accepted, b.ask(nil).Outcome)
	})
	t.Run("HoldOfAnOperatorStandsBesideThem", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Hold(true, 1)
		b.Receive("SM1", "leave me alone")
		judge(b)
		require.Equal(t, send.Held, b.ask(nil).Outcome, "judging releases no operator's hold")
		b.Receive("SM2", "go away")
		b.Hold(false, 2)
		require.Equal(t, send.Held, b.ask(nil).Outcome, "a release judges no words")
		judge(b)
		require.Equal(t, send.Accepted, b.ask(nil).Outcome)
	})
	t.Run("TheirOwnWordsAfterThemOrAnOptOutByAnOperatorLeaveNothingToJudge", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Receive("SM1", "leave me alone")
		b.Receive("SM2", "START")
		require.Equal(t, send.Accepted, b.ask(key("theirs")).Outcome)
		b.Receive("SM3", "leave me alone")
		_, err := b.inbox(nil).SetConsent(t.Context(), ledger.Note{
			OrgID: b.Config.Senders.Environment.OrgID, Phone: sendtest.Phone(t, theirs), State: consent.OptedOut, Reason: "judged", At: b.Clock.Now(),
		})
		require.NoError(t, err)
		require.Equal(t, send.OptedOut, b.ask(key("judged")).Outcome)
		b.Receive("SM4", "START")
		require.Equal(t, send.Accepted, b.ask(key("back")).Outcome)
	})
	t.Run("ExplanationNamesThemAndTheWayToTheJudgement", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m := b.Receive("SM1", "leave me alone")
		e, err := b.Service(nil).Explain(t.Context(), b.Request())
		require.NoError(t, err)
		require.Equal(t, send.Held, e.Outcome)
		require.Contains(t, e.Advice, "GET /v1/messages/"+m.ID.String())
	})
	t.Run("CrashMatrixTheMessageIsNotKeptWithoutItsHold", func(t *testing.T) {
		t.Parallel()
		sendtest.Matrix(t, func(t *testing.T, p *sendtest.Process) {
			b := setup(t)
			sendtest.Within(func() { _, _ = b.InboxOn(p).RecordInbound(t.Context(), b.Inbound("SM1", "leave me alone")) })
			kept, err := b.Store.RecordedSIDs(t.Context(), []string{"SM1"})
			require.NoError(t, err)
			want := send.Accepted
			if len(kept) > 0 {
				want = send.Held
			}
			require.Equal(t, want, b.ask(nil).Outcome)
		})
	})
}

func holdIsAnsweredAfterWhatIsOnItsWay(t *testing.T) {
	t.Helper()
	t.Run("R_08_HoldIsAnsweredAfterWhatIsOnItsWay", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		h := b.SlowSend(nil)
		service := b.inbox(func(c *send.Config) { c.StopWait = 50 * time.Millisecond })
		require.ErrorIs(t, service.SetHold(t.Context(), b.HoldOf(true, 1)), sms.ErrUnavailable)
		require.Equal(t, send.Held, b.ask(func(r *send.Request) { r.Key = "in force" }).Outcome)
		h.LetThrough()
		require.Equal(t, send.Accepted, (<-h.Result).Outcome)
		require.NoError(t, b.inbox(nil).SetHold(t.Context(), b.HoldOf(true, 1)), "told again")
	})

	// A claim that has begun, and looked for a hold before there was one, is waited for: its row cannot be seen yet.
	t.Run("R_08_HoldThatCommitsDuringAClaimIsAnsweredAfterIt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		require.Equal(t, send.Accepted, b.ask(nil).Outcome)
		release := b.block("select from consents for update")
		claimed, answered := make(chan send.Result, 1), make(chan int, 1)
		go func() {
			r := b.Request()
			r.Key = "racing"
			result, _ := b.Service(nil).Send(t.Context(), r)
			claimed <- result
		}()
		b.AwaitBlocked()
		go func() {
			if b.inbox(nil).SetHold(t.Context(), b.HoldOf(true, 1)) == nil {
				answered <- len(b.Sent())
			}
			close(answered)
		}()
		b.awaitBoth(func() bool { return len(answered) == 1 }) // either it waits, too, or it was answered too soon
		release()
		require.Equal(t, send.Accepted, (<-claimed).Outcome)
		require.Equal(t, len(b.Sent()), <-answered, "nothing reached Twilio after the answer")
	})
}
