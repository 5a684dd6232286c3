package outbound

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"paceline.internal/services/messaging/senders"
)

const (
	// admitTimeout bounds the database calls before a claim: no message is sent meanwhile.
	admitTimeout = 5 * time.Second
	// otherPause is for how long an organisation has no turn when a message of one of several senders was put back: what is due of the others
	// is claimed then, and not all of the first one's before it.
	otherPause = 50 * time.Millisecond
	// workerPause is for how long an organisation that has all of its workers has no turn.
	workerPause = 20 * time.Millisecond
)

// admit is asked before every claim: it charges what was sent outside the queue, and keeps messages from being claimed that are too many.
// An organisation without room has no turn. Of the others each gets an equal share of a claim, so as many are claimed as the one with the
// least room can take; the rest is claimed next.
func (r *Runner) admit(ctx context.Context, want int) (int, time.Duration, error) {
	now := r.Now()
	ctx, cancel := context.WithTimeout(ctx, admitTimeout)
	defer cancel()
	if err := r.Tally.chargeAll(ctx, r.Store, r.Senders, now); err != nil {
		return 0, 0, err
	}
	r.reserving.Lock()
	defer r.reserving.Unlock()
	r.mu.Lock()
	after := r.after
	r.mu.Unlock()
	due, err := r.Store.Due(ctx, after, want, now)
	if err != nil {
		return 0, 0, err
	}
	rooms, err := r.rooms(ctx, due, now)
	if err != nil {
		return 0, 0, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked, r.refused, r.seen, r.except = now, time.Time{}, r.seen[:0:0], nil
	if r.after = uuid.Nil; len(due) == maxOrganisations {
		r.after = due[len(due)-1].OrgID
	}
	for _, d := range due {
		r.seen = append(r.seen, d.OrgID)
	}
	n, wait := r.share(rooms, now)
	return min(n, want), wait, nil
}

// room counts the messages of an organisation that may be begun, or has when to ask again.
type room struct {
	orgID string
	n     int
	wait  time.Duration
}

// share returns the number of messages that may be claimed of all, and notes the organisations without a turn.
func (r *Runner) share(rooms []room, now time.Time) (n int, wait time.Duration) {
	if len(rooms) == 0 {
		return 1, 0 // a worker may have died over one, or one may come just now
	}
	least, turns := 0, 0
	wait = longestWait
	running := countsOf(r.running)
	for _, o := range rooms {
		if free := r.mostOfOne() - running[o.orgID]; free < o.n {
			o.n, o.wait = max(free, 0), workerPause
		}
		if until, paused := r.paused[o.orgID]; paused && now.Before(until) {
			o.n, o.wait = 0, until.Sub(now)
		} else if paused {
			delete(r.paused, o.orgID)
		}
		if o.n == 0 {
			r.except, wait = append(r.except, o.orgID), min(wait, o.wait)
			continue
		}
		if turns++; least == 0 || o.n < least {
			least = o.n
		}
	}
	if turns == 0 {
		return 0, wait
	}
	return least * turns, 0
}

// rooms returns the rooms of the organisations in which something is due.
func (r *Runner) rooms(ctx context.Context, due []Due, now time.Time) ([]room, error) {
	of := map[uuid.UUID][]senders.Sender{}
	var names []string
	for _, d := range due {
		active, err := r.Senders.Active(ctx, d.OrgID)
		if err != nil && !errors.Is(err, senders.ErrNoSender) {
			return nil, err
		}
		for _, from := range active {
			names = append(names, from.From())
		}
		of[d.OrgID] = active
	}
	ahead, err := r.Store.Ahead(ctx, names, now)
	if err != nil {
		return nil, err
	}
	begun := r.begunOf()
	var rooms []room
	for _, d := range due {
		if d.Urgent+d.Others == 0 {
			continue
		}
		rooms = append(rooms, roomOf(d, of[d.OrgID], ahead, begun[d.OrgID.String()]))
	}
	return rooms, nil
}

// roomOf adds up the room of an organisation's senders: which one a message is sent with is known when it is claimed. One without a sender
// is claimed to be put back for longer.
func roomOf(d Due, active []senders.Sender, ahead map[string]time.Duration, begun int) room {
	o := room{orgID: d.OrgID.String(), wait: longestWait}
	if len(active) == 0 {
		o.n = 1
		return o
	}
	for _, from := range active {
		pace := paceOf(from)
		waiting := Pressure{Ahead: max(ahead[from.From()], 0) + time.Duration(begun)*pace.slot, Urgent: d.Urgent, Others: d.Others}
		n, wait := pace.admit(waiting)
		o.n, o.wait = o.n+n, min(o.wait, wait)
		if n > 0 {
			o.wait = 0
		}
	}
	return o
}

// begunOf counts by organisation what is claimed and has reserved nothing yet.
func (r *Runner) begunOf() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return countsOf(r.begun)
}

// countsOf counts ids by their organisation.
func countsOf(ids map[string]string) map[string]int {
	counts := map[string]int{}
	for _, orgID := range ids {
		counts[orgID]++
	}
	return counts
}
