package chaos

import (
	"cmp"
	"context"
	"slices"
	"time"

	"paceline.internal/deploy/operator"
)

// visitPhase puts the visits of the operator on instants that no other actor has.
const visitPhase = grid - 500*time.Microsecond

// visit looks after what is parked, as an operator on duty does every so often, and comes again until there have been enough.
func (c *population) visit(ctx context.Context) {
	c.mu.Lock()
	c.visited++
	c.mu.Unlock()
	c.decide(ctx)
	if !c.dutyIsOver() {
		c.after(c.tempo.visitEvery, c.visit)
	}
}

func (c *population) dutyIsOver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.visited >= c.tempo.visits
}

// decide says of every parked text what happened to it, which the operator knows from Twilio's own log, and has every stuck
// session go on. What is refused is tried at the next visit.
func (c *population) decide(ctx context.Context) {
	parked, err := c.api.ParkedMessages(ctx)
	if err != nil {
		return // something is down: the next visit
	}
	slices.SortFunc(parked, func(a, b operator.Message) int {
		return cmp.Or(cmp.Compare(a.To, b.To), cmp.Compare(a.Body, b.Body))
	})
	for _, m := range parked {
		c.resolve(ctx, m.MessageID)
	}
	stuck, err := c.api.StuckSessions(ctx)
	if err != nil {
		return
	}
	for _, s := range stuck {
		if s.Status == "stuck" {
			c.count("session resumed", c.api.Resume(ctx, s.SessionID))
		}
	}
}

// resolve looks at the evidence and says whether Twilio has the text.
func (c *population) resolve(ctx context.Context, messageID string) {
	attempt, err := c.api.Attempt(ctx, messageID)
	if err != nil {
		return
	}
	sid, reason := "", "it is not in Twilio's log"
	for _, m := range c.recorder.texts() {
		if rowOf(m) == messageID {
			sid, reason = m.SID, "it is in Twilio's log"
		}
	}
	c.count("message resolved", c.api.Resolve(ctx, messageID, attempt, sid, reason))
}

// count notes what the operator achieved; a refusal is no failure.
func (c *population) count(what string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.achieved[what]++
	case refused(err):
		c.achieved[what+", refused"]++
	}
}
