package outbound

import (
	"context"
	"math"
	"sync/atomic"
	"time"
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

// Tally counts the segments that this process has sent outside the queue. The queue's next look, or the next turn of outreach, charges them
// to the sender: so both give way to onboarding, and onboarding neither waits for the rate nor for the row that keeps it. A nil Tally
// counts nothing.
type Tally struct{ segments atomic.Int64 }

// Add counts a message.
func (t *Tally) Add(segments int) {
	if t != nil {
		t.segments.Add(int64(segments))
	}
}

func (t *Tally) charge(ctx context.Context, rates *Store, pace Pace, from string, now time.Time) error {
	if t == nil {
		return nil
	}
	segments := int(t.segments.Swap(0))
	if segments == 0 {
		return nil
	}
	err := rates.Charge(ctx, from, pace.Cost(segments), pace.Limit(), now)
	if err != nil {
		t.Add(segments)
	}
	return err
}
