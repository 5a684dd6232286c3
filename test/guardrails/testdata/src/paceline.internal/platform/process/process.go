package process

import (
	"context"
	"time"
)

type Rest func(ctx context.Context, d time.Duration, wake <-chan struct{}) bool

func RestOnMachineClock(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	<-time.After(d)
	return true
}

type Repetition struct {
	Rest  Rest
	Every time.Duration
}

func (r Repetition) Run(ctx context.Context) error {
	r.Rest(ctx, r.Every, nil)
	return nil
}
