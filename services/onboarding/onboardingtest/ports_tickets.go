package onboardingtest

import (
	"context"
	"time"

	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/tickets"
)

// ticketRows is the inbox of a process.
type ticketRows struct {
	*tickets.Store

	p *Ports
}

func (r ticketRows) Open(ctx context.Context, o tickets.Opening) (t tickets.Ticket, created bool, err error) {
	err = act(r.p, "OpenTicket", func() (err error) {
		t, created, err = r.Store.Open(ctx, o)
		return err
	})
	return t, created, err
}

func (r ticketRows) Assign(ctx context.Context, orgID, id, from, to string, at time.Time) (tickets.Ticket, error) {
	return call(r.p, "AssignTicket", func() (tickets.Ticket, error) { return r.Store.Assign(ctx, orgID, id, from, to, at) })
}

func (r ticketRows) Close(ctx context.Context, c tickets.Closing) (t tickets.Ticket, job string, err error) {
	err = act(r.p, "CloseTicket", func() (err error) {
		t, job, err = r.Store.Close(ctx, c)
		return err
	})
	return t, job, err
}

func (r ticketRows) KeepAnswer(ctx context.Context, a tickets.Answer, job queue.New) (kept tickets.Answer, duplicate bool, err error) {
	err = act(r.p, "KeepAnswer", func() (err error) {
		kept, duplicate, err = r.Store.KeepAnswer(ctx, a, job)
		return err
	})
	return kept, duplicate, err
}

func (r ticketRows) Recipient(ctx context.Context, a tickets.Answer) (tickets.Recipient, error) {
	return read(r.p, "Recipient", func() (tickets.Recipient, error) { return r.Store.Recipient(ctx, a) })
}

func (r ticketRows) Answer(ctx context.Context, orgID, id string) (tickets.Answer, error) {
	return read(r.p, "Answer", func() (tickets.Answer, error) { return r.Store.Answer(ctx, orgID, id) })
}

func (r ticketRows) Settle(ctx context.Context, s tickets.Settlement) (first bool, opened time.Time, err error) {
	err = act(r.p, "SettleAnswer", func() (err error) {
		first, opened, err = r.Store.Settle(ctx, s)
		return err
	})
	return first, opened, err
}
