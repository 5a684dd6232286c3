package outbound

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"paceline.internal/services/messaging/senders"
)

// Outreach paces the messages that their readers did not ask for just now.
type Outreach struct {
	Store    *Store
	Senders  *senders.Directory
	Tally    *Tally
	Interval time.Duration // between two of an organisation
}

// outreachOf is under what name an organisation's outreach keeps its rate, next to those of the senders.
func outreachOf(orgID uuid.UUID) string { return "outreach:" + orgID.String() }

// Reserve takes the turn of a message, or says how long until there may be one. First that of its organisation: one in Interval, from
// whichever process. Then that of the sender, as a message of the queue that is not urgent takes it: while conversations use the
// sender's rate up, outreach waits, and conversations never ask. What this process has sent of them is charged first, and others charge
// theirs when they look at their queue. Where the sender refuses, the organisation's turn is lost, an Interval at most; in the other
// order the sender's rate would be.
func (o *Outreach) Reserve(ctx context.Context, from senders.Sender, segments int, now time.Time) (wait time.Duration, err error) {
	if err := o.Tally.charge(ctx, o.Store, from, now); err != nil {
		return 0, err
	}
	wait, err = o.Store.Reserve(ctx, outreachOf(from.OrgID), o.Interval, 0, now)
	if err != nil || wait > 0 {
		return wait, err
	}
	pace := paceOf(from)
	return o.Store.Reserve(ctx, from.From(), pace.Cost(segments), pace.Slack(false), now)
}

// ReserveSends takes the turns of messages to many people, as messages of the queue that are not urgent take theirs: what conversations
// have used of the sender's rate is charged first. Who they are is not known yet: the turns are of the sender that a stranger gets.
func (o *Outreach) ReserveSends(
	ctx context.Context, orgID uuid.UUID, segments []int, now time.Time,
) (n int, wait time.Duration, err error) {
	from, err := o.Senders.For(ctx, orgID, "", "")
	if err != nil {
		return 0, 0, err
	}
	pace := paceOf(from)
	err = o.Tally.charge(ctx, o.Store, from, now)
	for ; err == nil && wait == 0 && n < len(segments); n++ {
		wait, err = o.Store.Reserve(ctx, from.From(), pace.Cost(segments[n]), pace.Slack(false), now)
	}
	if err != nil || wait > 0 {
		n = max(n-1, 0) // the last one has no turn
	}
	return n, wait, err
}

// Cancel gives back a turn that was taken for a message that was not sent.
func (o *Outreach) Cancel(ctx context.Context, from senders.Sender, segments int) error {
	return errors.Join(
		o.Store.CancelReservation(ctx, outreachOf(from.OrgID), o.Interval),
		o.Store.CancelReservation(ctx, from.From(), paceOf(from).Cost(segments)),
	)
}
