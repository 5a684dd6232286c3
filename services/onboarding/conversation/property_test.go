package conversation_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"paceline.internal/emulators/messagingtest"
	emulator "paceline.internal/emulators/qstash"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// history is a person to whom anything happens that can, in any order.
type history struct {
	b          *bundle
	p          people.Profile
	deadLetter *onboardingv1.DeadLetter
}

// step lets one thing happen. Callers see errors; these change nothing about the promise.
func (o *history) step(t *rapid.T) {
	b, r := o.b, o.b.Newest(o.p)
	switch rapid.SampledFrom([]string{"reply", "reply", "reply", "no", "trouble", "trouble", "full", "room", "resume", "resume", "hold", "release", "dead deadLetter", "replay", "by hand", "lose", "time", "long time"}).Draw(t, "what") {
	case "reply":
		b.Reply(o.p, "yes")
	case "no":
		b.Reply(o.p, "not now")
	case "trouble":
		b.Messaging.Script(messagingtest.First(rapid.SampledFrom([]messagingtest.Outcome{
			messagingtest.AcceptLost, messagingtest.UnknownTaken, messagingtest.UnknownMissed, messagingtest.UnknownForever, messagingtest.Throttle,
			messagingtest.Reject, messagingtest.ParkTaken, messagingtest.ParkMissed,
		}).Draw(t, "outcome")))
	case "full":
		b.Messaging.SetFull(true)
	case "room":
		b.Messaging.SetFull(false)
	case "resume":
		o.mend(rapid.SampledFrom([]bool{true, false}).Draw(t, "resolved"))
	case "hold":
		b.Hold(o.p)
	case "release":
		b.Release(o.p)
	case "dead deadLetter":
		if r.NextStep != "" {
			o.deadLetter = b.GivesUp(r, nil)
		}
	case "replay":
		if o.deadLetter != nil {
			b.Replay(o.deadLetter)
		}
	case "by hand":
		if r.NextStep != "" && b.Messaging.Taken(o.p.Phone) != nil {
			b.Clock.Advance(8 * time.Second)
			_, _ = b.Execute(onboardingtest.Payload(r))
		}
	case "lose":
		lost := false
		b.QStash.SetFaults(emulator.Script{OnDeliver: func(emulator.Delivery) emulator.DeliverFault {
			fault := emulator.DeliverFault{Lose: !lost}
			lost = true
			return fault
		}})
	case "time":
		b.Pass(10 * time.Second)
	case "long time":
		b.Messaging.Settle()
		b.Pass(2 * time.Minute)
	}
}

// mend is an operator who resumes the session, after they have resolved every message in doubt, or not.
func (o *history) mend(resolve bool) {
	if resolve {
		o.b.Messaging.Settle()
		o.b.Messaging.ResolveAll()
	}
	_, err := o.b.Resume(o.b.Newest(o.p))
	require.NoError(o.b.T, err)
}

// ends brings the conversation to its end, as an operator and a person who answers do.
func (o *history) ends(t *rapid.T) {
	b := o.b
	b.Unmute()
	b.Messaging.Script(nil)
	b.Messaging.SetFull(false)
	b.Release(o.p)
	b.Work() // what was held has its turn
	for try := 0; b.Newest(o.p).Token != session.InterviewActivity01; try++ {
		require.Less(t, try, 12, "it does not come to its end: %+v", b.Newest(o.p))
		o.mend(true)
		b.Quiet()
		if b.Newest(o.p).NextStep == "" && b.Newest(o.p).Status == session.Active {
			b.Reply(o.p, "yes")
			b.Quiet()
		}
		b.Clock.Advance(onboardingtest.Grace)
		b.Work()
	}
}

// TestAnyOrderOfEvents is the promise under anything that parks, resumes, replays, holds and loses: one message per key, the burst once and
// in order, never faster than its delays, every conversation brought to its end, and nothing parked without a reason.
func TestAnyOrderOfEvents(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make proof")
	}
	t.Parallel()
	b := setup(t)
	rapid.Check(t, func(t *rapid.T) {
		b.Unmute()
		b.Messaging.SetFull(false)
		o := &history{b: b, p: b.Person()}
		if rapid.Bool().Draw(t, "trouble at once") {
			b.Messaging.Script(messagingtest.First(messagingtest.ParkMissed))
		}
		_, _ = b.Current().Service.Begin(b.T.Context(), onboardingtest.OrgID, conversation.Start{ProfileID: o.p.ID})
		for range rapid.IntRange(2, 10).Draw(t, "steps") {
			o.step(t)
			if r := b.Newest(o.p); r.Status.Parked() {
				require.NotEmpty(t, r.Reason)
			}
		}
		o.ends(t)

		keys := map[string]int{}
		var scheduled []string
		for _, sent := range b.Messaging.Taken(o.p.Phone) {
			keys[sent.Key]++
			require.Equal(t, 1, keys[sent.Key], "two messages for %s", sent.Key)
		}
		for _, key := range b.Sequence(o.p) {
			if key != onboardingtest.Opening && key != onboardingtest.Explanation && key != onboardingtest.Later {
				scheduled = append(scheduled, key)
			}
		}
		require.Equal(t, []string{onboardingtest.First, onboardingtest.Second, onboardingtest.Third, onboardingtest.Fourth}, scheduled)
		b.KeepsPace(o.p)
		require.Zero(t, b.Count(`select count(*) from webhook_jobs where status in ('pending', 'processing') and (subject = $1 or subject like 'reply:%')`, o.p.Phone))
	})
}
