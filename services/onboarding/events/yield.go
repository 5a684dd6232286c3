package events

import (
	"context"
	"time"
)

const (
	// yieldFor is the time that deliveries rest between two batches while conversations wait, and yieldBatch the size of such a batch: so a
	// subscriber hears something however long a crowd lasts. yieldOpen bounds the deliveries of a subscription then; the log
	// holds the others.
	yieldFor   = 250 * time.Millisecond
	yieldBatch = 8
	yieldOpen  = 4 * yieldBatch
)

// crowd notices that conversations wait for the database.
type crowd struct {
	waited func() int // how many have had to wait so far
	seen   int
}

// grown reports whether any has had to wait since the last look.
func (c *crowd) grown() bool {
	before := c.seen
	c.seen = c.waited()
	return c.seen != before
}

// Yield has the deliveries of a process give way to its conversations: what is to be posted can wait, and a text that is due cannot.
type Yield struct {
	crowd crowd
	now   func() time.Time
	next  time.Time
}

// NewYield returns one; waited counts the conversations that have had to wait for the database so far.
func NewYield(waited func() int, now func() time.Time) *Yield {
	return &Yield{crowd: crowd{waited: waited}, now: now}
}

// Admit is the queue's question how many deliveries may be begun now: all, unless conversations have waited since it was asked before.
func (y *Yield) Admit(_ context.Context, want int) (n int, wait time.Duration, err error) {
	now := y.now()
	if wait := y.next.Sub(now); wait > 0 {
		return 0, wait, nil
	}
	if !y.crowd.grown() {
		return want, 0, nil
	}
	y.next = now.Add(yieldFor)
	return min(want, yieldBatch), 0, nil
}
