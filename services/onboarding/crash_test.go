package onboarding_test

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
	"paceline.internal/services/onboarding/session"
)

// phase is one part of a conversation. It is played with every mishap at every call of a port, and has to end where it
// ends on a good day, with the same messages and the same effects.
type phase struct {
	name string
	// begin brings a new person to where the phase begins, while all is well.
	begin func(b *bundle) conversation.Profile
	// cause is what the outside world does. Like Twilio and an operator it is repeated until it is answered without an
	// error, and once more after that.
	cause func(b *bundle, p conversation.Profile) func() error
	want  []string
	token session.Token
}

// writes is a message of a person that Twilio posts.
func writes(body string) func(b *bundle, p conversation.Profile) func() error {
	return func(b *bundle, p conversation.Profile) func() error {
		m := b.message(p, body)
		return func() error {
			_, err := b.current().server.ReceiveMessage(b.t.Context(), m)
			return err
		}
	}
}

func activates(b *bundle, p conversation.Profile) func() error {
	return func() error {
		_, err := b.current().service.Activate(b.t.Context(), orgID, p.ID, nil)
		return err
	}
}

func releases(b *bundle, p conversation.Profile) func() error {
	return func() error {
		_, err := b.current().service.Release(b.t.Context(), orgID, p.ID)
		return err
	}
}

// resumes is an operator who resumes the person's session.
func resumes(b *bundle, p conversation.Profile) func() error {
	r := b.newest(p)
	return func() error {
		_, err := b.current().service.Resume(b.t.Context(), orgID, r.ID)
		return err
	}
}

// replays is an operator who replays the newest dead deadLetter.
func replays(b *bundle, _ conversation.Profile) func() error {
	deadLetter := b.deadLetters(&onboardingv1.ListDeadLettersRequest{})[0].GetDeadLetterId()
	return func() error {
		_, err := b.current().service.Replay(b.t.Context(), orgID, deadLetter)
		return err
	}
}

// nothing happens but what the service does on its own.
func nothing(*bundle, conversation.Profile) func() error { return func() error { return nil } }

func enrolled(b *bundle) conversation.Profile { return b.person() }

func activated(b *bundle) conversation.Profile {
	p, _ := b.activated()
	return p
}

// doubted is a person whose words may be an opt-out, in answer to the opening.
func doubted(b *bundle) conversation.Profile {
	p := activated(b)
	b.reply(p, "leave me alone")
	return p
}

func informed(b *bundle) conversation.Profile {
	p, _ := b.explained()
	return p
}

// lastAnswerLost is a person who has the last message, which we do not know yet.
func lastAnswerLost(b *bundle) conversation.Profile {
	p, _ := b.failedAtLast(messagingtest.AcceptLost)
	b.unmute()
	b.clock.Advance(grace)
	return p
}

func wentThrough(b *bundle) conversation.Profile {
	p, _ := b.finished()
	return p
}

func heldInBurst(b *bundle) conversation.Profile {
	p, _ := b.inBurst(2)
	b.unmute()
	b.hold(p)
	b.clock.Advance(time.Minute)
	return p
}

func muteInBurst(b *bundle) conversation.Profile {
	p, _ := b.inBurst(2)
	b.unmute()
	return p
}

// stuckAtLast is a person whose last message was in doubt until an operator resolved it.
func stuckAtLast(b *bundle) conversation.Profile {
	p, r := b.failedAtLast(messagingtest.ParkTaken)
	require.True(b.t, b.messaging.Resolve(stepKey(r, 4), wasSent))
	b.unmute()
	b.clock.Advance(time.Second)
	b.reply(p, "yes")
	return p
}

// stuckAndGivenUp is a person whose last message was not sent, and whose alarm QStash gave up.
func stuckAndGivenUp(b *bundle) conversation.Profile {
	p, r := b.failedAtLast(messagingtest.ParkMissed)
	b.givesUp(r, nil)
	require.True(b.t, b.messaging.Resolve(stepKey(r, 4), wasNotSent))
	b.unmute()
	return p
}

// stuckExplanation is a person whose explanation was sent, which an operator has found out, and who has answered it since.
func stuckExplanation(b *bundle) conversation.Profile {
	p, r := b.activated()
	b.messaging.Script(messagingtest.First(messagingtest.ParkTaken))
	b.reply(p, secretWords)
	b.messaging.Script(nil)
	b.clock.Advance(time.Second)
	b.reply(p, "not now")
	require.True(b.t, b.messaging.Resolve(session.DirectKey(p.ID, r.ID, session.TextExplanation, 1), wasSent))
	return p
}

// stuckOpening is a person whose opening was not sent.
func stuckOpening(b *bundle) conversation.Profile {
	p := b.person()
	b.messaging.Script(messagingtest.First(messagingtest.ParkMissed))
	r := b.activate(p)
	b.messaging.Script(nil)
	require.True(b.t, b.messaging.Resolve(session.OpeningKey(p.ID, r.ID), wasNotSent))
	return p
}

// awaitsReceipt is a person whose last message waits for the receipt of the one before, which never comes.
func awaitsReceipt(b *bundle) conversation.Profile {
	p, r := b.beforeLast()
	b.unmute()
	b.clock.Advance(19 * time.Second) // a second is left to wait
	b.exec(`update step_alarms set published_at = null, qstash_message_id = null, lease_until = $2 where session_id = $1 and step_id = $3`,
		r.ID, b.clock.Now(), string(step(4)))
	b.exec(`update step_alarms set generation = 2 where session_id = $1 and step_id = $2`, r.ID, string(step(4))) // QStash has seen the first
	return p
}

// play plays a phase with a process that meets a mishap, and returns the effects.
func (ph phase) play(b *bundle, p *ports) []session.Kind {
	b.t.Helper()
	b.serve(b.start(b.healthy()))
	person := ph.begin(b)
	b.serve(b.start(p))
	cause := ph.cause(b, person)
	for try := 1; cause() != nil; try++ {
		require.Less(b.t, try, 5)
	}
	b.until(func() bool { return b.waiting() == 0 && b.newest(person).Token == ph.token })
	b.serve(b.start(b.healthy()))
	_ = cause() // a STOP keeps an activation from being repeated, and all else changes nothing
	b.quiet()

	require.Equal(b.t, ph.want, b.sequence(person))
	b.keepsPace(person)
	require.Equal(b.t, 1, b.count(`select count(*) from conversation_sessions where profile_id = $1`, person.ID))
	require.Zero(b.t, b.count(`select count(*) from webhook_jobs where status = 'failed'`))
	require.Zero(b.t, b.count(`select count(*) from (select from session_transitions where kind in ('replied', 'stopped') and message_id is not null
		and detail <> 'again' group by message_id having count(*) > 1) twice`), "a message took effect twice")
	require.Zero(b.t, b.count(`select count(*) from (select from session_transitions where kind = 'waiting' group by session_id, step_id having count(*) > 1) twice`))
	return b.effects(person)
}

// effects is the person's timeline without their own messages, whose entries may stand before or after what happens meanwhile. A replay
// whose answer was lost has an entry for every request, and a wait that a crash has used up has none.
func (b *bundle) effects(p conversation.Profile) []session.Kind {
	b.t.Helper()
	return slices.DeleteFunc(b.story(b.newest(p).ID), func(k session.Kind) bool {
		return k == session.KindReplied || k == session.KindHeld || k == session.KindReplayed || k == session.KindWaiting
	})
}

// newest is where the person's newest session stands.
func (b *bundle) newest(p conversation.Profile) session.Record {
	b.t.Helper()
	v, err := b.store.Conversation(b.t.Context(), orgID, p.Phone)
	require.NoError(b.t, err)
	return v.Session
}

// keepsPace asserts that no step came before its delay was over.
func (b *bundle) keepsPace(p conversation.Profile) {
	b.t.Helper()
	at := map[string]time.Time{}
	for i, key := range b.sequence(p) {
		at[key] = b.messaging.Taken(p.Phone)[i].At
	}
	steps := session.DefaultFlow().Steps()
	for i, s := range steps[1:] {
		before, after := at[string(steps[i].Text)], at[string(s.Text)]
		if !after.IsZero() {
			require.GreaterOrEqual(b.t, after.Sub(before), s.Delay)
		}
	}
}

// TestCrash is the crash matrix: every phase, with every mishap at every call of the database, of messaging and of
// QStash, until a run has no call left.
func TestCrash(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	all := whole
	for _, ph := range []phase{
		{name: "S0_65_Opening", begin: enrolled, cause: activates, want: all[:1], token: session.AwaitingOpeningResponse},
		{name: "S0_65_Explanation", begin: activated, cause: writes(secretWords), want: all[:2], token: session.AwaitingExplanationResponse},
		{name: "S0_65_Later", begin: informed, cause: writes("not now"), want: []string{opening, explanation, later}, token: session.AwaitingOpeningResponse},
		{name: "S0_63_S0_65_S1_29_S1_36_Burst", begin: informed, cause: writes(secretWords), want: all, token: session.AwaitingInterviewStart},
		{name: "S0_65_S0_67_HeldReply", begin: lastAnswerLost, cause: writes(secretWords), want: all, token: session.InterviewActivity01},
		{name: "S0_65_InterviewStart", begin: wentThrough, cause: writes(secretWords), want: all, token: session.InterviewActivity01},
		{name: "S0_65_Release", begin: heldInBurst, cause: releases, want: all, token: session.AwaitingInterviewStart},
		{name: "S0_65_ResumeInTheBurst", begin: stuckAtLast, cause: resumes, want: all, token: session.InterviewActivity01},
		{name: "S0_65_ResumeOfTheOpening", begin: stuckOpening, cause: resumes, want: all[:1], token: session.AwaitingOpeningResponse},
		{
			name: "S0_65_ResumeOfAnExplanation", begin: stuckExplanation, cause: resumes, want: []string{opening, explanation, later},
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
			goodDay := ph.play(b, b.healthy())
			b.everyMishap(3, func(p *ports) {
				require.Equal(t, goodDay, ph.play(b, p), "%s call %d of %v", p.mishap, p.at, p.calls)
			})
		})
	}
}

// TestCrashOfQStash loses every alarm that QStash takes, once. The sweeper sets each again.
func TestCrashOfQStash(t *testing.T) {
	t.Parallel()
	b := setup(t)
	lost := map[string]bool{}
	b.qstash.SetFaults(emulator.Script{OnDeliver: func(d emulator.Delivery) emulator.DeliverFault {
		step := string(d.Message.Body)
		first := !lost[step]
		lost[step] = true
		return emulator.DeliverFault{Lose: first}
	}})
	p, r := b.explained()
	b.reply(p, "yes")
	b.until(func() bool { return b.session(r.ID).Token == session.AwaitingInterviewStart })
	require.Equal(t, whole, b.sequence(p))
	require.Len(t, lost, 4)
}

// TestConcurrentDuplicates rings every alarm several times at once and late, and posts every message of several people
// many times at once. Each takes effect once.
//
// Also: S0-30, S0-31, S0-45, S0-66.
func TestConcurrentDuplicates(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.qstash.SetFaults(emulator.Script{OnDeliver: emulator.Every(emulator.DeliverFault{Copies: 3, Repeats: 2, RepeatAfter: 9 * time.Second})})
	const people = 6
	done := make(chan error, people)
	var all []conversation.Profile
	for range people {
		p, _ := b.activated()
		all = append(all, p)
	}
	for round := range 2 {
		for _, p := range all {
			m := b.message(p, fmt.Sprintf("yes, %d", round))
			go func() {
				done <- atOnce(8, func() error {
					_, err := b.current().server.ReceiveMessage(b.t.Context(), m)
					return err
				})
			}()
		}
		for range all {
			require.NoError(t, <-done)
		}
	}
	b.quiet()
	b.pass(time.Minute)
	for _, p := range all {
		require.Equal(t, whole, b.sequence(p))
		b.keepsPace(p)
		require.Equal(t, session.AwaitingInterviewStart, b.newest(p).Token)
	}
	require.Equal(t, 4*people, b.count(`select count(*) from step_alarms`))
	require.Equal(t, 2*people, b.count(`select count(*) from session_transitions where kind = 'replied'`))
	require.Equal(t, 2*people, b.count(`select count(*) from webhook_jobs where source = 'twilio' and idempotency_key like 'SM%'`))
	require.Equal(t, 2*people, b.messaging.Recorded())
}
