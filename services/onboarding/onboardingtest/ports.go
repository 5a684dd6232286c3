package onboardingtest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/platform/alarms"
	"paceline.internal/platform/outbox"
	"paceline.internal/platform/postgres"
	"paceline.internal/platform/qstash"
	"paceline.internal/platform/queue"
	"paceline.internal/platform/rpc"
	"paceline.internal/services/onboarding"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/engagement"
	"paceline.internal/services/onboarding/inbound"
	"paceline.internal/services/onboarding/messaging"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// Mishap is one way in which a call of a port goes wrong.
type Mishap string

const (
	FailBefore Mishap = "FailsBefore" // the call is not made, the caller sees an error
	FailAfter  Mishap = "FailsAfter"  // the call is made, the caller sees an error all the same
	DieBefore  Mishap = "DiesBefore"  // the process is gone before the call: neither it nor any later one is made
	DieAfter   Mishap = "DiesAfter"   // the process is gone after the call: no later one is made
)

// ErrMishap is the error of a call that met a mishap.
var ErrMishap = errors.New("injected")

// Ports wraps all ways out of one process: the database, messaging and QStash. The call number At meets a mishap; with 0 none does.
type Ports struct {
	*onboarding.Stores

	carrier *messaging.Client
	alarms  outbox.Publisher
	At      int
	Mishap  Mishap

	// meanwhile happens once, before our next message is sent.
	Meanwhile func()
	// AfterPublish happens once, between the publish of the next alarm and the record of it.
	AfterPublish func()
	// whileRecording happens once, before the next message of a person is recorded.
	WhileRecording func()
	// beforeApply happens once, between the next decision on a person and its change.
	BeforeApply func()
	// beforeBegin happens once, between the next decision to send outreach and its claim.
	BeforeBegin func()
	// beforeBatch happens once, between the next decisions of a run and their write.
	BeforeBatch func()
	FailBatch   bool // once

	mu    sync.Mutex
	Calls []string
	gone  bool
	// changed says that the call that met the mishap changes something.
	changed bool
}

// EveryMishap plays with every mishap at every call of a port, until a play has no call left; at least atLeast calls are expected. It skips
// two kinds of plays that others cover: a read that fails after it was made changes no more than one that fails before, and a process that
// dies before a call has changed no more than one that died after the call before. A short run has each call meet one mishap, in turn.
func (b *Bundle) EveryMishap(atLeast int, play func(p *Ports)) {
	b.T.Helper()
	for at := 1; ; at++ {
		changes := false
		for i, m := range []Mishap{FailBefore, FailAfter, DieAfter} {
			if testing.Short() && i != at%3 || !testing.Short() && m == FailAfter && !changes {
				continue
			}
			p := b.Healthy()
			p.At, p.Mishap = at, m
			play(p)
			changes = p.changed
			if !p.Happened() {
				require.Greater(b.T, at, atLeast, "hardly any port was called: %v", p.Calls)
				return
			}
		}
	}
}

// Happened reports whether the mishap has come.
func (p *Ports) Happened() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.At > 0 && len(p.Calls) >= p.At
}

// Dead reports whether the process is gone.
func (p *Ports) Dead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gone
}

// begin counts a call, and says whether it is made and whether its answer arrives.
func (p *Ports) begin(name string, changes bool) (made, answered bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return false, false
	}
	p.Calls = append(p.Calls, name)
	if len(p.Calls) != p.At {
		return true, true
	}
	p.changed = changes
	p.gone = p.Mishap == DieBefore || p.Mishap == DieAfter
	return p.Mishap == FailAfter || p.Mishap == DieAfter, false
}

// call makes a call that changes something, read one that changes nothing.
func call[T any](p *Ports, name string, do func() (T, error)) (T, error) {
	return through(p, name, true, do)
}

func read[T any](p *Ports, name string, do func() (T, error)) (T, error) {
	return through(p, name, false, do)
}

func through[T any](p *Ports, name string, changes bool, do func() (T, error)) (T, error) {
	var none T
	made, answered := p.begin(name, changes)
	if !made {
		return none, ErrMishap
	}
	got, err := do()
	if !answered {
		return none, ErrMishap
	}
	return got, err
}

func act(p *Ports, name string, do func() error) error {
	_, err := call(p, name, func() (struct{}, error) { return struct{}{}, do() })
	return err
}

func (p *Ports) LoadStep(ctx context.Context, id string) (v conversation.View, due conversation.StepDue, err error) {
	v, err = read(p, "LoadStep", func() (v conversation.View, err error) {
		v, due, err = p.Stores.LoadStep(ctx, id)
		return v, err
	})
	return v, due, err
}

func (p *Ports) LoadSession(ctx context.Context, id string) (conversation.View, error) {
	return read(p, "LoadSession", func() (conversation.View, error) { return p.Stores.LoadSession(ctx, id) })
}

func (p *Ports) Conversation(ctx context.Context, org, phone string) (conversation.View, error) {
	return read(p, "Conversation", func() (conversation.View, error) { return p.Stores.Conversation(ctx, org, phone) })
}

func (p *Ports) ConversationAt(ctx context.Context, org, phone string, at time.Time) (conversation.View, error) {
	return read(p, "ConversationAt", func() (conversation.View, error) { return p.Stores.ConversationAt(ctx, org, phone, at) })
}

func (p *Ports) Move(ctx context.Context, m session.Move, cause *conversation.Cause) error {
	return act(p, "Move", func() error { return p.Stores.Move(ctx, m, cause) })
}

func (p *Ports) Note(ctx context.Context, at session.Record, entries []session.Entry, cause *conversation.Cause, now time.Time) error {
	return act(p, "Note", func() error { return p.Stores.Note(ctx, at, entries, cause, now) })
}

func (p *Ports) DeferReply(ctx context.Context, at session.Record, cause conversation.Cause, entry session.Entry) error {
	return act(p, "DeferReply", func() error { return p.Stores.DeferReply(ctx, at, cause, entry) })
}

func (p *Ports) PutOff(ctx context.Context, at session.Record, later queue.New, entries []session.Entry, cause conversation.Cause) error {
	return act(p, "PutOff", func() error { return p.Stores.PutOff(ctx, at, later, entries, cause) })
}

func (p *Ports) LastStepAt(ctx context.Context, sessionID string) (time.Time, error) {
	return read(p, "LastStepAt", func() (time.Time, error) { return p.Stores.LastStepAt(ctx, sessionID) })
}

func (p *Ports) LastReplyAt(ctx context.Context, sessionID string) (time.Time, error) {
	return read(p, "LastReplyAt", func() (time.Time, error) { return p.Stores.LastReplyAt(ctx, sessionID) })
}

func (p *Ports) LastMessageAt(ctx context.Context, sessionID string) (time.Time, error) {
	return read(p, "LastMessageAt", func() (time.Time, error) { return p.Stores.LastMessageAt(ctx, sessionID) })
}

func (p *Ports) Sender(ctx context.Context, org string) (string, error) {
	return read(p, "Sender", func() (string, error) { return p.carrier.Sender(asItself(ctx), org) })
}

func (p *Ports) SenderOrganisations(ctx context.Context) ([]string, error) {
	return read(p, "SenderOrganisations", func() ([]string, error) { return p.carrier.SenderOrganisations(ctx) })
}

func (p *Ports) ListInbound(ctx context.Context, span inbound.Span, page string) (inbound.Page, error) {
	return read(p, "ListInbound", func() (inbound.Page, error) { return p.carrier.ListInbound(ctx, span, page) })
}

func (p *Ports) ClaimSweep(ctx context.Context, of inbound.Sender, first, now, leaseUntil time.Time) (s inbound.Sweep, ours bool, err error) {
	err = act(p, "ClaimSweep", func() (err error) {
		s, ours, err = p.Stores.ClaimSweep(ctx, of, first, now, leaseUntil)
		return err
	})
	return s, ours, err
}

func (p *Ports) ExtendSweep(ctx context.Context, s inbound.Sweep, leaseUntil time.Time) error {
	return act(p, "ExtendSweep", func() error { return p.Stores.ExtendSweep(ctx, s, leaseUntil) })
}

func (p *Ports) FinishSweep(ctx context.Context, s inbound.Sweep, end inbound.SweepEnd) error {
	return act(p, "FinishSweep", func() error { return p.Stores.FinishSweep(ctx, s, end) })
}

func (p *Ports) ReleaseSweep(ctx context.Context, s inbound.Sweep) error {
	return act(p, "ReleaseSweep", func() error { return p.Stores.ReleaseSweep(ctx, s) })
}

// Enqueue has the scope of a call of the gateway, for which a message is claimed as it is stored.
func (p *Ports) Enqueue(ctx context.Context, n queue.New) (stored queue.Enqueued, err error) {
	ctx = postgres.AcrossOrganisations(ctx)
	err = act(p, "Enqueue", func() (err error) {
		stored, err = p.Stores.Enqueue(ctx, n)
		return err
	})
	return stored, err
}

func (p *Ports) Overdue(ctx context.Context, limit, doublings int, grace time.Duration, now time.Time) ([]conversation.Overdue, error) {
	return read(p, "Overdue", func() ([]conversation.Overdue, error) { return p.Stores.Overdue(ctx, limit, doublings, grace, now) })
}

func (p *Ports) PutBack(ctx context.Context, w session.Wait) error {
	return act(p, "PutBack", func() error { return p.Stores.PutBack(ctx, w) })
}

func (p *Ports) Rearm(ctx context.Context, r session.Record, a session.Alarm, then, at time.Time) error {
	return act(p, "Rearm", func() error { return p.Stores.Rearm(ctx, r, a, then, at) })
}

func (p *Ports) Park(ctx context.Context, m session.Move) error {
	return act(p, "Park", func() error { return p.Stores.Park(ctx, m) })
}

func (p *Ports) Wait(ctx context.Context, w session.Wait) (*session.Alarm, error) {
	return call(p, "Wait", func() (*session.Alarm, error) { return p.Stores.Wait(ctx, w) })
}

func (p *Ports) RecordStatus(ctx context.Context, s inbound.KapsoStatus) (bool, error) {
	return call(p, "RecordStatus", func() (bool, error) { return p.carrier.RecordStatus(ctx, s) })
}

func (p *Ports) Explain(ctx context.Context, m conversation.Message) (conversation.Explanation, error) {
	return read(p, "Explain", func() (conversation.Explanation, error) { return p.carrier.Explain(asItself(ctx), m) })
}

func (p *Ports) Receipt(ctx context.Context, org, key string) (conversation.Receipt, error) {
	return read(p, "Receipt", func() (conversation.Receipt, error) { return p.carrier.Receipt(ctx, org, key) })
}

func (p *Ports) Resume(ctx context.Context, org, id string, by session.Trigger, closes bool, at time.Time) (session.Record, error) {
	return call(p, "Resume", func() (session.Record, error) { return p.Stores.Resume(ctx, org, id, by, closes, at) })
}

func (p *Ports) ResumeAfterTicket(
	ctx context.Context, r session.Record, c conversation.TicketClosed, waits bool, silentAt time.Time, cause conversation.Cause, at time.Time,
) error {
	return act(p, "ResumeAfterTicket", func() error { return p.Stores.ResumeAfterTicket(ctx, r, c, waits, silentAt, cause, at) })
}

func (p *Ports) MoveAfterTicket(ctx context.Context, m session.Move, c conversation.TicketClosed, cause conversation.Cause) error {
	return act(p, "MoveAfterTicket", func() error { return p.Stores.MoveAfterTicket(ctx, m, c, cause) })
}

func (p *Ports) ReplayDeadLetter(ctx context.Context, within conversation.Scope, id string, at time.Time) (conversation.Replayed, error) {
	return call(p, "ReplayDeadLetter", func() (conversation.Replayed, error) { return p.Stores.ReplayDeadLetter(ctx, within, id, at) })
}

func (p *Ports) OpenSession(ctx context.Context, o conversation.Opening) (session.Record, error) {
	return call(p, "OpenSession", func() (session.Record, error) { return p.Stores.OpenSession(ctx, o) })
}

func (p *Ports) Send(ctx context.Context, t conversation.Message) (conversation.Sent, error) {
	if do := p.Meanwhile; do != nil {
		p.Meanwhile = nil
		do()
	}
	return call(p, "Send", func() (conversation.Sent, error) { return p.carrier.Send(asItself(ctx), t) })
}

func (p *Ports) JudgeJobs(ctx context.Context, org, phone string, before, at time.Time) error {
	return act(p, "JudgeJobs", func() error { return p.Stores.JudgeJobs(ctx, org, phone, before, at) })
}

func (p *Ports) Record(
	ctx context.Context, m inbound.Message, from conversation.View, received time.Time,
) (inbound.Recorded, error) {
	if do := p.WhileRecording; do != nil {
		p.WhileRecording = nil
		do()
	}
	return call(p, "Record", func() (inbound.Recorded, error) {
		return p.carrier.Record(ctx, m, from, received)
	})
}

// asItself has the service call as itself on behalf of any caller, as the server chain does.
func asItself(ctx context.Context) context.Context {
	return rpc.WithPrincipal(ctx, rpc.Principal{Subject: "onboarding", Role: rpc.RoleService})
}

func (p *Ports) SetReminders(
	ctx context.Context, org, phone string, said engagement.RemindersSaid,
) (engagement.RemindersSaid, error) {
	return call(p, "SetReminders", func() (engagement.RemindersSaid, error) {
		return p.carrier.SetReminders(asItself(ctx), org, phone, said)
	})
}

func (p *Ports) Fate(ctx context.Context, org, key string) (engagement.Fate, error) {
	return call(p, "Fate", func() (engagement.Fate, error) { return p.carrier.Fate(asItself(ctx), org, key) })
}

func (p *Ports) LastSent(ctx context.Context, org, profileID string, since, until time.Time) (string, error) {
	return call(p, "LastSent", func() (string, error) { return p.carrier.LastSent(asItself(ctx), org, profileID, since, until) })
}

func (p *Ports) CheckSender(ctx context.Context, org, phone string) (bool, error) {
	return call(p, "CheckSender", func() (bool, error) { return p.carrier.CheckSender(asItself(ctx), org, phone) })
}

func (p *Ports) Unfinished(ctx context.Context, org, profileID, phone string) (people.Unfinished, error) {
	return read(p, "Unfinished", func() (people.Unfinished, error) {
		return p.carrier.Unfinished(asItself(ctx), org, profileID, phone)
	})
}

func (p *Ports) ForwardHold(ctx context.Context, org, phone string, held bool, version int64) error {
	return act(p, "ForwardHold", func() error { return p.carrier.ForwardHold(ctx, org, phone, held, version) })
}

func (p *Ports) JudgeWords(ctx context.Context, org, phone string) error {
	return act(p, "JudgeWords", func() error { return p.carrier.JudgeWords(asItself(ctx), org, phone) })
}

func (p *Ports) HoldForwarded(ctx context.Context, profileID string, version int64) error {
	return act(p, "HoldForwarded", func() error { return p.Stores.HoldForwarded(ctx, profileID, version) })
}

func (p *Ports) Publish(ctx context.Context, job qstash.Job) (qstash.Receipt, error) {
	return call(p, "Publish", func() (qstash.Receipt, error) {
		receipt, err := p.alarms.Publish(ctx, job)
		if meanwhile := p.AfterPublish; meanwhile != nil {
			p.AfterPublish = nil
			meanwhile()
		}
		return receipt, err
	})
}

func (p *Ports) Profile(ctx context.Context, org, id string) (people.Profile, error) {
	return read(p, "Profile", func() (people.Profile, error) { return p.Stores.Profile(ctx, org, id) })
}

func (p *Ports) Decided(ctx context.Context, org string) (people.Decided, error) {
	return read(p, "Decided", func() (people.Decided, error) { return p.Stores.Decided(ctx, org) })
}

func (p *Ports) SetSending(ctx context.Context, decided people.Untold) (int64, error) {
	return call(p, "SetSending", func() (int64, error) { return p.carrier.SetSending(asItself(ctx), decided) })
}

func (p *Ports) SetHold(ctx context.Context, org, id, reason string, at time.Time) (people.Profile, error) {
	return call(p, "SetHold", func() (people.Profile, error) { return p.Stores.SetHold(ctx, org, id, reason, at) })
}

func (p *Ports) Release(ctx context.Context, org, id string, at time.Time) (people.Profile, error) {
	return call(p, "Release", func() (people.Profile, error) { return p.Stores.Release(ctx, org, id, at) })
}

func (p *Ports) CloseSession(ctx context.Context, org, id string, at time.Time) (session.Record, error) {
	return call(p, "CloseSession", func() (session.Record, error) { return p.Stores.CloseSession(ctx, org, id, at) })
}

func (p *Ports) ConversationOf(ctx context.Context, org, profileID string) (conversation.View, error) {
	return read(p, "ConversationOf", func() (conversation.View, error) { return p.Stores.ConversationOf(ctx, org, profileID) })
}

// Delete withdraws an alarm of a goal. It is let be, so that every alarm of a goal that was cancelled comes all the same.
func (p *Ports) Delete(ctx context.Context, messageID string) error {
	return act(p, "Delete", func() error {
		if own, is := p.alarms.(*alarms.Engine); is {
			return own.Delete(ctx, messageID)
		}
		return nil
	})
}
