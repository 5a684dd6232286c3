package conversation_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"paceline.internal/emulators/messagingtest"
	emulator "paceline.internal/emulators/qstash"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/onboardingtest"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

func parsed(t *rapid.T, files map[string]string) flow.Flow {
	folder := fstest.MapFS{}
	for name, text := range files {
		folder[name] = &fstest.MapFile{Data: []byte(text)}
	}
	f, err := flow.Parse(folder)
	require.NoError(t, err, "%s", files["flow.yaml"])
	return f
}

// walk is a person in a random flow, while calls fail.
type walk struct {
	b       *bundle
	p       people.Profile
	flows   map[string]flow.Flow // by version
	stopped int                  // the texts that they had when STOP was answered; -1 before
	pinned  map[string]string    // by session
	held    bool                 // by a safety hold
	quiet   int                  // the texts that they had when it began
	over    map[string]bool      // by session: it has ended
}

// until repeats a call as Twilio, a host application and an operator do: until it is answered without an error.
func (w *walk) until(t *rapid.T, what string, call func() error) {
	var err error
	for range 12 {
		if err = call(); err == nil {
			return
		}
		w.b.Pass(10 * time.Second)
	}
	require.NoError(t, err, what)
}

func (w *walk) says(t *rapid.T, body string) {
	w.until(t, "the text "+body, w.b.Posts(w.p, body))
}

// publish publishes a flow of the same name in another version.
func (w *walk) publish(t *rapid.T, files map[string]string) {
	f := parsed(t, files)
	w.flows[f.Version] = f
	_, err := w.b.Store.Flows().Publish(w.b.T.Context(), onboardingtest.OrgID, files, w.b.Clock.Now())
	require.NoError(t, err)
}

// step lets one thing happen.
func (w *walk) step(t *rapid.T) {
	b := w.b
	switch pick(t, "what", "answer", "answer", "answer", "unclear", "no", "stop", "silence", "silence", "time", "time", "fault", "fault", "fault",
		"trouble", "lose", "resume", "version", "host", "late", "late", "late", "overdue", "overdue", "hold", "stop amid") {
	case "answer":
		w.says(t, w.answer(t, pick(t, "answer", "alpha", "beta")))
	case "unclear":
		w.says(t, "what do you mean?")
	case "no":
		w.says(t, "not now")
	case "stop":
		if pick(t, "stops", true, false, false, false) {
			w.says(t, "STOP")
			w.stopped = len(b.Messaging.Taken(w.p.Phone))
		}
	case "silence":
		b.Clock.Advance(time.Hour)
		b.Pass(20 * time.Second)
	case "time":
		b.Pass(10 * time.Second)
	case "fault": // a later call of the database, of messaging or of QStash
		ports := b.Healthy()
		ports.At = rapid.IntRange(1, 12).Draw(t, "call")
		ports.Mishap = pick(t, "mishap", onboardingtest.FailBefore, onboardingtest.FailAfter, onboardingtest.DieBefore, onboardingtest.DieAfter)
		b.Serve(b.Start(ports))
	case "trouble":
		b.Messaging.Script(messagingtest.First(pick(t, "outcome", messagingtest.AcceptLost, messagingtest.UnknownTaken,
			messagingtest.UnknownMissed, messagingtest.Throttle, messagingtest.Reject, messagingtest.ParkTaken, messagingtest.ParkMissed)))
	case "lose":
		lost := false
		b.QStash.SetFaults(emulator.Script{OnDeliver: func(emulator.Delivery) emulator.DeliverFault {
			fault := emulator.DeliverFault{Lose: !lost, Copies: 2}
			lost = true
			return fault
		}})
	case "resume":
		w.mend()
	case "version":
		w.publish(t, drawFlow(t))
	case "late":
		w.late(t)
	case "overdue":
		w.overdue(t)
	case "hold":
		w.hold(t)
	case "stop amid":
		if pick(t, "stops", true, false, false) {
			w.stopAmid(t)
		}
	case "host":
		b.Host.Answer = pick(t, "host", free(`{"field": 3}`), free(`{"branch": "other"}`), nil)
	}
	b.Idle()
	if r := b.Newest(w.p); r.Flow != "" {
		if r.NextStep != "" {
			w.probes(t, r)
		}
		if r.Status.Parked() {
			require.NotEmpty(t, r.Reason)
		}
		if pinned, known := w.pinned[r.ID]; known {
			require.Equal(t, pinned, r.FlowVersion, "a session stays on its version")
		}
		w.pinned[r.ID] = r.FlowVersion
		ended := r.Status == session.Stopped || r.Status == session.Closed
		require.False(t, w.over[r.ID] && !ended, "a session that has ended goes on: %+v", r)
		w.over[r.ID] = ended
	}
	if w.held {
		require.Len(t, b.Messaging.Taken(w.p.Phone), w.quiet, "a text in a safety hold")
	}
}

// answer is an answer in the form that the session waits for.
func (w *walk) answer(t *rapid.T, choice string) string {
	r := w.b.Newest(w.p)
	switch w.flowOf(t, r).Steps[r.At.Step].Expect.Type {
	case flow.Number:
		return "4"
	case flow.Choice:
		return choice
	default:
		return "fine"
	}
}

func (w *walk) flowOf(t *rapid.T, r session.Record) flow.Flow {
	f, err := w.b.Store.Flows().Version(w.b.T.Context(), onboardingtest.OrgID, r.Flow, r.FlowVersion)
	require.NoError(t, err)
	return f
}

// mend is an operator who resolves what is in doubt and resumes the session.
func (w *walk) mend() {
	w.b.Messaging.Settle()
	w.b.Messaging.ResolveAll()
	_, err := w.b.Resume(w.b.Newest(w.p))
	_ = err // it was not parked, or a call failed: they try again later
}

// ends brings the conversation to its end, as an operator and a person who answers do.
func (w *walk) ends(t *rapid.T) {
	b := w.b
	b.Serve(b.Start(b.Healthy()))
	b.Unmute()
	b.Messaging.Script(nil)
	if w.held {
		w.hold(t)
	}
	for try := 0; ; try++ {
		b.Pass(20 * time.Second)
		r := b.Newest(w.p)
		over := r.Status == session.Stopped || r.Status == session.Closed || r.Mode == session.Interviewing
		if follows := strings.Contains(r.Reason, "the flow follows follows"); over && (!follows || w.stopped >= 0) { // STOP begins no other
			return
		}
		require.Less(t, try, 60, "it does not come to its end: %+v", r)
		w.mend()
		if r := b.Newest(w.p); r.Status == session.Active && r.NextStep == "" && r.At.Phase == flow.Waiting {
			w.says(t, w.answer(t, "alpha"))
		}
		b.Clock.Advance(onboardingtest.Grace)
	}
}

// taken is a text as its key names it.
type taken struct {
	session, step, kind string // kind is empty for the text of the step itself
	visit               int
	at                  time.Time
}

// read takes a key apart: onboarding:{profile}:{session}:{step}, then #2 from the second visit on, then the kind and number of a reply.
func read(t *rapid.T, sent messagingtest.Text) taken {
	parts := strings.Split(sent.Key, ":")
	require.GreaterOrEqual(t, len(parts), 4, sent.Key)
	out := taken{session: parts[2], visit: 1, at: sent.At}
	var again string
	out.step, again, _ = strings.Cut(parts[3], "#")
	if again != "" {
		_, err := fmt.Sscan(again, &out.visit)
		require.NoError(t, err)
	}
	if len(parts) > 4 {
		out.kind = strings.Join(parts[4:], ":")
	}
	return out
}

// follow lists the steps with a text that may come next after a step.
func follow(f flow.Flow, id string) map[string]bool {
	found, seen := map[string]bool{}, map[string]bool{}
	var from func(id string)
	from = func(id string) {
		if s := f.Steps[id]; seen[id] {
			return
		} else if seen[id] = true; s.Text != "" {
			found[id] = true
			return
		}
		for _, next := range leads(f.Steps[id]) {
			from(next)
		}
	}
	for _, next := range leads(f.Steps[id]) {
		from(next)
	}
	return found
}

// leads lists the steps that a step leads to.
func leads(s flow.Step) []string {
	all := []string{s.Then, s.Else, s.Failed}
	for _, next := range s.Branches {
		all = append(all, next)
	}
	if s.Unclear != nil {
		all = append(all, s.Unclear.Then)
	}
	if s.Silence != nil {
		all = append(all, s.Silence.Then)
	}
	return all
}

// judge holds what the person got to what is promised.
func (w *walk) judge(t *rapid.T) {
	texts := w.b.Messaging.Taken(w.p.Phone)
	keys, visits := map[string]bool{}, map[string]int{}
	var before taken
	var over []string // sessions with later ones behind them
	for _, sent := range texts {
		require.False(t, keys[sent.Key], "two messages for %s", sent.Key)
		keys[sent.Key] = true
		now := read(t, sent)
		require.NotContains(t, over, now.session, "a text of a session that another followed")
		f := w.flows[w.pinned[now.session]]
		if now.session != before.session {
			over = append(over, before.session)
			before = taken{}
		}
		if len(f.Steps) == 0 { // the flow that follows
			before = now
			continue
		}
		if now.kind == "" {
			visits[now.session+now.step]++
			require.Equal(t, visits[now.session+now.step], now.visit, "%s: a visit is missing", sent.Key)
		}
		switch {
		case before.step == "":
			require.Equal(t, "s0", now.step, "it begins with its first step")
		case now.kind != "":
			require.Equal(t, before.step, now.step, "%s answers what was not asked last", sent.Key)
		default:
			require.True(t, follow(f, before.step)[now.step], "%s cannot follow %s in\n%v", now.step, before.step, f.Order)
			after := f.Steps[now.step].After
			if now.visit > 1 { // an alarm of an earlier visit may be taken for that of this one within the lead that a clock may have
				after = max(after-5*time.Second, 0)
			}
			require.GreaterOrEqual(t, now.at.Sub(before.at), after, "%s came too early", sent.Key)
		}
		before = now
	}
	if w.stopped >= 0 {
		require.Len(t, texts, w.stopped, "a text after STOP")
	}
	last := w.b.Newest(w.p)
	if f := w.flows[last.FlowVersion]; last.Status == session.Closed && last.Flow == "walk" {
		for id, n := range last.At.Visits {
			if f.Steps[id].Text != "" {
				require.Equal(t, n, visits[last.ID+id], "texts of %s", id)
			}
		}
	}
	open := func() []string {
		return onboardingtest.List[string](w.b.Bundle, `select concat_ws(' ', event_type, status, error_message, 'due', next_retry_at)
			from webhook_jobs where status in ('pending', 'processing') and subject = $1`, w.p.Phone)
	}
	for try := 0; len(open()) > 0; try++ { // a process that died has its lease for a while
		require.Less(t, try, 30, "jobs are left: %v", open())
		w.b.Pass(30 * time.Second)
	}
	require.Zero(t, w.b.Count(`select count(*) from conversation_sessions where profile_id = $1 and status = 'active' and mode = 'onboarding'`, w.p.ID))
}

// rounds counts the tests that the proof runs at once, each as long as the one of the ordinary test; -rapid.checks asks for more in each.
const rounds = 8

// TestRandomFlows plays random flows with random people, while calls fail and versions change: each text at most once, in the order of the
// flow, never too early, none after STOP, and every conversation comes to its end.
func TestRandomFlows(t *testing.T) {
	t.Parallel()
	n := rounds
	if testing.Short() {
		n = 1
	}
	for i := range n {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			publish(b, "follows", "  first: {send: BYE, then: done}\n  done: {end: over}\n", "  BYE: Bye.\n")
			rapid.Check(t, func(t *rapid.T) { randomFlow(t, b) })
		})
	}
}

func randomFlow(t *rapid.T, b *bundle) {
	b.Serve(b.Start(b.Healthy()))
	b.Unmute()
	b.Messaging.Script(nil)
	b.Host.Answer = free(`{"field": 3}`)
	w := &walk{b: b, p: b.Person(), flows: map[string]flow.Flow{}, stopped: -1, pinned: map[string]string{}, over: map[string]bool{}}
	w.publish(t, drawFlow(t))
	if pick(t, "fault at once", true, false) {
		ports := b.Healthy()
		ports.At, ports.Mishap = rapid.IntRange(1, 8).Draw(t, "call"), pick(t, "mishap", onboardingtest.FailAfter, onboardingtest.DieAfter)
		b.Serve(b.Start(ports))
	}
	w.until(t, "activation", func() error {
		_, err := b.Current().Service.Begin(b.T.Context(), onboardingtest.OrgID, conversation.Start{ProfileID: w.p.ID, Flow: "walk"})
		if _, parked := errors.AsType[*conversation.SessionParked](err); parked || errors.Is(err, conversation.ErrOtherOpen) {
			return nil // it has gone on meanwhile
		}
		return err
	})
	w.pinned[b.Newest(w.p).ID] = b.Newest(w.p).FlowVersion
	for range rapid.IntRange(2, 12).Draw(t, "events") {
		w.step(t)
	}
	w.ends(t)
	w.judge(t)
}
