package onboarding_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/qstash"
	"paceline.internal/platform/queue"
	"paceline.internal/platform/rpc"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/engagement"
	"paceline.internal/services/onboarding/engagement/rules"
	"paceline.internal/services/onboarding/goals"
	"paceline.internal/services/onboarding/messaging"
	"paceline.internal/services/onboarding/postgres"
	"paceline.internal/services/onboarding/session"
)

// mishap is what happens at one call of a port.
type mishap string

const (
	failBefore mishap = "FailsBefore" // the call is not made, the caller sees an error
	failAfter  mishap = "FailsAfter"  // the call is made, the caller sees an error all the same
	dieBefore  mishap = "DiesBefore"  // the process is gone before the call: neither it nor any later one is made
	dieAfter   mishap = "DiesAfter"   // the process is gone after the call: no later one is made
)

var errMishap = errors.New("injected")

// ports are all ways out of one process: the database, messaging and QStash. At the call number at they meet a mishap;
// with 0 they never do.
type ports struct {
	*postgres.Store

	carrier *messaging.Client
	alarms  *qstash.Publisher
	at      int
	mishap  mishap

	// meanwhile happens once, before the next message of ours is sent.
	meanwhile func()
	// whileRecording happens once, before the next message of a person is recorded.
	whileRecording func()
	// beforeApply happens once, between the next decision on a person and its change.
	beforeApply func()
	// beforeBegin happens once, between the next decision to send outreach and its claim.
	beforeBegin func()
	// beforeBatch happens once, between the next decisions of a run and their write.
	beforeBatch func()
	failBatch   bool // once

	mu    sync.Mutex
	calls []string
	gone  bool
	// changed says that the call that met the mishap changes something.
	changed bool
}

// everyMishap plays with every mishap at every call of a port, until a play has no call left; there are more than atLeast. Two kinds of plays
// are left out, for another one is as hard: a read that fails after it was made changes no more than one that fails before, and a process
// that dies before a call has changed no more than one that died after the call before it.
func (b *bundle) everyMishap(atLeast int, play func(p *ports)) {
	b.t.Helper()
	for at := 1; ; at++ {
		changes := false
		for _, m := range []mishap{failBefore, failAfter, dieAfter} {
			if m == failAfter && !changes {
				continue
			}
			p := b.healthy()
			p.at, p.mishap = at, m
			play(p)
			changes = p.changed
			if !p.happened() {
				require.Greater(b.t, at, atLeast, "hardly any port was called: %v", p.calls)
				return
			}
		}
	}
}

// happened reports whether the mishap has come.
func (p *ports) happened() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at > 0 && len(p.calls) >= p.at
}

// dead reports whether the process is gone.
func (p *ports) dead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gone
}

// begin counts a call, and says whether it is made and whether its answer arrives.
func (p *ports) begin(name string, changes bool) (made, answered bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return false, false
	}
	p.calls = append(p.calls, name)
	if len(p.calls) != p.at {
		return true, true
	}
	p.changed = changes
	p.gone = p.mishap == dieBefore || p.mishap == dieAfter
	return p.mishap == failAfter || p.mishap == dieAfter, false
}

// call makes a call that changes something, read one that changes nothing.
func call[T any](p *ports, name string, do func() (T, error)) (T, error) {
	return through(p, name, true, do)
}

func read[T any](p *ports, name string, do func() (T, error)) (T, error) {
	return through(p, name, false, do)
}

func through[T any](p *ports, name string, changes bool, do func() (T, error)) (T, error) {
	var none T
	made, answered := p.begin(name, changes)
	if !made {
		return none, errMishap
	}
	got, err := do()
	if !answered {
		return none, errMishap
	}
	return got, err
}

func act(p *ports, name string, do func() error) error {
	_, err := call(p, name, func() (struct{}, error) { return struct{}{}, do() })
	return err
}

func (p *ports) LoadStep(ctx context.Context, id string) (v conversation.View, due conversation.StepDue, err error) {
	v, err = read(p, "LoadStep", func() (v conversation.View, err error) {
		v, due, err = p.Store.LoadStep(ctx, id)
		return v, err
	})
	return v, due, err
}

func (p *ports) LoadSession(ctx context.Context, id string) (conversation.View, error) {
	return read(p, "LoadSession", func() (conversation.View, error) { return p.Store.LoadSession(ctx, id) })
}

func (p *ports) Conversation(ctx context.Context, org, phone string) (conversation.View, error) {
	return read(p, "Conversation", func() (conversation.View, error) { return p.Store.Conversation(ctx, org, phone) })
}

func (p *ports) ConversationAt(ctx context.Context, org, phone string, at time.Time) (conversation.View, error) {
	return read(p, "ConversationAt", func() (conversation.View, error) { return p.Store.ConversationAt(ctx, org, phone, at) })
}

func (p *ports) Move(ctx context.Context, m session.Move, cause *conversation.Cause) error {
	return act(p, "Move", func() error { return p.Store.Move(ctx, m, cause) })
}

func (p *ports) Note(ctx context.Context, at session.Record, entries []session.Entry, cause *conversation.Cause, now time.Time) error {
	return act(p, "Note", func() error { return p.Store.Note(ctx, at, entries, cause, now) })
}

func (p *ports) HoldReply(ctx context.Context, at session.Record, cause conversation.Cause, entry session.Entry) error {
	return act(p, "HoldReply", func() error { return p.Store.HoldReply(ctx, at, cause, entry) })
}

func (p *ports) LastStepAt(ctx context.Context, sessionID string) (time.Time, error) {
	return read(p, "LastStepAt", func() (time.Time, error) { return p.Store.LastStepAt(ctx, sessionID) })
}

func (p *ports) LastMessageAt(ctx context.Context, sessionID string) (time.Time, error) {
	return read(p, "LastMessageAt", func() (time.Time, error) { return p.Store.LastMessageAt(ctx, sessionID) })
}

func (p *ports) Sender(ctx context.Context, org string) (string, error) {
	return read(p, "Sender", func() (string, error) { return p.carrier.Sender(asItself(ctx), org) })
}

func (p *ports) ListInbound(ctx context.Context, org string, since, until time.Time, page string) (conversation.InboundPage, error) {
	return read(p, "ListInbound", func() (conversation.InboundPage, error) { return p.carrier.ListInbound(ctx, org, since, until, page) })
}

func (p *ports) ClaimAudit(ctx context.Context, of conversation.Sender, first, now, leaseUntil time.Time) (s conversation.Audit, ours bool, err error) {
	err = act(p, "ClaimAudit", func() (err error) {
		s, ours, err = p.Store.ClaimAudit(ctx, of, first, now, leaseUntil)
		return err
	})
	return s, ours, err
}

func (p *ports) ExtendAudit(ctx context.Context, s conversation.Audit, leaseUntil time.Time) error {
	return act(p, "ExtendAudit", func() error { return p.Store.ExtendAudit(ctx, s, leaseUntil) })
}

func (p *ports) FinishAudit(ctx context.Context, s conversation.Audit, end conversation.AuditEnd) error {
	return act(p, "FinishAudit", func() error { return p.Store.FinishAudit(ctx, s, end) })
}

func (p *ports) ReleaseAudit(ctx context.Context, s conversation.Audit) error {
	return act(p, "ReleaseAudit", func() error { return p.Store.ReleaseAudit(ctx, s) })
}

func (p *ports) Enqueue(ctx context.Context, n queue.New) (stored queue.Enqueued, err error) {
	err = act(p, "Enqueue", func() (err error) {
		stored, err = p.Store.Enqueue(ctx, n)
		return err
	})
	return stored, err
}

func (p *ports) Overdue(ctx context.Context, limit, doublings int, grace time.Duration, now time.Time) ([]conversation.Overdue, error) {
	return read(p, "Overdue", func() ([]conversation.Overdue, error) { return p.Store.Overdue(ctx, limit, doublings, grace, now) })
}

func (p *ports) PutBack(ctx context.Context, w session.Wait) error {
	return act(p, "PutBack", func() error { return p.Store.PutBack(ctx, w) })
}

func (p *ports) Rearm(ctx context.Context, r session.Record, a session.Alarm, then, at time.Time) error {
	return act(p, "Rearm", func() error { return p.Store.Rearm(ctx, r, a, then, at) })
}

func (p *ports) Park(ctx context.Context, m session.Move) error {
	return act(p, "Park", func() error { return p.Store.Park(ctx, m) })
}

func (p *ports) Wait(ctx context.Context, w session.Wait) (*session.Alarm, error) {
	return call(p, "Wait", func() (*session.Alarm, error) { return p.Store.Wait(ctx, w) })
}

func (p *ports) RecordStatus(ctx context.Context, s conversation.KapsoStatus) (bool, error) {
	return call(p, "RecordStatus", func() (bool, error) { return p.carrier.RecordStatus(ctx, s) })
}

func (p *ports) Explain(ctx context.Context, m conversation.Message) (conversation.Explanation, error) {
	return read(p, "Explain", func() (conversation.Explanation, error) { return p.carrier.Explain(asItself(ctx), m) })
}

func (p *ports) Receipt(ctx context.Context, org, key string) (conversation.Receipt, error) {
	return read(p, "Receipt", func() (conversation.Receipt, error) { return p.carrier.Receipt(ctx, org, key) })
}

func (p *ports) Resume(ctx context.Context, org, id string, by session.Trigger, at time.Time) (session.Record, error) {
	return call(p, "Resume", func() (session.Record, error) { return p.Store.Resume(ctx, org, id, by, at) })
}

func (p *ports) ReplayDeadLetter(ctx context.Context, within conversation.Scope, id string, at time.Time) (conversation.Replayed, error) {
	return call(p, "ReplayDeadLetter", func() (conversation.Replayed, error) { return p.Store.ReplayDeadLetter(ctx, within, id, at) })
}

func (p *ports) OpenSession(ctx context.Context, o conversation.Opening) (session.Record, error) {
	return call(p, "OpenSession", func() (session.Record, error) { return p.Store.OpenSession(ctx, o) })
}

func (p *ports) Send(ctx context.Context, t conversation.Message) (conversation.Sent, error) {
	if do := p.meanwhile; do != nil {
		p.meanwhile = nil
		do()
	}
	return call(p, "Send", func() (conversation.Sent, error) { return p.carrier.Send(asItself(ctx), t) })
}

func (p *ports) JudgeJobs(ctx context.Context, org, phone string, before, at time.Time) error {
	return act(p, "JudgeJobs", func() error { return p.Store.JudgeJobs(ctx, org, phone, before, at) })
}

func (p *ports) Record(
	ctx context.Context, m conversation.Inbound, from conversation.View, received time.Time,
) (conversation.Recorded, error) {
	if do := p.whileRecording; do != nil {
		p.whileRecording = nil
		do()
	}
	return call(p, "Record", func() (conversation.Recorded, error) {
		return p.carrier.Record(ctx, m, from, received)
	})
}

// asItself has the service call as itself on behalf of any caller, as the server chain does.
func asItself(ctx context.Context) context.Context {
	return rpc.WithPrincipal(ctx, rpc.Principal{Subject: "onboarding", Role: rpc.RoleService})
}

func (p *ports) SetReminders(
	ctx context.Context, org, phone string, said engagement.RemindersSaid,
) (engagement.RemindersSaid, error) {
	return call(p, "SetReminders", func() (engagement.RemindersSaid, error) {
		return p.carrier.SetReminders(asItself(ctx), org, phone, said)
	})
}

func (p *ports) Fate(ctx context.Context, org, key string) (engagement.Fate, error) {
	return call(p, "Fate", func() (engagement.Fate, error) { return p.carrier.Fate(asItself(ctx), org, key) })
}

func (p *ports) LastSent(ctx context.Context, org, profileID string, since, until time.Time) (string, error) {
	return call(p, "LastSent", func() (string, error) { return p.carrier.LastSent(asItself(ctx), org, profileID, since, until) })
}

func (p *ports) CheckSender(ctx context.Context, org, phone string) (bool, error) {
	return call(p, "CheckSender", func() (bool, error) { return p.carrier.CheckSender(asItself(ctx), org, phone) })
}

func (p *ports) Unfinished(ctx context.Context, org, profileID, phone string) (conversation.Unfinished, error) {
	return read(p, "Unfinished", func() (conversation.Unfinished, error) {
		return p.carrier.Unfinished(asItself(ctx), org, profileID, phone)
	})
}

func (p *ports) ForwardHold(ctx context.Context, org, phone string, held bool, version int64) error {
	return act(p, "ForwardHold", func() error { return p.carrier.ForwardHold(ctx, org, phone, held, version) })
}

func (p *ports) JudgeWords(ctx context.Context, org, phone string) error {
	return act(p, "JudgeWords", func() error { return p.carrier.JudgeWords(asItself(ctx), org, phone) })
}

func (p *ports) HoldForwarded(ctx context.Context, profileID string, version int64) error {
	return act(p, "HoldForwarded", func() error { return p.Store.HoldForwarded(ctx, profileID, version) })
}

func (p *ports) Publish(ctx context.Context, job qstash.Job) (qstash.Receipt, error) {
	return call(p, "Publish", func() (qstash.Receipt, error) { return p.alarms.Publish(ctx, job) })
}

func (p *ports) Profile(ctx context.Context, org, id string) (conversation.Profile, error) {
	return read(p, "Profile", func() (conversation.Profile, error) { return p.Store.Profile(ctx, org, id) })
}

func (p *ports) SetHold(ctx context.Context, org, id, reason string, at time.Time) (conversation.Profile, error) {
	return call(p, "SetHold", func() (conversation.Profile, error) { return p.Store.SetHold(ctx, org, id, reason, at) })
}

func (p *ports) Release(ctx context.Context, org, id string, at time.Time) (conversation.Profile, error) {
	return call(p, "Release", func() (conversation.Profile, error) { return p.Store.Release(ctx, org, id, at) })
}

func (p *ports) CloseSession(ctx context.Context, org, id string, at time.Time) (session.Record, error) {
	return call(p, "CloseSession", func() (session.Record, error) { return p.Store.CloseSession(ctx, org, id, at) })
}

// people is the engagement of a process.
type people struct{ p *ports }

func (e people) Person(ctx context.Context, org, phone, cause, jobID string) (engagement.View, error) {
	return read(e.p, "Person", func() (engagement.View, error) { return e.p.Store.Engagement().Person(ctx, org, phone, cause, jobID) })
}

func (e people) PersonByID(ctx context.Context, org, id, cause string) (engagement.View, error) {
	return read(e.p, "PersonByID", func() (engagement.View, error) { return e.p.Store.Engagement().PersonByID(ctx, org, id, cause) })
}

func (e people) ExpensesIn(ctx context.Context, v engagement.View, category string, from, until time.Time) (int, error) {
	return read(e.p, "ExpensesIn", func() (int, error) { return e.p.Store.Engagement().ExpensesIn(ctx, v, category, from, until) })
}

func (e people) Apply(ctx context.Context, c engagement.Change) error {
	if do := e.p.beforeApply; do != nil {
		e.p.beforeApply = nil
		do()
	}
	return act(e.p, "Apply", func() error { return e.p.Store.Engagement().Apply(ctx, c) })
}

func (e people) Prefer(ctx context.Context, p engagement.Preference) error {
	return act(e.p, "Prefer", func() error { return e.p.Store.Engagement().Prefer(ctx, p) })
}

func (e people) NoteConsent(ctx context.Context, org, id string, out bool, said, now time.Time) error {
	return act(e.p, "NoteConsent", func() error { return e.p.Store.Engagement().NoteConsent(ctx, org, id, out, said, now) })
}

func (e people) Outreach(ctx context.Context, j queue.Job, now time.Time) (engagement.Due, error) {
	return call(e.p, "Outreach", func() (engagement.Due, error) { return e.p.Store.Engagement().Outreach(ctx, j, now) })
}

func (e people) Begin(
	ctx context.Context, d engagement.Due, r engagement.Rendered, group bool, at time.Time,
) (engagement.Rendered, error) {
	if do := e.p.beforeBegin; do != nil {
		e.p.beforeBegin = nil
		do()
	}
	return call(e.p, "Begin", func() (engagement.Rendered, error) { return e.p.Store.Engagement().Begin(ctx, d, r, group, at) })
}

func (e people) Unbegin(ctx context.Context, d engagement.Due, at time.Time) error {
	return act(e.p, "Unbegin", func() error { return e.p.Store.Engagement().Unbegin(ctx, d, at) })
}

func (e people) End(ctx context.Context, end engagement.End) error {
	return act(e.p, "End", func() error { return e.p.Store.Engagement().End(ctx, end) })
}

func (e people) Organisations(ctx context.Context) ([]string, error) {
	return read(e.p, "Organisations", func() ([]string, error) { return e.p.Store.Engagement().Organisations(ctx) })
}

func (e people) NewestRun(ctx context.Context, org string, job rules.Job) (string, error) {
	return read(e.p, "NewestRun", func() (string, error) { return e.p.Store.Engagement().NewestRun(ctx, org, job) })
}

func (e people) RecordRuns(ctx context.Context, org string, run *rules.Period, superseded []rules.Period, config string, now time.Time) error {
	return act(e.p, "RecordRuns", func() error { return e.p.Store.Engagement().RecordRuns(ctx, org, run, superseded, config, now) })
}

func (e people) ClaimRun(ctx context.Context, org string, now, until time.Time) (r engagement.Run, claimed bool, err error) {
	err = act(e.p, "ClaimRun", func() (err error) {
		r, claimed, err = e.p.Store.Engagement().ClaimRun(ctx, org, now, until)
		return err
	})
	return r, claimed, err
}

func (e people) ReleaseRun(ctx context.Context, r engagement.Run) error {
	return act(e.p, "ReleaseRun", func() error { return e.p.Store.Engagement().ReleaseRun(ctx, r) })
}

func (e people) Candidates(ctx context.Context, of engagement.Run, times engagement.RunTimes, limit int) ([]engagement.Candidate, error) {
	return read(e.p, "Candidates", func() ([]engagement.Candidate, error) {
		return e.p.Store.Engagement().Candidates(ctx, of, times, limit)
	})
}

func (e people) WriteBatch(ctx context.Context, b engagement.Batch, until time.Time) (engagement.Counts, error) {
	if do := e.p.beforeBatch; do != nil {
		e.p.beforeBatch = nil
		do()
	}
	if e.p.failBatch {
		e.p.failBatch = false
		return engagement.Counts{}, errMishap
	}
	return call(e.p, "WriteBatch", func() (engagement.Counts, error) { return e.p.Store.Engagement().WriteBatch(ctx, b, until) })
}

func (e people) EndRun(ctx context.Context, r engagement.Run, now time.Time) error {
	return act(e.p, "EndRun", func() error { return e.p.Store.Engagement().EndRun(ctx, r, now) })
}

func (p *ports) ConversationOf(ctx context.Context, org, profileID string) (conversation.View, error) {
	return read(p, "ConversationOf", func() (conversation.View, error) { return p.Store.ConversationOf(ctx, org, profileID) })
}

func (p *ports) DoneBy(ctx context.Context, profileID, messageID string) (goals.Goal, error) {
	return read(p, "DoneBy", func() (goals.Goal, error) { return p.Store.DoneBy(ctx, profileID, messageID) })
}

func (p *ports) ByText(ctx context.Context, profileID string, since time.Time) ([]goals.Goal, error) {
	return read(p, "ByText", func() ([]goals.Goal, error) { return p.Store.ByText(ctx, profileID, since) })
}

// Delete withdraws an alarm of a goal. It is let be, so that every alarm of a goal that was cancelled comes all the same.
func (p *ports) Delete(context.Context, string) error {
	return act(p, "Delete", func() error { return nil })
}

// goalRows are the goals of a process.
type goalRows struct {
	*postgres.Goals

	p *ports
}

func (g goalRows) Prepare(ctx context.Context, n goals.New) (goals.Prepared, error) {
	return call(g.p, "Prepare", func() (goals.Prepared, error) { return g.Goals.Prepare(ctx, n) })
}

func (g goalRows) Insert(ctx context.Context, n goals.Goal, a goals.Alarm) (stored goals.Goal, duplicate bool, err error) {
	err = act(g.p, "Insert", func() (err error) {
		stored, duplicate, err = g.Goals.Insert(ctx, n, a)
		return err
	})
	return stored, duplicate, err
}

func (g goalRows) Goal(ctx context.Context, org, goalID string, now time.Time) (goals.Situation, error) {
	return read(g.p, "Goal", func() (goals.Situation, error) { return g.Goals.Goal(ctx, org, goalID, now) })
}

func (g goalRows) Busy(ctx context.Context, of goals.Goal, at time.Time) error {
	return act(g.p, "Busy", func() error { return g.Goals.Busy(ctx, of, at) })
}

func (g goalRows) PutBack(ctx context.Context, of goals.Goal, a goals.Alarm, at time.Time) error {
	return act(g.p, "PutGoalBack", func() error { return g.Goals.PutBack(ctx, of, a, at) })
}

func (g goalRows) Rearm(ctx context.Context, of goals.Goal, a goals.Alarm, at time.Time) error {
	return act(g.p, "RearmGoal", func() error { return g.Goals.Rearm(ctx, of, a, at) })
}

func (g goalRows) BeginPhone(ctx context.Context, of goals.Goal, runID string, at time.Time) error {
	return act(g.p, "BeginPhone", func() error { return g.Goals.BeginPhone(ctx, of, runID, at) })
}

func (g goalRows) End(ctx context.Context, e goals.End) (bool, error) {
	return call(g.p, "EndGoal", func() (bool, error) { return g.Goals.End(ctx, e) })
}

func (g goalRows) Cancel(ctx context.Context, goalID, actor string, at time.Time) (c goals.Goal, messageID string, err error) {
	err = act(g.p, "Cancel", func() (err error) {
		c, messageID, err = g.Goals.Cancel(ctx, goalID, actor, at)
		return err
	})
	return c, messageID, err
}

// jobs is a queue of a process.
type jobs struct {
	p     *ports
	queue *queue.Queue
}

func (j jobs) Claim(ctx context.Context, c queue.Claim) (queue.Claimed, error) {
	return call(j.p, "Claim", func() (queue.Claimed, error) { return j.queue.Claim(ctx, c) })
}

func (j jobs) Finish(ctx context.Context, ends []queue.Finish) ([]string, error) {
	return call(j.p, "Finish", func() ([]string, error) { return j.queue.Finish(ctx, ends) })
}

func (j jobs) Extend(ctx context.Context, held []queue.Job, until time.Time) ([]string, error) {
	return call(j.p, "Extend", func() ([]string, error) { return j.queue.Extend(ctx, held, until) })
}

func (j jobs) Expedite(ctx context.Context, done []queue.Job, now time.Time) (bool, error) {
	return call(j.p, "Expedite", func() (bool, error) { return j.queue.Expedite(ctx, done, now) })
}

// outboxRows are the alarms of a process.
type outboxRows struct{ p *ports }

func (o outboxRows) Claim(ctx context.Context, limit int, now, leaseUntil time.Time) ([]session.Alarm, error) {
	return call(o.p, "ClaimAlarms", func() ([]session.Alarm, error) { return o.p.Store.Alarms().Claim(ctx, limit, now, leaseUntil) })
}

func (o outboxRows) Published(ctx context.Context, a session.Alarm, messageID string, at time.Time) error {
	return act(o.p, "AlarmPublished", func() error { return o.p.Store.Alarms().Published(ctx, a, messageID, at) })
}

func (o outboxRows) Release(ctx context.Context, a session.Alarm, cause string, retryAt time.Time) error {
	return act(o.p, "AlarmReleased", func() error { return o.p.Store.Alarms().Release(ctx, a, cause, retryAt) })
}

func (o outboxRows) NotifyUnpublished(ctx context.Context, before, now time.Time) (n int, since time.Time, err error) {
	err = act(o.p, "NotifyUnpublished", func() (err error) {
		n, since, err = o.p.Store.Alarms().NotifyUnpublished(ctx, before, now)
		return err
	})
	return n, since, err
}
