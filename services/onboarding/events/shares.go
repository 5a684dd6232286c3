package events

import (
	"context"
	"strings"
	"sync"
	"time"

	"paceline.internal/platform/queue"
)

const (
	// workers is the number of deliveries that a process has at work at a time: most of their time they wait for a receiver.
	workers = 64
	// startBatch is the number of deliveries that begin together. What they read is the last that should take from the conversations.
	startBatch = 8
	// quickShare bounds the deliveries to a subscription at a time. One that was slow within the last shareMemory, or has not answered
	// within it, has slowShare: thirty that hang leave workers for the others.
	quickShare  = 8
	slowShare   = 2
	slowAfter   = 5 * time.Second
	shareMemory = time.Minute
)

// Runner returns the runner of the deliveries of a process. The config has what is not for this room to decide.
func (c *Courier) Runner(cfg queue.Config) *queue.Runner {
	cfg.Name, cfg.Store = DeliveriesTable, NewShares(c.Subscriptions.Deliveries())
	cfg.Handlers = map[string]queue.Handler{DeliveryType: c.Deliver}
	cfg.Backoff, cfg.Timeout, cfg.Workers, cfg.Batch = Backoff, DeliveryTimeout, workers, startBatch
	return queue.NewRunner(cfg)
}

// Shares is the queue of deliveries for the runner of one process. It bounds how many deliveries of a subscription are at work, so that a
// receiver that hangs delays itself alone.
type Shares struct {
	*queue.Queue

	mu     sync.Mutex
	begun  map[string]time.Time // by delivery at work
	shares map[string]*share    // by subscription
}

// share counts the deliveries of a subscription in this process.
type share struct {
	atWork int
	ended  time.Time // when a delivery ended last
	slow   time.Time // when one ended last that was slow
}

// NewShares returns the queue for a runner.
func NewShares(deliveries *queue.Queue) *Shares {
	return &Shares{Queue: deliveries, begun: map[string]time.Time{}, shares: map[string]*share{}}
}

// Claim claims what the subscriptions have room for.
func (s *Shares) Claim(ctx context.Context, c queue.Claim) (queue.Claimed, error) {
	c.Room, c.OtherRoom = s.room(c.Now), slowShare
	claimed, err := s.Queue.Claim(ctx, c)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range claimed.Jobs {
		s.begin(j, c.Now)
	}
	return claimed, err
}

// Finish gives the places of deliveries that have ended to others, also where the end cannot be recorded.
func (s *Shares) Finish(ctx context.Context, ends []queue.Finish) ([]string, error) {
	s.mu.Lock()
	for _, e := range ends {
		s.end(e.Job, e.At)
	}
	s.mu.Unlock()
	return s.Queue.Finish(ctx, ends)
}

// room returns how many more deliveries each subscription may have at work, and forgets those that were idle for a while.
func (s *Shares) room(now time.Time) map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	room := map[string]int{}
	for id, of := range s.shares {
		if of.atWork == 0 && now.Sub(of.ended) > shareMemory {
			delete(s.shares, id)
			continue
		}
		room[id] = of.most(now) - of.atWork
	}
	return room
}

// most returns how many deliveries the subscription may have at work.
func (s *share) most(now time.Time) int {
	if now.Sub(s.ended) > shareMemory || now.Sub(s.slow) <= shareMemory {
		return slowShare
	}
	return quickShare
}

func (s *Shares) begin(j queue.Job, now time.Time) {
	if _, again := s.begun[j.ID]; !again { // else its lease ran out here
		id := receiverOf(j)
		if s.shares[id] == nil {
			s.shares[id] = &share{}
		}
		s.shares[id].atWork++
	}
	s.begun[j.ID] = now
}

func (s *Shares) end(j queue.Job, now time.Time) {
	began, atWork := s.begun[j.ID]
	if !atWork { // an end that is recorded anew
		return
	}
	delete(s.begun, j.ID)
	of := s.shares[receiverOf(j)]
	of.atWork--
	of.ended = now
	if now.Sub(began) >= slowAfter {
		of.slow = now
	}
}

// receiverOf returns the id of the subscription of a delivery.
func receiverOf(j queue.Job) string {
	id, _, _ := strings.Cut(j.Subject, ":")
	return id
}
