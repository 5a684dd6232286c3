package inbound_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	emulator "paceline.internal/emulators/twilio"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/messaging/consent/ledger"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sendtest"
	"paceline.internal/services/messaging/sms"
)

// purpose is a change of a request.
func purpose(p string) func(*send.Request) {
	return func(r *send.Request) { r.Purpose, r.Key = p, "for "+p }
}

// prefer records what was said elsewhere than in a message, and returns whether reminders are off now.
func (b *bundle) prefer(off bool, source ledger.RemindersSource, said time.Time) bool {
	b.T.Helper()
	inForce, err := b.inbox(nil).SetReminders(b.T.Context(), b.wish(off, source, said))
	require.NoError(b.T, err)
	return inForce.Off
}

func (b *bundle) wish(off bool, source ledger.RemindersSource, said time.Time) ledger.Reminders {
	return ledger.Reminders{
		OrgID: b.Config.Senders.Environment.OrgID, Phone: sendtest.Phone(b.T, theirs), Off: off, Source: source, SaidAt: said, At: b.Clock.Now(),
	}
}

func TestReminders(t *testing.T) {
	t.Parallel()
	noReminderIsSentWhileTheyAreOff(t)
	lastWordAboutRemindersCounts(t)
	preferenceIsKeptWithItsMessage(t)
	remindersOffIsAnsweredAfterWhatIsOnItsWay(t)
	remindersOffRaceAClaim(t)
}

func noReminderIsSentWhileTheyAreOff(t *testing.T) {
	t.Helper()
	t.Run("PurposesThatRemindAreRefusedAndNoOthers", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.says("SM1", "parar lembretes")
		for _, p := range []string{"goodbye", "reminder", "weekly_review", "invite", "post_event"} {
			result := b.ask(purpose(p))
			require.Equal(t, send.RemindersOff, result.Outcome, p)
			require.Nil(t, result.Message)
			require.Zero(t, result.RetryAfter, "asking again is useless")
		}
		require.Empty(t, b.Sent())
		for _, p := range []string{"", "help_restart", "welcome", "tier_unlock", "otp", "transactional"} {
			require.Equal(t, send.Accepted, b.ask(purpose(p)).Outcome, p)
		}
		b.says("SM2", "ativar lembretes")
		require.Equal(t, send.Accepted, b.ask(purpose("goodbye")).Outcome)
	})

	t.Run("WhatTwilioDidNotTakeBeforeIsRefusedAndWhatItTookStays", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Emulator.SetScript(sendtest.Lose(emulator.AnswerTooMany, false))
		require.Equal(t, send.Throttled, b.ask(purpose("goodbye")).Outcome)
		require.Equal(t, send.Accepted, b.ask(purpose("reminder")).Outcome)
		b.says("SM1", "stop reminders")
		b.Clock.Advance(time.Minute)
		refused := b.ask(purpose("goodbye"))
		require.Equal(t, send.RemindersOff, refused.Outcome)
		require.NotNil(t, refused.Message)
		require.Equal(t, send.AlreadyAccepted, b.ask(purpose("reminder")).Outcome)
	})

	t.Run("WhatIsInDoubtStaysSo", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Emulator.SetScript(sendtest.Mute(emulator.AnswerReset, true))
		require.Equal(t, send.Unknown, b.ask(purpose("goodbye")).Outcome)
		b.says("SM1", "stop reminders")
		require.Equal(t, send.Unknown, b.ask(purpose("goodbye")).Outcome)
	})

	t.Run("OptOutIsToldBeforeRemindersAndTheyBeforeAHold", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.says("SM1", "stop reminders")
		b.Hold(true, 1)
		require.Equal(t, send.RemindersOff, b.ask(purpose("goodbye")).Outcome)
		require.Equal(t, send.Held, b.ask(purpose("welcome")).Outcome)
		b.says("SM2", "STOP")
		require.Equal(t, send.OptedOut, b.ask(purpose("goodbye")).Outcome)
	})

	t.Run("OtherPersonsAndOrganisationsAreNotMeant", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		other := b.wish(true, ledger.SaidByPerson, b.Clock.Now())
		other.OrgID = uuid.Must(uuid.NewV7())
		_, err := b.inbox(nil).SetReminders(t.Context(), other)
		require.NoError(t, err)
		other = b.wish(true, ledger.SaidByPerson, b.Clock.Now())
		other.Phone = sendtest.Phone(t, "+14155550124")
		_, err = b.inbox(nil).SetReminders(t.Context(), other)
		require.NoError(t, err)
		require.Equal(t, send.Accepted, b.ask(purpose("goodbye")).Outcome)
	})
}

func lastWordAboutRemindersCounts(t *testing.T) {
	t.Helper()
	t.Run("WhatWasSaidLastCountsWhicheverIsRecordedLast", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		said := b.Clock.Now()
		b.Clock.Advance(time.Hour)
		require.False(t, b.prefer(false, ledger.SaidByPerson, said.Add(2*time.Second)))
		say(t, b, "SM1", "stop reminders", said.Add(time.Second))
		require.Equal(t, send.Accepted, b.ask(purpose("goodbye")).Outcome, "the message was overtaken")
		require.True(t, b.prefer(true, ledger.SaidByOperator, said.Add(3*time.Second)))
		require.True(t, b.prefer(false, ledger.SaidByPerson, said.Add(2*time.Second)))
		say(t, b, "SM2", "start reminders", said.Add(4*time.Second))
		require.Equal(t, send.Accepted, b.ask(purpose("reminder")).Outcome)
	})

	t.Run("OperatorChangesNothingThatThePersonHasSwitchedOff", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.says("SM1", "stop reminders")
		for n, off := range []bool{false, true, false} {
			b.Clock.Advance(time.Second)
			inForce, err := b.inbox(nil).SetReminders(t.Context(), b.wish(off, ledger.SaidByOperator, b.Clock.Now()))
			require.NoError(t, err)
			require.True(t, inForce.Off)
			require.Equal(t, ledger.SaidByPerson, inForce.Source, n)
		}
		b.says("SM2", "start reminders")
		require.True(t, b.prefer(true, ledger.SaidByOperator, b.Clock.Now().Add(time.Second)))
		require.False(t, b.prefer(false, ledger.SaidByOperator, b.Clock.Now().Add(2*time.Second)), "what an operator has noted they may undo")
	})

	t.Run("ATieAndARepeatChangeNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		said := b.Clock.Now()
		require.True(t, b.prefer(true, ledger.SaidByPerson, said))
		require.True(t, b.prefer(false, ledger.SaidByOperator, said))
		b.Clock.Advance(time.Minute)
		inForce, err := b.inbox(nil).SetReminders(t.Context(), b.wish(true, ledger.SaidByPerson, said))
		require.NoError(t, err)
		require.Equal(t, ledger.SaidByPerson, inForce.Source)
		require.Equal(t, said, inForce.SaidAt)
		b.says("SM1", "start reminders")
		require.False(t, b.prefer(true, ledger.SaidByPerson, said), "told again, it does not undo what came after it")
	})
}

func preferenceIsKeptWithItsMessage(t *testing.T) {
	t.Helper()
	t.Run("RepeatOfAMessageGetsTheSameAnswerAndChangesNothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		first := b.Receive("SM1", "No more reminders or tips, please")
		require.Equal(t, consent.Preferences{Reminders: consent.Off, Tips: consent.Off}, first.Preferences)
		require.Equal(t, consent.None, first.Effect(false))
		b.Clock.Advance(time.Minute)
		b.says("SM2", "start reminders")
		require.Equal(t, first, b.Receive("SM1", "No more reminders or tips, please"))
		require.Equal(t, send.Accepted, b.ask(purpose("goodbye")).Outcome)
		require.Equal(t, consent.Preferences{Tips: consent.On}, b.Receive("SM3", "ativar dicas").Preferences)
	})

	t.Run("RowIsTheEvidenceAndTheLedgerHasNoLine", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		m := b.Receive("SM1", "Stop sending me reminders")
		require.Equal(t, consent.Ambiguous, m.Effect(false), "as to a caller of the release before")
		require.Equal(t, consent.None, m.Effect(true))
		var message uuid.UUID
		var source, pack string
		var said time.Time
		require.NoError(t, b.Pool.QueryRow(t.Context(), "select message_id, source, keyword_pack, said_at from reminder_preferences where off").
			Scan(&message, &source, &pack, &said))
		require.Equal(t, []any{m.ID, "person", consent.PreferencesVersion, m.CreatedAt}, []any{message, source, pack, said.UTC()})
		_, err := b.Store.Consent(t.Context(), m.OrgID, sendtest.Phone(t, theirs), ledger.Page{Limit: 1})
		require.ErrorIs(t, err, ledger.ErrConsentNotFound)
	})

	t.Run("PreferenceIsNoOptOutThatAnOperatorHasJudged", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.says("SM1", "stop sending me reminders")
		b.Clock.Advance(time.Second)
		note := ledger.Note{OrgID: b.Config.Senders.Environment.OrgID, Phone: sendtest.Phone(t, theirs), State: consent.OptedOut, Reason: "x", At: b.Clock.Now()}
		_, err := b.inbox(nil).SetConsent(t.Context(), note)
		require.NoError(t, err)
		b.Clock.Advance(time.Second)
		note.State, note.At = consent.OptedIn, b.Clock.Now()
		note.Evidence = &consent.Evidence{Method: "phone call", CollectedAt: b.Clock.Now(), Reference: "call 815"}
		_, err = b.inbox(nil).SetConsent(t.Context(), note)
		require.NoError(t, err)
	})
}

func remindersOffIsAnsweredAfterWhatIsOnItsWay(t *testing.T) {
	t.Helper()
	t.Run("RemindersOffIsAnsweredAfterWhatIsOnItsWay", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		h := b.SlowSend(nil)
		service := b.inbox(func(c *send.Config) { c.StopWait = 50 * time.Millisecond })
		_, err := service.RecordInbound(t.Context(), b.Inbound("SM1", "stop reminders"))
		require.ErrorIs(t, err, sms.ErrUnavailable)
		require.Equal(t, send.RemindersOff, b.ask(purpose("goodbye")).Outcome, "in force")
		_, err = service.SetReminders(t.Context(), b.wish(true, ledger.SaidByPerson, b.Clock.Now()))
		require.ErrorIs(t, err, sms.ErrUnavailable)
		_, err = service.RecordInbound(t.Context(), b.Inbound("SM2", "stop tips"))
		require.NoError(t, err, "which Send knows nothing of")
		h.LetThrough()
		require.Equal(t, send.Accepted, (<-h.Result).Outcome)
		_, err = b.inbox(nil).RecordInbound(t.Context(), b.Inbound("SM1", "stop reminders"))
		require.NoError(t, err)
		require.True(t, b.prefer(true, ledger.SaidByPerson, b.Clock.Now()))
	})
}

// remindersOffRaceAClaim: whichever has the phone's lock first is first.
func remindersOffRaceAClaim(t *testing.T) {
	t.Helper()
	for name, words := range map[string]func(b *bundle) error{
		"ByMessage": func(b *bundle) error {
			_, err := b.inbox(nil).RecordInbound(b.T.Context(), b.Inbound("SM1", "stop reminders"))
			return err
		},
		"Elsewhere": func(b *bundle) error {
			_, err := b.inbox(nil).SetReminders(b.T.Context(), b.wish(true, ledger.SaidByPerson, b.Clock.Now()))
			return err
		},
	} {
		t.Run("GoodbyeThatIsClaimedWhileRemindersAreSwitchedOffIsRefused/"+name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			release := b.block("lock table reminder_preferences in share mode")
			answered, claimed := make(chan error, 1), make(chan send.Result, 1)
			go func() { answered <- words(b) }()
			b.AwaitBlocked()
			go func() { claimed <- b.sendOf("goodbye") }()
			b.awaitBoth(func() bool { return len(claimed) == 1 })
			release()
			require.NoError(t, <-answered)
			require.Equal(t, send.RemindersOff, (<-claimed).Outcome)
			require.Empty(t, b.Sent())
		})

		t.Run("RemindersThatAreSwitchedOffWhileAGoodbyeIsClaimedAreAnsweredAfterIt/"+name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			require.Equal(t, send.Accepted, b.ask(nil).Outcome)
			release := b.block("select from consents for update")
			answered, claimed := make(chan int, 1), make(chan send.Result, 1)
			go func() { claimed <- b.sendOf("goodbye") }()
			b.AwaitBlocked()
			go func() {
				if words(b) == nil {
					answered <- len(b.Sent())
				}
				close(answered)
			}()
			b.awaitBoth(func() bool { return len(answered) == 1 })
			release()
			require.Equal(t, send.Accepted, (<-claimed).Outcome)
			require.Equal(t, len(b.Sent()), <-answered, "nothing reached Twilio after the answer")
		})
	}
}

// sendOf asks for a message of a purpose, from any goroutine.
func (b *bundle) sendOf(p string) send.Result {
	r := b.Request()
	purpose(p)(&r)
	result, _ := b.Service(nil).Send(b.T.Context(), r)
	return result
}

// block holds what a statement locks until it is released.
func (b *bundle) block(statement string) (release func()) {
	b.T.Helper()
	tx, err := b.Pool.Begin(b.T.Context())
	require.NoError(b.T, err)
	b.T.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(b.T.Context())) })
	_, err = tx.Exec(b.T.Context(), statement)
	require.NoError(b.T, err)
	return func() { require.NoError(b.T, tx.Rollback(b.T.Context())) }
}

// awaitBoth waits until two backends wait for a lock, or the second one did not and is done.
func (b *bundle) awaitBoth(done func() bool) {
	b.T.Helper()
	require.Eventually(b.T, func() bool {
		var waiting int
		err := b.Pool.QueryRow(b.T.Context(), "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'").
			Scan(&waiting)
		return err == nil && (waiting == 2 || done())
	}, 10*time.Second, 2*time.Millisecond)
}
