package conversation_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/emulators/messagingtest"
	emulator "paceline.internal/emulators/qstash"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// phase is one part of a conversation. It is played with every mishap at every call of a port, and has to end where it
// ends on a good day, with the same messages and the same effects.
type phase struct {
	name string
	// begin brings a new person to where the phase begins, while all is well.
	begin func(b *bundle) people.Profile
	// cause plays the part of the outside world. Like Twilio and an operator it is repeated until it is answered without an
	// error, and once more after that.
	cause func(b *bundle, p people.Profile) func() error
	want  []string
	token session.Token
}

// writes has a person write a text.
func writes(body string) func(b *bundle, p people.Profile) func() error {
	return func(b *bundle, p people.Profile) func() error { return b.Posts(p, body) }
}

func activates(b *bundle, p people.Profile) func() error {
	return func() error {
		_, err := b.Current().Service.Begin(b.T.Context(), onboardingtest.OrgID, conversation.Start{ProfileID: p.ID})
		return err
	}
}

func releases(b *bundle, p people.Profile) func() error {
	return func() error {
		_, err := b.Current().Persons.Release(b.T.Context(), onboardingtest.OrgID, p.ID)
		return err
	}
}

// resumes is an operator who resumes the person's session.
func resumes(b *bundle, p people.Profile) func() error {
	r := b.Newest(p)
	return func() error {
		_, err := b.Current().Service.Resume(b.T.Context(), onboardingtest.OrgID, r.ID)
		return err
	}
}

// replays is an operator who replays the newest dead deadLetter.
func replays(b *bundle, _ people.Profile) func() error {
	deadLetter := b.DeadLetters(&onboardingv1.ListDeadLettersRequest{})[0].GetDeadLetterId()
	return func() error {
		_, err := b.Current().Service.Replay(b.T.Context(), onboardingtest.OrgID, deadLetter)
		return err
	}
}

// nothing happens but what the service does on its own.
func nothing(*bundle, people.Profile) func() error { return func() error { return nil } }

func enrolled(b *bundle) people.Profile { return b.Person() }

func activated(b *bundle) people.Profile {
	p, _ := b.Activated()
	return p
}

// doubted returns a person with words that may be an opt-out, in answer to the opening.
func doubted(b *bundle) people.Profile {
	p := activated(b)
	b.Reply(p, "leave me alone")
	return p
}

// capped returns a person with an answer that waits for room beneath a cap, which there is now.
func capped(b *bundle) people.Profile {
	p := activated(b)
	b.Messaging.SetFull(true)
	b.Reply(p, onboardingtest.SecretWords)
	b.Messaging.SetFull(false)
	return p
}

// meetsACap has a person write a text while there is no room; there is some once it is stored.
func meetsACap(b *bundle, p people.Profile) func() error {
	b.Messaging.SetFull(true)
	post := b.Posts(p, onboardingtest.SecretWords)
	return func() error {
		err := post()
		if err == nil {
			b.Work()
			b.Messaging.SetFull(false)
		}
		return err
	}
}

func informed(b *bundle) people.Profile {
	p, _ := b.Explained()
	return p
}

// lastAnswerLost is a person who has the last message, which we do not know yet.
func lastAnswerLost(b *bundle) people.Profile {
	p, _ := b.FailedAtLast(messagingtest.AcceptLost)
	b.Unmute()
	b.Clock.Advance(onboardingtest.Grace)
	return p
}

func wentThrough(b *bundle) people.Profile {
	p, _ := b.Finished()
	return p
}

func heldInBurst(b *bundle) people.Profile {
	p, _ := b.InBurst(2)
	b.Unmute()
	b.Hold(p)
	b.Clock.Advance(time.Minute)
	return p
}

func muteInBurst(b *bundle) people.Profile {
	p, _ := b.InBurst(2)
	b.Unmute()
	return p
}

// stuckAtLast returns a person with a last message that was in doubt until an operator resolved it.
func stuckAtLast(b *bundle) people.Profile {
	p, r := b.FailedAtLast(messagingtest.ParkTaken)
	require.True(b.T, b.Messaging.Resolve(onboardingtest.StepKey(r, 4), onboardingtest.WasSent))
	b.Unmute()
	b.Clock.Advance(time.Second)
	b.Reply(p, "yes")
	return p
}

// stuckAndGivenUp returns a person with a last message that was not sent, and an alarm that QStash gave up.
func stuckAndGivenUp(b *bundle) people.Profile {
	p, r := b.FailedAtLast(messagingtest.ParkMissed)
	b.GivesUp(r, nil)
	require.True(b.T, b.Messaging.Resolve(onboardingtest.StepKey(r, 4), onboardingtest.WasNotSent))
	b.Unmute()
	return p
}

// stuckExplanation returns a person with a sent explanation, as an operator has found out, who has answered it since.
func stuckExplanation(b *bundle) people.Profile {
	p, r := b.Activated()
	b.Messaging.Script(messagingtest.First(messagingtest.ParkTaken))
	b.Reply(p, onboardingtest.SecretWords)
	b.Messaging.Script(nil)
	b.Clock.Advance(time.Second)
	b.Reply(p, "not now")
	require.True(b.T, b.Messaging.Resolve(session.DirectKey(p.ID, r.ID, session.TextExplanation, 1), onboardingtest.WasSent))
	return p
}

// stuckOpening returns a person with an opening that was not sent.
func stuckOpening(b *bundle) people.Profile {
	p := b.Person()
	b.Messaging.Script(messagingtest.First(messagingtest.ParkMissed))
	r := b.Activate(p)
	b.Messaging.Script(nil)
	require.True(b.T, b.Messaging.Resolve(session.OpeningKey(p.ID, r.ID), onboardingtest.WasNotSent))
	return p
}

// awaitsReceipt returns a person with a last message that waits for the receipt of the one before, which never comes.
func awaitsReceipt(b *bundle) people.Profile {
	p, r := b.beforeLast()
	b.Unmute()
	b.Clock.Advance(19 * time.Second) // a second is left to wait
	b.Exec(`update step_alarms set published_at = null, qstash_message_id = null, lease_until = $2 where session_id = $1 and step_id = $3`,
		r.ID, b.Clock.Now(), string(onboardingtest.Step(4)))
	b.Exec(`update step_alarms set generation = 2 where session_id = $1 and step_id = $2`, r.ID, string(onboardingtest.Step(4))) // QStash has seen the first
	return p
}

// play plays a phase with a process that meets a mishap, and returns the effects.
func (ph phase) play(b *bundle, p *onboardingtest.Ports) []session.Kind {
	b.T.Helper()
	b.Serve(b.Start(b.Healthy()))
	person := ph.begin(b)
	b.Serve(b.Start(p))
	cause := ph.cause(b, person)
	for try := 1; cause() != nil; try++ {
		require.Less(b.T, try, 5)
	}
	b.Until(func() bool { return b.Waiting() == 0 && b.Newest(person).Token == ph.token })
	b.Serve(b.Start(b.Healthy()))
	_ = cause() // a STOP keeps an activation from being repeated, and all else changes nothing
	b.Quiet()

	require.Equal(b.T, ph.want, b.Sequence(person))
	b.KeepsPace(person)
	require.Equal(b.T, 1, b.Count(`select count(*) from conversation_sessions where profile_id = $1`, person.ID))
	require.Zero(b.T, b.Count(`select count(*) from webhook_jobs where status = 'failed'`))
	require.Zero(b.T, b.Count(`select count(*) from (select from session_transitions where kind in ('replied', 'stopped') and message_id is not null
		and detail <> 'again' group by message_id having count(*) > 1) twice`), "a message took effect twice")
	require.Zero(b.T, b.Count(`select count(*) from (select from session_transitions where kind = 'waiting' group by session_id, step_id having count(*) > 1) twice`))
	return b.effects(person)
}

// effects returns the person's timeline without their messages: these may stand before or after what happens meanwhile. A replay
// with a lost answer has an entry for every request, and a wait that a crash has used up has none.
func (b *bundle) effects(p people.Profile) []session.Kind {
	b.T.Helper()
	return slices.DeleteFunc(b.Story(b.Newest(p).ID), func(k session.Kind) bool {
		return k == session.KindReplied || k == session.KindHeld || k == session.KindReplayed || k == session.KindWaiting
	})
}

// TestCrash is the crash matrix: every phase, with every mishap at every call of the database, of messaging and of
// QStash, until a run has no call left.
func TestCrash(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	all := onboardingtest.Whole
	for _, ph := range []phase{
		{name: "S0_65_Opening", begin: enrolled, cause: activates, want: all[:1], token: session.AwaitingOpeningResponse},
		{name: "S0_65_Explanation", begin: activated, cause: writes(onboardingtest.SecretWords), want: all[:2], token: session.AwaitingExplanationResponse},
		{name: "AnswerMeetsACap", begin: activated, cause: meetsACap, want: all[:2], token: session.AwaitingExplanationResponse},
		{name: "AnswerThatMetACap", begin: capped, cause: nothing, want: all[:2], token: session.AwaitingExplanationResponse},
		{name: "S0_65_Later", begin: informed, cause: writes("not now"), want: []string{onboardingtest.Opening, onboardingtest.Explanation, onboardingtest.Later}, token: session.AwaitingOpeningResponse},
		{name: "S0_63_S0_65_S1_29_S1_36_Burst", begin: informed, cause: writes(onboardingtest.SecretWords), want: all, token: session.AwaitingInterviewStart},
		{name: "S0_65_S0_67_HeldReply", begin: lastAnswerLost, cause: writes(onboardingtest.SecretWords), want: all, token: session.InterviewActivity01},
		{name: "S0_65_InterviewStart", begin: wentThrough, cause: writes(onboardingtest.SecretWords), want: all, token: session.InterviewActivity01},
		{name: "S0_65_Release", begin: heldInBurst, cause: releases, want: all, token: session.AwaitingInterviewStart},
		{name: "S0_65_ResumeInTheBurst", begin: stuckAtLast, cause: resumes, want: all, token: session.InterviewActivity01},
		{name: "S0_65_ResumeOfTheOpening", begin: stuckOpening, cause: resumes, want: all[:1], token: session.AwaitingOpeningResponse},
		{
			name: "S0_65_ResumeOfAnExplanation", begin: stuckExplanation, cause: resumes, want: []string{onboardingtest.Opening, onboardingtest.Explanation, onboardingtest.Later},
			token: session.AwaitingOpeningResponse,
		},
		{name: "S0_65_S0_70_Replay", begin: stuckAndGivenUp, cause: replays, want: all, token: session.AwaitingInterviewStart},
		{name: "S0_62_S0_65_AfterDelivery", begin: awaitsReceipt, cause: nothing, want: all, token: session.AwaitingInterviewStart},
		{name: "YesToTheQuestionOfAHold", begin: doubted, cause: writes("yes"), want: all[:2], token: session.AwaitingExplanationResponse},
		{name: "S0_41_S0_65_Stop", begin: muteInBurst, cause: writes("STOP"), want: all[:3], token: session.AwaitingBurst},
	} {
		t.Run(ph.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			goodDay := ph.play(b, b.Healthy())
			b.EveryMishap(3, func(p *onboardingtest.Ports) {
				require.Equal(t, goodDay, ph.play(b, p), "%s call %d of %v", p.Mishap, p.At, p.Calls)
			})
		})
	}
}

// TestCrashOfQStash loses every alarm that QStash takes, once. The sweeper sets each again.
func TestCrashOfQStash(t *testing.T) {
	t.Parallel()
	b := setup(t)
	lost := map[string]bool{}
	b.QStash.SetFaults(emulator.Script{OnDeliver: func(d emulator.Delivery) emulator.DeliverFault {
		step := string(d.Message.Body)
		first := !lost[step]
		lost[step] = true
		return emulator.DeliverFault{Lose: first}
	}})
	p, r := b.Explained()
	b.Reply(p, "yes")
	b.Until(func() bool { return b.Session(r.ID).Token == session.AwaitingInterviewStart })
	require.Equal(t, onboardingtest.Whole, b.Sequence(p))
	require.Len(t, lost, 4)
}

// TestConcurrentDuplicates rings every alarm several times at once and late, and posts every message of several people
// many times at once. Each takes effect once.
//
// Also: S0-30, S0-31, S0-45, S0-66.
func TestConcurrentDuplicates(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.QStash.SetFaults(emulator.Script{OnDeliver: emulator.Every(emulator.DeliverFault{Copies: 3, Repeats: 2, RepeatAfter: 9 * time.Second})})
	const crowd = 6
	done := make(chan error, crowd)
	var all []people.Profile
	for range crowd {
		p, _ := b.Activated()
		all = append(all, p)
	}
	for round := range 2 {
		for _, p := range all {
			m := b.Message(p, fmt.Sprintf("yes, %d", round))
			go func() {
				done <- onboardingtest.AtOnce(8, func() error {
					_, err := b.Current().Server.ReceiveMessage(b.T.Context(), m)
					return err
				})
			}()
		}
		for range all {
			require.NoError(t, <-done)
		}
	}
	b.Quiet()
	b.Pass(time.Minute)
	for _, p := range all {
		require.Equal(t, onboardingtest.Whole, b.Sequence(p))
		b.KeepsPace(p)
		require.Equal(t, session.AwaitingInterviewStart, b.Newest(p).Token)
	}
	require.Equal(t, 4*crowd, b.Count(`select count(*) from step_alarms`))
	require.Equal(t, 2*crowd, b.Count(`select count(*) from session_transitions where kind = 'replied'`))
	require.Equal(t, 2*crowd, b.Count(`select count(*) from webhook_jobs where source = 'twilio' and idempotency_key like 'SM%'`))
	require.Equal(t, 2*crowd, b.Messaging.Recorded())
}
