package inbound

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"paceline.internal/platform/process"
	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/people"
)

// Messages with webhooks that never reached us are found in Twilio's own record of them, and take the way of every other message,
// marked late: Twilio tries a webhook for a quarter of a minute, and an outage is longer.
const (
	// sweepSettled sets how old a message must be at Twilio: by then its webhook, which knows more of it, is not tried any more
	// (OptOutType) and comes sooner. It also keeps the two from meeting.
	sweepSettled = time.Minute
	// sweepOverlap limits how much of what was swept is swept again: Twilio's list lags, and clocks differ.
	sweepOverlap = 10 * time.Minute
	// sweepReach sets how far back the first sweep of a sender goes. What is older was said to the service before ours.
	sweepReach = 24 * time.Hour
	// sweepWindow limits how much time one sweep goes through at most. After a longer outage the next one follows at once.
	sweepWindow = 24 * time.Hour
	// sweepLease sets how long a sweep is leased without an extension. It is extended with every page, a call that takes 15 s at most.
	sweepLease = 2 * time.Minute
	// sweepPoll sets how often to see at least whether a sweep is due: because the last one failed, or its process is gone.
	sweepPoll = 30 * time.Second
	// sweepPages bounds a sweep, against a list without an end.
	sweepPages = 20_000
	// nearest bounds the others of a person that are named on each side of a message: messaging refuses more than 500.
	nearest = 200
	// sweepRelease bounds the release of a sweep that broke off.
	sweepRelease = 5 * time.Second
)

// ErrSweepLost is a sweep that another process has taken over.
var ErrSweepLost = errors.New("inbound: the lease of the sweep was lost")

// Sender is one of our senders, by the name that messaging has for it: a number or a messaging service.
type Sender struct {
	OrgID string
	Name  string
}

// Sweep is a claim on the list of a sender. Extending and ending it name its lease.
type Sweep struct {
	Sender     Sender
	SweptUntil time.Time // by sweeps before
	LeaseToken string
	// AgainUntil is up to when messages are delivered again, also those that messaging has: our database went back. Zero otherwise.
	AgainUntil time.Time
}

// again reports whether a sweep delivers what messaging has, too.
func (a Sweep) again() bool { return a.SweptUntil.Before(a.AgainUntil) }

// Span asks for what was sent to an organisation's sender in a span of time, by Twilio's clock.
type Span struct {
	OrgID        string
	Since, Until time.Time
	RecordedToo  bool // with the words of what messaging has
}

// SweepEnd is the result of a sweep.
type SweepEnd struct {
	SweptUntil    time.Time
	At, DueAt     time.Time // when it ended, and when the next one may begin
	Listed, Found int
	Failed        error // an account that could not be asked, after others were searched: the mark has not moved
}

// Listed is a message of a person as Twilio has it. Of one that is recorded nothing is known but its SID and its time.
type Listed struct {
	Message

	Recorded bool
}

// Page is a part of what was sent to us in a span of time.
type Page struct {
	Messages []Listed // of one number, the newest first
	Next     string   // empty on the last page
}

// SweepLoop compares what came by webhook with Twilio's list, every interval. Several processes may: one of them does at a time, and
// were it two, every message would still be stored once, by its SID.
func (in *Service) SweepLoop(rest process.Rest, interval time.Duration) process.Repetition {
	return process.Repetition{
		Once: func(ctx context.Context) (bool, error) { return in.SweepInbound(ctx, interval) },
		Failed: func(ctx context.Context, err error) {
			in.Log.WarnContext(ctx, "inbound.sweep_failed", "error", err)
		},
		Rest: rest, Every: min(interval, sweepPoll),
		Bound: sweepLease / 2,
	}
}

// disabledSenders names the sender of an organisation that has no active one.
const disabledSenders = "disabled"

// ErrUnnamedSenders is a release of messaging that has the environment's sender alone.
var ErrUnnamedSenders = errors.New("inbound: messaging does not say which organisations have a sender")

// SweepInbound sweeps what each organisation was sent, if it is due and no other process does, and reports whether it has some way to go
// yet. An account that cannot be asked keeps no other one from being searched.
func (in *Service) SweepInbound(ctx context.Context, interval time.Duration) (more bool, err error) {
	orgs, err := in.Carrier.SenderOrganisations(ctx)
	if errors.Is(err, ErrUnnamedSenders) {
		orgs, err = []string{in.OrgID}, nil
	}
	if err != nil {
		return false, err
	}
	failures := make([]error, len(orgs))
	for i, orgID := range orgs {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		further, err := in.sweepOf(ctx, orgID, interval)
		more = more || further
		if err != nil && len(orgs) > 1 {
			err = fmt.Errorf("organisation %s: %w", orgID, err)
		}
		failures[i] = err
		process.Progress(ctx)
	}
	return more, errors.Join(failures...)
}

// sweepOf sweeps one organisation.
func (in *Service) sweepOf(ctx context.Context, orgID string, interval time.Duration) (more bool, err error) {
	name, err := in.Carrier.Sender(ctx, orgID)
	if errors.Is(err, people.ErrNoSender) {
		name, err = disabledSenders, nil // which still receive
	}
	if err != nil {
		return false, err
	}
	now := in.Now()
	sweep, ours, err := in.Store.ClaimSweep(ctx, Sender{OrgID: orgID, Name: name}, now.Add(-sweepReach), now, now.Add(sweepLease))
	if err != nil || !ours {
		return false, err
	}
	kept, end, err := in.sweep(ctx, sweep, now, interval)
	if err == nil {
		err = in.Store.FinishSweep(ctx, sweep, end)
	} else {
		err = in.breakOff(ctx, sweep, err)
	}
	in.Metrics.swept(ctx, cmp.Or(err, end.Failed))
	if err != nil {
		return false, err
	}
	if end.Found > 0 {
		in.Log.WarnContext(ctx, "inbound.sweep_ended", "listed", end.Listed, "found", end.Found, "swept_until", end.SweptUntil)
	}
	in.answerAll(ctx, kept)
	return !end.DueAt.After(end.At), end.Failed
}

// breakOff releases a sweep that failed, so that any process can begin it again.
func (in *Service) breakOff(ctx context.Context, sweep Sweep, cause error) error {
	if errors.Is(cause, ErrSweepLost) {
		return cause
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sweepRelease)
	defer cancel()
	return errors.Join(cause, in.Store.ReleaseSweep(ctx, sweep))
}

// stored is a message that is kept as a job.
type stored struct {
	message Message
	job     queue.Enqueued
	webhook bool // it came by its webhook, and is under way in its own job
}

// sweep stores what never came. Nothing is lost if it breaks off anywhere: the mark has not moved.
func (in *Service) sweep(ctx context.Context, sweep Sweep, now time.Time, interval time.Duration) ([]stored, SweepEnd, error) {
	until := now.Add(-sweepSettled)
	behind := until.After(sweep.SweptUntil.Add(sweepWindow))
	if behind {
		until = sweep.SweptUntil.Add(sweepWindow)
	}
	end := SweepEnd{SweptUntil: until}
	unheard, err := in.list(ctx, sweep, sweep.SweptUntil.Add(-sweepOverlap), until, &end)
	if errors.Is(err, people.ErrNoSender) { // no message can reach us
		err = nil
	}
	if err != nil && behind && !errors.Is(err, ErrSweepLost) { // what came since to the others does not wait for a sender that refuses
		newest, again := in.list(ctx, sweep, now.Add(-sweepWindow), now.Add(-sweepSettled), &end)
		if errors.Is(again, ErrSweepLost) {
			err = again
		}
		unheard = append(unheard, newest...)
	}
	if err != nil && (end.Listed == 0 || errors.Is(err, ErrSweepLost)) {
		return nil, end, err
	}
	end.Failed = err
	var kept []stored
	for _, m := range unheard {
		m.OrgID = sweep.Sender.OrgID
		job, err := in.keep(ctx, m)
		if errors.Is(err, queue.ErrPayloadMismatch) {
			kept = append(kept, stored{message: m, job: job, webhook: true}) // its job answers it
			continue
		}
		if err != nil {
			return nil, end, fmt.Errorf("store a text that never came: %w", err)
		}
		if !job.Duplicate {
			end.Found++
		}
		if !job.Duplicate || !sweep.again() { // a job that is there still is done, or will be
			kept = append(kept, stored{message: m, job: job})
		}
		process.Progress(ctx)
	}
	end.At = in.Now()
	switch end.DueAt = end.At; {
	case end.Failed != nil:
		end.SweptUntil, end.DueAt = sweep.SweptUntil, end.At.Add(interval)
	case until.Before(sweep.AgainUntil): // what came last is not settled yet
		end.DueAt = end.At.Add(sweepSettled)
	case !behind:
		end.DueAt = end.At.Add(interval)
	}
	return kept, end, nil
}

// list reads every page, and returns the messages that are not recorded, the oldest first; after an error, of the pages before.
func (in *Service) list(ctx context.Context, sweep Sweep, since, until time.Time, end *SweepEnd) ([]Message, error) {
	next := ""
	if until.Before(since) {
		return nil, fmt.Errorf("sweep: the clock stands before %s, until when it was swept", since.Add(sweepOverlap).Format(time.RFC3339))
	}
	span := Span{OrgID: sweep.Sender.OrgID, Since: since, Until: until, RecordedToo: true}
	var listed []Listed
	unheard := func() []Message {
		slices.Reverse(listed)
		slices.SortStableFunc(listed, func(a, b Listed) int { return a.ReceivedAt.Compare(b.ReceivedAt) })
		return missing(listed, sweep.again())
	}
	for range sweepPages {
		page, err := in.Carrier.ListInbound(ctx, span, next)
		if err != nil {
			return unheard(), err
		}
		process.Progress(ctx)
		end.Listed += len(page.Messages)
		listed = append(listed, page.Messages...)
		if next = page.Next; next == "" {
			return unheard(), nil
		}
		if err := in.Store.ExtendSweep(ctx, sweep, in.Now().Add(sweepLease)); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("sweep: the list of texts has more than %d pages", sweepPages)
}

// missing returns the messages that are not recorded, or all with again, each with the others of the same person in the carrier's order.
func missing(listed []Listed, again bool) (missed []Message) {
	of := map[string][]string{} // a person's SIDs
	for _, m := range listed {
		of[m.From] = append(of[m.From], m.SID)
	}
	seen := map[string]int{}
	for _, m := range listed {
		n := seen[m.From]
		seen[m.From]++
		if m.From == "" || m.Recorded && !again { // a release before gives no words of what is recorded
			continue
		}
		all := of[m.From]
		m.Before, m.After = all[max(0, n-nearest):n], all[n+1:min(len(all), n+1+nearest)]
		missed = append(missed, m.Message)
	}
	return missed
}

// recordInOrder has a message recorded that is under way in its own job, as the carrier lists it: its job may come after one that was said
// later, and by another clock. The webhook knows more than the list: a STOP by a keyword that is set at Twilio is told by OptOutType alone,
// and what is recorded once stays.
func (in *Service) recordInOrder(ctx context.Context, listed Message, jobID string) error {
	ctx, cancel := context.WithTimeout(ctx, inlineBudget)
	defer cancel()
	job, err := in.Store.Job(ctx, cmp.Or(listed.OrgID, in.OrgID), jobID)
	if err != nil {
		return err
	}
	var m Message
	if err := json.Unmarshal(job.Payload, &m); err != nil || m.SID != listed.SID {
		return nil // its job fails for it, visibly
	}
	m.From, m.OrgID, m.ReceivedAt = listed.From, listed.OrgID, listed.ReceivedAt
	m.Before, m.After = listed.Before, listed.After
	_, _, err = in.record(ctx, &reply{Place: conversation.AnyPlace, Message: m, ahead: true})
	return err
}

// answerAll has each message applied and answered at once. Those for which there is no time are left to the jobs' loop.
func (in *Service) answerAll(ctx context.Context, kept []stored) {
	for i, s := range kept {
		process.Progress(ctx)
		err := ctx.Err()
		if err == nil {
			if s.webhook {
				err = in.recordInOrder(ctx, s.message, s.job.ID)
			} else {
				err = in.answerInline(ctx, s.message, s.job)
			}
		}
		if err != nil {
			in.Log.WarnContext(ctx, "onboarding.late_text_left_to_loop", "job_id", s.job.ID, "left", len(kept)-i, "error", err)
			if !hopeless(err) {
				return
			}
		}
	}
}
