// Package readback reads Twilio's record of a time that the database has lost: first what people wrote, with its effect on consent, then
// what was sent. Until that is done nothing is sent for the organisation.
package readback

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"paceline.internal/platform/postgres/history"
	"paceline.internal/platform/process"
	"paceline.internal/services/messaging/inbound"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/senders"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

const (
	// margin widens the time that is read, on both sides: a process wrote the time of the beat, Twilio dates its record, and either clock
	// may be a minute off.
	margin = 2*time.Minute + 10*time.Second
	// lease bounds the work of a process on a readback without an extension. Lists take longer than that: it is extended while they are read.
	lease = time.Minute
	// atOnce bounds the organisations that are read back at once: few, for sends share the account's concurrency with them.
	atOnce = 8
	// nearest bounds the others of a person that are looked at on each side of a text.
	nearest = 200
	// poll bounds the pause between two looks for one: an operator may have ordered it.
	poll = time.Second
	// firstPause is the pause after a failure, which doubles up to lastPause: right after a failover the first try often fails.
	firstPause = 500 * time.Millisecond
	lastPause  = 30 * time.Second
	// failedTimeout bounds the statement that notes a failure.
	failedTimeout = 2 * time.Second
)

// Config configures a Service. Every field is needed.
type Config struct {
	Store   *Store
	Sent    *send.Store
	Inbound *inbound.Service
	Senders *senders.Directory
	Carrier *twilio.Client // of the environment's account
	Now     func() time.Time
	Log     *slog.Logger
	Metrics *Metrics
	// UnderWay bounds the time from the claim of an attempt until Twilio lists what it sent: SEND_LEASE, TWILIO_TIMEOUT and Lag. An attempt
	// may go on so long after its claim was lost, and a record that is read earlier lacks it.
	UnderWay time.Duration
	// Answer bounds the time from a request to Twilio until its list has what it sent: TWILIO_TIMEOUT and Lag. A suspicion waits so long:
	// an older copy of the data does not tell that a process sent until a moment ago.
	Answer time.Duration
}

// Lag bounds the time after which Twilio lists what it has accepted.
const Lag = 5 * time.Second

// Service reads back. Any number of them share the work.
type Service struct {
	Config

	wake chan struct{}

	mu       sync.Mutex
	accounts map[string]*account // what was read of each, while organisations are left that want it
}

// New makes a Service.
func New(cfg Config) *Service {
	return &Service{Config: cfg, wake: make(chan struct{}, 1), accounts: map[string]*account{}}
}

// Begin stops sending for every organisation, in the transaction that notes that the database went back or may have, until its record was
// read back.
func (s *Service) Begin(ctx context.Context, tx pgx.Tx, lost history.Loss) error {
	orgs, err := s.Senders.Organisations(ctx)
	if err != nil {
		return err
	}
	return s.Store.begin(ctx, tx, orgs, lost, s.Now())
}

// Wake has the loop look at once.
func (s *Service) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Loop repeats Once.
func (s *Service) Loop() process.Repetition {
	return process.Repetition{
		Once: s.Once,
		Failed: func(ctx context.Context, err error) {
			s.Log.WarnContext(ctx, "messaging.readback_failed", "error", err)
		},
		Rest: process.RestOnMachineClock, Every: poll, Wake: s.wake, Bound: lease,
	}
}

// Once reads back for a few organisations, and reports whether there may be more. One that fails is tried again, and holds up no other.
func (s *Service) Once(ctx context.Context) (more bool, err error) {
	now := s.Now()
	due, err := s.Store.claim(ctx, s.UnderWay, s.Answer, now, now.Add(lease), atOnce)
	if err != nil {
		return false, fmt.Errorf("claim readbacks: %w", err)
	}
	s.forget(len(due) == 0)
	failures := make([]error, len(due))
	var group errgroup.Group
	for i, r := range due {
		group.Go(func() error {
			if n, err := s.hold(ctx, r); err != nil && (ctx.Err() == nil || n != found{}) {
				failures[i] = fmt.Errorf("organisation %s: %w", r.OrgID, errors.Join(err, s.failed(ctx, r, n, err)))
			}
			process.Progress(ctx)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return false, err
	}
	return len(due) == atOnce, errors.Join(failures...)
}

// failed has a readback tried again. It counts what was found also when ctx has ended: the next try finds it known, and a loss would end
// without an alert.
func (s *Service) failed(ctx context.Context, r Readback, n found, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), failedTimeout)
	defer cancel()
	return s.Store.failed(ctx, r, n, why, s.Now().Add(min(firstPause<<min(r.Failures, 10), lastPause)))
}

// hold reads back under the lease, and breaks off when another process has taken it over. A list that stands still makes no progress, which
// ends ctx.
func (s *Service) hold(ctx context.Context, r Readback) (found, error) {
	ctx, stop := context.WithCancelCause(ctx)
	var extensions sync.WaitGroup
	defer extensions.Wait()
	defer stop(nil)
	extensions.Go(func() {
		beat := time.NewTicker(lease / 3)
		defer beat.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-beat.C:
			}
			switch err := s.Store.extend(ctx, r, s.Now().Add(lease)); {
			case errors.Is(err, errLost):
				stop(err)
			case err != nil && ctx.Err() == nil: // the lease outlives some
				s.Log.WarnContext(ctx, "messaging.readback_not_extended", "org_id", r.OrgID, "error", err)
			}
		}
	})
	n, err := s.read(ctx, r)
	if lost := context.Cause(ctx); err != nil && errors.Is(lost, errLost) {
		return n, lost
	}
	return n, err
}

// read reads back for one organisation, and lets it send again. It returns what this try has found, also with an error.
func (s *Service) read(ctx context.Context, r Readback) (n found, err error) {
	all, err := s.Senders.Of(ctx, r.OrgID)
	if err != nil {
		return n, err
	}
	if r.Senders != nil {
		all = slices.DeleteFunc(all, func(from senders.Sender) bool { return !slices.Contains(r.Senders, from.ID) })
	}
	no := refusals{}
	if n.received, err = s.readReceived(ctx, r, all, no); err != nil {
		return n, fmt.Errorf("what people wrote: %w", err)
	}
	if n.sent, err = s.readSent(ctx, r, all, no); err != nil {
		return n, fmt.Errorf("what was sent: %w", err)
	}
	if err := s.settle(ctx, r, all, no); err != nil {
		return n, err
	}
	total, err := s.Store.end(ctx, r, n, s.Now())
	if err != nil {
		return n, err
	}
	level := slog.LevelWarn
	if r.Suspected && total.sent == 0 { // people texted while nobody was up, as far as anybody can tell
		level = slog.LevelInfo
	} else {
		s.Metrics.ended(ctx, total)
	}
	s.Log.Log(ctx, level, "messaging.readback_ended", "org_id", r.OrgID, "since", r.Since, "received", total.received, "sent", total.sent)
	return n, nil
}

// readReceived records what people wrote and the database has not, the oldest first. Onboarding finds it in its next sweep.
func (s *Service) readReceived(ctx context.Context, r Readback, all []senders.Sender, no refusals) (n int, err error) {
	var listed []inbound.Listed
	seen := map[string]bool{} // a number may be of two senders
	for _, from := range all {
		span := inbound.Span{OrgID: r.OrgID, Sender: &from.ID, Since: r.Since.Add(-margin), Until: later(s.Now(), r.Since).Add(margin)}
		for more := true; more; more = span.Page != "" {
			page, err := s.Inbound.ListInbound(ctx, span)
			if errors.Is(err, senders.ErrNoSender) || no.note(from, err) {
				break
			}
			if err != nil {
				return 0, err
			}
			for _, m := range page.Messages {
				if !seen[m.SID] {
					seen[m.SID], listed = true, append(listed, m)
				}
			}
			span.Page = page.Next
			process.Progress(ctx)
		}
	}
	for _, m := range missing(listed, r.Since.Add(2*history.Every)) {
		switch recorded, err := s.record(ctx, m); {
		case err != nil:
			return n, err
		case recorded:
			n++
		}
		process.Progress(ctx)
	}
	return n, nil
}

// later is the later one: since is by another process's clock.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// text is one that is not recorded, and when it was said.
type text struct {
	inbound.Listed

	at            time.Time
	place         int      // among all that the same person wrote, from the newest on
	before, after []string // SIDs of what the same person wrote before and after it, by Twilio's order
}

// missing returns what is not recorded, the oldest first. Whatever the database still has came before what it lost, and Twilio's order is
// right: a message behind all that a person wrote and is recorded came after the last beat, whatever Twilio's clock says. Otherwise their
// last word about consent would count as overtaken when the two clocks differ.
func missing(listed []inbound.Listed, after time.Time) (all []text) {
	slices.SortStableFunc(listed, func(a, b inbound.Listed) int { return b.SentAt.Compare(a.SentAt) }) // of one second as Twilio has them
	recorded, sids := map[string]bool{}, map[string][]string{}                                         // the newest first
	for _, m := range listed {
		switch {
		case m.Recorded:
			recorded[m.From] = true
		case !recorded[m.From] && m.SentAt.Before(after):
			all = append(all, text{Listed: m, at: after, place: len(sids[m.From])})
		default:
			all = append(all, text{Listed: m, at: m.SentAt, place: len(sids[m.From])})
		}
		sids[m.From] = append(sids[m.From], m.SID)
	}
	for i, m := range all {
		its := sids[m.From]
		all[i].before, all[i].after = its[m.place+1:min(len(its), m.place+1+nearest)], its[max(0, m.place-nearest):m.place]
	}
	slices.Reverse(all)
	return all
}

// record takes in one message, unless it is from no phone, such as a short code, or to a number that is nobody's by now.
func (s *Service) record(ctx context.Context, m text) (bool, error) {
	from, err := sms.StoredPhone(m.From)
	if err != nil {
		return false, nil //nolint:nilerr // who is no phone cannot be texted
	}
	_, err = s.Inbound.RecordInbound(ctx, inbound.Inbound{
		SID: m.SID, From: from, To: m.To, ServiceSID: m.ServiceSID, Body: m.Body, Segments: m.Segments, ReceivedAt: m.at,
		CarrierAt: m.SentAt, DatedByCarrier: true, Account: m.Account, Ahead: true, Before: m.before, After: m.after,
	})
	if errors.Is(err, senders.ErrUnknownSender) {
		return false, nil
	}
	return err == nil, err
}
