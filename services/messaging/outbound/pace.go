package outbound

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"paceline.internal/services/messaging/senders"
)

// overdraft sets how far urgent messages, and those of onboarding, may run ahead of the sender's rate. Twilio queues what comes too fast,
// so nothing is lost by it; everything else waits until it is paid back.
const overdraft = 10 * time.Second

// Pace limits how fast a sender may send: the generic cell rate algorithm. Its one state is the arrival, the instant at which the next
// segment would be due if all came evenly: every segment moves it on by a slot, and a message may be begun while it is no further ahead of
// the present than the slack. A message of several segments is begun when its first one may be, and pays for all: so the average holds for
// any window, and no message is too long for a slow sender.
type Pace struct {
	slot  time.Duration
	burst int // segments that may come at once after a rest
}

// NewPace makes the pace of a rate, with a burst of what one second allows.
func NewPace(segmentsPerSecond float64) Pace {
	return Pace{
		slot:  time.Duration(float64(time.Second) / segmentsPerSecond).Round(time.Microsecond), // what Postgres can tell apart
		burst: max(1, int(math.Ceil(segmentsPerSecond))),
	}
}

// Cost is by how much a message moves the arrival on.
func (p Pace) Cost(segments int) time.Duration { return time.Duration(max(segments, 1)) * p.slot }

// Slack returns how far ahead the arrival may be for a message to be begun.
func (p Pace) Slack(urgent bool) time.Duration {
	slack := p.Cost(p.burst) - p.slot
	if urgent {
		slack += overdraft
	}
	return slack
}

// Limit returns how far ahead the arrival is moved by messages that are not asked.
func (p Pace) Limit() time.Duration { return overdraft }

// free returns how many messages of one segment may be begun while the arrival is so far ahead.
func (p Pace) free(ahead time.Duration, urgent bool) int {
	slack := p.Slack(urgent)
	if ahead = max(ahead, 0); ahead > slack {
		return 0
	}
	return int((slack-ahead)/p.slot) + 1
}

// Pressure counts the messages that wait to be sent, and measures how far ahead of the present the sender is.
type Pressure struct {
	Ahead  time.Duration
	Urgent int // messages that are due, as far as there is room for them
	Others int
}

// longestWait bounds how long the runner waits before it looks for urgent messages again.
const longestWait = time.Second

// admit returns the number of messages that may be begun, of the urgent ones first, or else when to ask again. Each of them still asks for
// its own segments; this only keeps messages from being claimed that would have to be put back.
func (p Pace) admit(waiting Pressure) (n int, wait time.Duration) {
	if waiting.Urgent+waiting.Others == 0 {
		return 1, 0 // a worker may have died over one, or one may come just now
	}
	n = min(waiting.Urgent, p.free(waiting.Ahead, true))
	n += min(waiting.Others, p.free(max(waiting.Ahead, 0)+time.Duration(n)*p.slot, false))
	if n > 0 {
		return n, 0
	}
	return 0, min(max(waiting.Ahead-p.Slack(waiting.Urgent > 0), time.Millisecond), longestWait)
}

// paceOf returns the pace of a sender.
func paceOf(from senders.Sender) Pace { return NewPace(from.Rate) }

// Tally counts the segments that this process has sent outside the queue, by sender. The queue's next look, or the next turn of outreach,
// charges them to the sender: so both give way to onboarding, and onboarding neither waits for the rate nor for the row that keeps it. A
// nil Tally counts nothing.
type Tally struct {
	mu       sync.Mutex
	segments map[counting]int
}

// counting names a sender; that of the environment has no id.
type counting struct{ orgID, sender uuid.UUID }

// Add counts a message of a sender.
func (t *Tally) Add(orgID, sender uuid.UUID, segments int) {
	if t == nil || segments == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.segments == nil {
		t.segments = map[counting]int{}
	}
	t.segments[counting{orgID, sender}] += segments
}

// take returns what was counted of a sender, and counts anew.
func (t *Tally) take(of counting) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.segments[of]
	delete(t.segments, of)
	return n
}

// counted are the senders of which something is counted.
func (t *Tally) counted() []counting {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.segments))
}

// charge charges one sender.
func (t *Tally) charge(ctx context.Context, rates *Store, from senders.Sender, now time.Time) error {
	if t == nil {
		return nil
	}
	segments := t.take(counting{from.OrgID, from.ID})
	if segments == 0 {
		return nil
	}
	pace := paceOf(from)
	err := rates.Charge(ctx, from.From(), pace.Cost(segments), pace.Limit(), now)
	if err != nil {
		t.Add(from.OrgID, from.ID, segments)
	}
	return err
}

// chargeAll charges every sender of which something is counted. What is counted of one that is gone is dropped.
func (t *Tally) chargeAll(ctx context.Context, rates *Store, known *senders.Directory, now time.Time) error {
	for _, of := range t.counted() {
		all, err := known.Of(ctx, of.orgID)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(all, func(s senders.Sender) bool { return s.ID == of.sender })
		if i < 0 {
			t.take(of)
			continue
		}
		if err := t.charge(ctx, rates, all[i], now); err != nil {
			return err
		}
	}
	return nil
}
