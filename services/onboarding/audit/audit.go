// Package audit finds the texts of people whose webhooks never reached us, in Twilio's own record of them, and has them take
// the way of every other text, marked late: Twilio tries a webhook for a quarter of a minute, and an outage is longer.
package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"paceline.internal/platform/process"
	"paceline.internal/services/onboarding/enrolment"
	"paceline.internal/services/onboarding/inbound"
	"paceline.internal/services/onboarding/jobs"
)

const (
	// settled is how old a text must be at Twilio: by then nothing tries its webhook any more, which knows more of it
	// (OptOutType) and comes sooner. It also keeps the two from meeting.
	settled = time.Minute
	// overlap is how much of what was swept is swept again: Twilio's list lags, and clocks differ.
	overlap = 10 * time.Minute
	// firstLook is how far back the first sweep of a sender goes. What is older was said to somebody else's service.
	firstLook = 24 * time.Hour
	// window is how much time one sweep goes through at most. After a longer outage the next one follows at once.
	window = 24 * time.Hour
	// lease is how long a sweep is held without a sign of life. It is extended with every page, a call that takes 15 s at most.
	lease = 2 * time.Minute
	// poll is how often to see at least whether a sweep is due: because the last one failed, or whoever was at it is gone.
	poll = 30 * time.Second
	// mostPages bounds a sweep, against a list without an end.
	mostPages = 20_000
	// release bounds the release of a sweep that broke off.
	release = 5 * time.Second
)

// ErrLost is a sweep that somebody else has taken over.
var ErrLost = errors.New("audit: the lease was lost")

// Sender is one of ours, by the name that messaging has for it: a number or a messaging service.
type Sender struct {
	OrgID string
	Name  string
}

// Sweep is a claim on a sender. Whoever goes on with it or ends it names its lease.
type Sweep struct {
	Sender     Sender
	SweptUntil time.Time // by sweeps before
	LeaseToken string
}

// End is what a sweep came to.
type End struct {
	SweptUntil    time.Time
	At, DueAt     time.Time // when it ended, and when the next one may begin
	Listed, Found int
}

// Text is a text of a person as Twilio has it. Of one that is recorded nothing is known but its SID and its time.
type Text struct {
	inbound.Message

	Recorded bool
}

// Page is a part of what was texted in a span of time.
type Page struct {
	Texts []Text // of one number, the newest first
	Next  string // empty on the last page
}

type carrier interface {
	// Sender is what an organisation sends from; enrolment.ErrNoSender.
	Sender(ctx context.Context, orgID string) (string, error)
	// Inbound lists what was texted to it, in Twilio's own record.
	Inbound(ctx context.Context, orgID string, since, until time.Time, page string) (Page, error)
}

// sweeps is where the marks are kept. Every method is one guarded statement, and ErrLost when the lease was lost.
type sweeps interface {
	ClaimAudit(ctx context.Context, of Sender, first, now, leaseUntil time.Time) (Sweep, bool, error)
	ExtendAudit(ctx context.Context, s Sweep, leaseUntil time.Time) error
	FinishAudit(ctx context.Context, s Sweep, end End) error
	ReleaseAudit(ctx context.Context, s Sweep) error
}

// router is the way of every text; inbound.Router implements it.
type router interface {
	Keep(ctx context.Context, m inbound.Message) (jobs.Enqueued, error)
	Take(ctx context.Context, m inbound.Message, kept jobs.Enqueued) error
}

// Auditor sweeps the sender of one organisation. Several processes may have one: one of them sweeps at a time, and were it
// two, every text would still be stored once, by its SID.
type Auditor struct {
	OrgID    string
	Carrier  carrier
	Sweeps   sweeps
	Router   router
	Interval time.Duration // between two sweeps
	Metrics  *Metrics
	Log      *slog.Logger
	Now      func() time.Time
}

// Loop sweeps every interval.
func (a *Auditor) Loop(rest process.Rest) process.Repetition {
	return process.Repetition{
		Once:   a.Once,
		Failed: func(ctx context.Context, err error) { a.Log.WarnContext(ctx, "onboarding.inbound_audit", "error", err) },
		Rest:   rest, Every: min(a.Interval, poll),
		Bound: lease / 2,
	}
}

// Once sweeps, if it is due and nobody else does, and reports whether it has some way to go yet.
func (a *Auditor) Once(ctx context.Context) (more bool, err error) {
	name, err := a.Carrier.Sender(ctx, a.OrgID)
	if errors.Is(err, enrolment.ErrNoSender) {
		return false, nil // nobody can text us
	}
	if err != nil {
		return false, err
	}
	now := a.Now()
	sweep, ours, err := a.Sweeps.ClaimAudit(ctx, Sender{OrgID: a.OrgID, Name: name}, now.Add(-firstLook), now, now.Add(lease))
	if err != nil || !ours {
		return false, err
	}
	kept, end, err := a.sweep(ctx, sweep, now)
	if err == nil {
		err = a.Sweeps.FinishAudit(ctx, sweep, end)
	} else {
		err = a.breakOff(ctx, sweep, err)
	}
	a.Metrics.swept(ctx, err)
	if err != nil {
		return false, err
	}
	if end.Found > 0 {
		a.Log.WarnContext(ctx, "onboarding.inbound_audited", "listed", end.Listed, "found", end.Found, "swept_until", end.SweptUntil)
	}
	a.take(ctx, kept)
	return !end.DueAt.After(end.At), nil
}

// breakOff lets others begin the sweep anew.
func (a *Auditor) breakOff(ctx context.Context, sweep Sweep, cause error) error {
	if errors.Is(cause, ErrLost) {
		return cause
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), release)
	defer cancel()
	return errors.Join(cause, a.Sweeps.ReleaseAudit(ctx, sweep))
}

// stored is a text that is safe in its job.
type stored struct {
	text inbound.Message
	job  jobs.Enqueued
}

// sweep stores what never came. Nothing is lost if it breaks off anywhere: the mark has not moved.
func (a *Auditor) sweep(ctx context.Context, sweep Sweep, now time.Time) ([]stored, End, error) {
	until := now.Add(-settled)
	behind := until.After(sweep.SweptUntil.Add(window))
	if behind {
		until = sweep.SweptUntil.Add(window)
	}
	end := End{SweptUntil: until}
	missing, err := a.list(ctx, sweep, until, &end)
	if err != nil {
		return nil, end, err
	}
	var kept []stored
	for _, m := range missing {
		job, err := a.Router.Keep(ctx, m)
		if errors.Is(err, jobs.ErrPayloadMismatch) {
			continue // its webhook did come: it is under way in its own job
		}
		if err != nil {
			return nil, end, fmt.Errorf("store a text that never came: %w", err)
		}
		if !job.Duplicate {
			end.Found++
		}
		kept = append(kept, stored{text: m, job: job})
		process.Progress(ctx)
	}
	end.At = a.Now()
	if end.DueAt = end.At; !behind {
		end.DueAt = end.At.Add(a.Interval)
	}
	return kept, end, nil
}

// list reads every page, and returns the texts that are not recorded, the oldest first.
func (a *Auditor) list(ctx context.Context, sweep Sweep, until time.Time, end *End) ([]inbound.Message, error) {
	since, next := sweep.SweptUntil.Add(-overlap), ""
	if until.Before(since) {
		return nil, fmt.Errorf("audit: the clock stands before %s, until when it was swept", sweep.SweptUntil.Format(time.RFC3339))
	}
	var missing []inbound.Message
	for range mostPages {
		page, err := a.Carrier.Inbound(ctx, sweep.Sender.OrgID, since, until, next)
		if err != nil {
			return nil, err
		}
		process.Progress(ctx)
		end.Listed += len(page.Texts)
		for _, t := range page.Texts {
			if !t.Recorded {
				missing = append(missing, t.Message)
			}
		}
		if next = page.Next; next == "" {
			slices.Reverse(missing)
			slices.SortStableFunc(missing, func(a, b inbound.Message) int { return a.ReceivedAt.Compare(b.ReceivedAt) })
			return missing, nil
		}
		if err := a.Sweeps.ExtendAudit(ctx, sweep, a.Now().Add(lease)); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("audit: the list of texts has more than %d pages", mostPages)
}

// take has each text applied and answered at once. Those for which there is no time are in the hands of the jobs' loop.
func (a *Auditor) take(ctx context.Context, kept []stored) {
	for i, s := range kept {
		process.Progress(ctx)
		if err := cmp.Or(ctx.Err(), a.Router.Take(ctx, s.text, s.job)); err != nil {
			a.Log.WarnContext(ctx, "onboarding.late_text_left_to_loop", "job_id", s.job.ID, "left", len(kept)-i, "error", err)
			if !errors.Is(err, inbound.ErrUnknownSender) && !errors.Is(err, inbound.ErrInvalid) {
				return
			}
		}
	}
}
