package onboarding_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"paceline.internal/platform/qstash"
	"paceline.internal/platform/queue"
	"paceline.internal/platform/rpc"
	"paceline.internal/services/onboarding/audit"
	"paceline.internal/services/onboarding/burst"
	"paceline.internal/services/onboarding/dispatch"
	"paceline.internal/services/onboarding/enrolment"
	"paceline.internal/services/onboarding/inbound"
	"paceline.internal/services/onboarding/jobs"
	"paceline.internal/services/onboarding/messaging"
	"paceline.internal/services/onboarding/postgres"
	"paceline.internal/services/onboarding/rescue"
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

	mu    sync.Mutex
	calls []string
	gone  bool
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
func (p *ports) begin(name string) (made, answered bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return false, false
	}
	p.calls = append(p.calls, name)
	if len(p.calls) != p.at {
		return true, true
	}
	p.gone = p.mishap == dieBefore || p.mishap == dieAfter
	return p.mishap == failAfter || p.mishap == dieAfter, false
}

func call[T any](p *ports, name string, do func() (T, error)) (T, error) {
	var none T
	made, answered := p.begin(name)
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

func (p *ports) LoadSession(ctx context.Context, id string) (dispatch.View, error) {
	return call(p, "LoadSession", func() (dispatch.View, error) { return p.Store.LoadSession(ctx, id) })
}

func (p *ports) LoadConversation(ctx context.Context, org, phone string) (dispatch.View, error) {
	return call(p, "LoadConversation", func() (dispatch.View, error) { return p.Store.LoadConversation(ctx, org, phone) })
}

func (p *ports) ConversationAt(ctx context.Context, org, phone string, at time.Time) (dispatch.View, error) {
	return call(p, "ConversationAt", func() (dispatch.View, error) { return p.Store.ConversationAt(ctx, org, phone, at) })
}

func (p *ports) Move(ctx context.Context, m session.Move, cause *dispatch.Cause) error {
	return act(p, "Move", func() error { return p.Store.Move(ctx, m, cause) })
}

func (p *ports) Note(ctx context.Context, id string, entries []session.Entry, cause *dispatch.Cause, at time.Time) error {
	return act(p, "Note", func() error { return p.Store.Note(ctx, id, entries, cause, at) })
}

func (p *ports) Hold(ctx context.Context, at session.Record, cause dispatch.Cause, entry session.Entry) error {
	return act(p, "Hold", func() error { return p.Store.Hold(ctx, at, cause, entry) })
}

func (p *ports) LastStepAt(ctx context.Context, sessionID string) (time.Time, error) {
	return call(p, "LastStepAt", func() (time.Time, error) { return p.Store.LastStepAt(ctx, sessionID) })
}

func (p *ports) LastTextAt(ctx context.Context, sessionID string) (time.Time, error) {
	return call(p, "LastTextAt", func() (time.Time, error) { return p.Store.LastTextAt(ctx, sessionID) })
}

func (p *ports) Sender(ctx context.Context, org string) (string, error) {
	return call(p, "Sender", func() (string, error) { return p.carrier.Sender(ctx, org) })
}

func (p *ports) Inbound(ctx context.Context, org string, since, until time.Time, page string) (audit.Page, error) {
	return call(p, "Inbound", func() (audit.Page, error) { return p.carrier.Inbound(ctx, org, since, until, page) })
}

func (p *ports) ClaimAudit(ctx context.Context, of audit.Sender, first, now, leaseUntil time.Time) (s audit.Sweep, ours bool, err error) {
	err = act(p, "ClaimAudit", func() (err error) {
		s, ours, err = p.Store.ClaimAudit(ctx, of, first, now, leaseUntil)
		return err
	})
	return s, ours, err
}

func (p *ports) ExtendAudit(ctx context.Context, s audit.Sweep, leaseUntil time.Time) error {
	return act(p, "ExtendAudit", func() error { return p.Store.ExtendAudit(ctx, s, leaseUntil) })
}

func (p *ports) FinishAudit(ctx context.Context, s audit.Sweep, end audit.End) error {
	return act(p, "FinishAudit", func() error { return p.Store.FinishAudit(ctx, s, end) })
}

func (p *ports) ReleaseAudit(ctx context.Context, s audit.Sweep) error {
	return act(p, "ReleaseAudit", func() error { return p.Store.ReleaseAudit(ctx, s) })
}

func (p *ports) Enqueue(ctx context.Context, n jobs.New) (stored jobs.Enqueued, err error) {
	err = act(p, "Enqueue", func() (err error) {
		stored, err = p.Store.Enqueue(ctx, n)
		return err
	})
	return stored, err
}

func (p *ports) Claim(ctx context.Context, c queue.Claim) (queue.Claimed, error) {
	return call(p, "Claim", func() (queue.Claimed, error) { return p.Store.Jobs().Claim(ctx, c) })
}

func (p *ports) Finish(ctx context.Context, ends []jobs.Finish) ([]string, error) {
	return call(p, "Finish", func() ([]string, error) { return p.Store.Jobs().Finish(ctx, ends) })
}

func (p *ports) Extend(ctx context.Context, held []jobs.Job, until time.Time) ([]string, error) {
	return call(p, "Extend", func() ([]string, error) { return p.Store.Jobs().Extend(ctx, held, until) })
}

func (p *ports) ClaimAlarms(ctx context.Context, limit int, now, leaseUntil time.Time) ([]session.Alarm, error) {
	return call(p, "ClaimAlarms", func() ([]session.Alarm, error) { return p.Store.ClaimAlarms(ctx, limit, now, leaseUntil) })
}

func (p *ports) AlarmPublished(ctx context.Context, id, messageID string, at time.Time) error {
	return act(p, "AlarmPublished", func() error { return p.Store.AlarmPublished(ctx, id, messageID, at) })
}

func (p *ports) AlarmFailed(ctx context.Context, a session.Alarm, cause string, retryAt time.Time) error {
	return act(p, "AlarmFailed", func() error { return p.Store.AlarmFailed(ctx, a, cause, retryAt) })
}

func (p *ports) Overdue(ctx context.Context, limit, doublings int, grace time.Duration, now time.Time) ([]burst.Overdue, error) {
	return call(p, "Overdue", func() ([]burst.Overdue, error) { return p.Store.Overdue(ctx, limit, doublings, grace, now) })
}

func (p *ports) Rearm(ctx context.Context, r session.Record, a session.Alarm, then, at time.Time) error {
	return act(p, "Rearm", func() error { return p.Store.Rearm(ctx, r, a, then, at) })
}

func (p *ports) Park(ctx context.Context, m session.Move) error {
	return act(p, "Park", func() error { return p.Store.Park(ctx, m) })
}

func (p *ports) RingUnpublished(ctx context.Context, before, now time.Time) (n int, since time.Time, err error) {
	err = act(p, "RingUnpublished", func() (err error) {
		n, since, err = p.Store.RingUnpublished(ctx, before, now)
		return err
	})
	return n, since, err
}

func (p *ports) AwaitReceipt(
	ctx context.Context, r session.Record, next func(generation, looks int) *session.Alarm, told session.Entry,
) (*session.Alarm, error) {
	return call(p, "AwaitReceipt", func() (*session.Alarm, error) { return p.Store.AwaitReceipt(ctx, r, next, told) })
}

func (p *ports) AwaitWindow(
	ctx context.Context, r session.Record, due time.Time, next func(generation int) *session.Alarm, told session.Entry,
) (*session.Alarm, error) {
	return call(p, "AwaitWindow", func() (*session.Alarm, error) { return p.Store.AwaitWindow(ctx, r, due, next, told) })
}

func (p *ports) Receipt(ctx context.Context, org, key string) (burst.Receipt, error) {
	return call(p, "Receipt", func() (burst.Receipt, error) { return p.carrier.Receipt(ctx, org, key) })
}

func (p *ports) Resume(ctx context.Context, org, id string, again rescue.Again, at time.Time) (session.Record, error) {
	return call(p, "Resume", func() (session.Record, error) { return p.Store.Resume(ctx, org, id, again, at) })
}

func (p *ports) ReplayDeadLetter(
	ctx context.Context, within rescue.Scope, id string, again rescue.Again, at time.Time,
) (rescue.Replayed, error) {
	return call(p, "ReplayDeadLetter", func() (rescue.Replayed, error) { return p.Store.ReplayDeadLetter(ctx, within, id, again, at) })
}

func (p *ports) OpenSession(ctx context.Context, o enrolment.Opening) (session.Record, error) {
	return call(p, "OpenSession", func() (session.Record, error) { return p.Store.OpenSession(ctx, o) })
}

func (p *ports) Send(ctx context.Context, t dispatch.Text) (dispatch.Sent, error) {
	return call(p, "Send", func() (dispatch.Sent, error) { return p.carrier.Send(asItself(ctx), t) })
}

func (p *ports) Record(ctx context.Context, m inbound.Message, profileID string, received time.Time) (inbound.Recorded, error) {
	return call(p, "Record", func() (inbound.Recorded, error) { return p.carrier.Record(ctx, m, profileID, received) })
}

// asItself has the service call as itself, whoever calls it, as the server chain does.
func asItself(ctx context.Context) context.Context {
	return rpc.WithPrincipal(ctx, rpc.Principal{Subject: "onboarding", Role: rpc.RoleService})
}

func (p *ports) CheckSender(ctx context.Context, org, phone string) error {
	return act(p, "CheckSender", func() error { return p.carrier.CheckSender(asItself(ctx), org, phone) })
}

func (p *ports) TellHold(ctx context.Context, org, phone string, held bool, version int64) error {
	return act(p, "TellHold", func() error { return p.carrier.TellHold(ctx, org, phone, held, version) })
}

func (p *ports) HoldTold(ctx context.Context, profileID string, version int64) error {
	return act(p, "HoldTold", func() error { return p.Store.HoldTold(ctx, profileID, version) })
}

func (p *ports) Publish(ctx context.Context, job qstash.Job) (qstash.Receipt, error) {
	return call(p, "Publish", func() (qstash.Receipt, error) { return p.alarms.Publish(ctx, job) })
}

func (p *ports) Profile(ctx context.Context, org, id string) (enrolment.Profile, error) {
	return call(p, "Profile", func() (enrolment.Profile, error) { return p.Store.Profile(ctx, org, id) })
}

func (p *ports) SetHold(ctx context.Context, org, id, reason string, at time.Time) (enrolment.Profile, error) {
	return call(p, "SetHold", func() (enrolment.Profile, error) { return p.Store.SetHold(ctx, org, id, reason, at) })
}

func (p *ports) Release(
	ctx context.Context, org, id string, again enrolment.Again, at time.Time,
) (enrolment.Profile, error) {
	return call(p, "Release", func() (enrolment.Profile, error) { return p.Store.Release(ctx, org, id, again, at) })
}

func (p *ports) CloseSession(ctx context.Context, org, id string, at time.Time) (session.Record, error) {
	return call(p, "CloseSession", func() (session.Record, error) { return p.Store.CloseSession(ctx, org, id, at) })
}

func (p *ports) ProfileID(ctx context.Context, orgID, phone string) (string, error) {
	return call(p, "ProfileID", func() (string, error) { return p.Store.ProfileID(ctx, orgID, phone) })
}

func (p *ports) Expedite(ctx context.Context, done []jobs.Job, now time.Time) (bool, error) {
	return call(p, "Expedite", func() (bool, error) { return p.Store.Jobs().Expedite(ctx, done, now) })
}
