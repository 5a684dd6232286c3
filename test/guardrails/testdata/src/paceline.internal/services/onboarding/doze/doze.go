// Package doze waits in every way that a process can.
package doze

import (
	"context"
	"time"
	nap "time"

	"paceline.internal/platform/pause"
	"paceline.internal/platform/postgres"
	"paceline.internal/platform/process"
)

func sleeps(ctx context.Context) {
	time.Sleep(8 * time.Second)  // want `^in-process sleep detected - use the QStash delay parameter: time\.Sleep\.`
	nap.Sleep(8 * nap.Second)    // want `in-process sleep detected - use the QStash delay parameter`
	<-time.After(time.Second)    // want `time\.After\.`
	time.AfterFunc(1, func() {}) // want `time\.AfterFunc`
	timer := time.NewTimer(1)    // want `time\.NewTimer`
	ticker := time.NewTicker(1)  // want `time\.NewTicker`
	<-time.Tick(1)               // want `time\.Tick`
	<-timer.C
	<-ticker.C
}

var holds = time.Sleep // want `in-process sleep detected`

func rests(ctx context.Context, rest process.Rest) {
	rest(ctx, 8*time.Second, nil)                       // want `a process\.Rest is called by hand`
	process.RestOnMachineClock(ctx, 8*time.Second, nil) // want `in-process sleep detected .*RestOnMachineClock`
}

func waitsForALimit(parent context.Context) {
	ctx, cancel := context.WithTimeout(parent, 8*time.Second)
	defer cancel()
	<-ctx.Done() // want `nothing but a time limit is waited for`
	select {
	case <-ctx.Done(): // want `nothing but a time limit is waited for`
	}
	context.AfterFunc(ctx, func() {}) // want `context\.AfterFunc on a time limit is a timer`
	late, cancel := context.WithDeadlineCause(parent, time.Time{}, nil)
	defer cancel()
	_, ok := <-late.Done() // want `nothing but a time limit is waited for`
	_ = ok
}

func hasOthersSleep(p pause.Pacer) {
	pause.For(8 * time.Second) // want `platform/pause\.For waits by time\.NewTimer`
	later := p.Gap             // want `Gap waits by time\.NewTimer`
	later()
}

const (
	sqlWait  = `select pg_sleep(8)`                // want `pg_sleep holds a connection as well`
	sqlWaits = `select ` + `pg_` + `sleep_for($1)` // want `pg_sleep holds a connection as well`
)

// What follows is none.

func loops(ctx context.Context, rest process.Rest) error {
	return process.Repetition{Rest: rest, Every: time.Minute}.Run(ctx)
}

func sanctioned() {
	postgres.InTx()
	_ = pause.Pure(time.Second)
}

func converts(f func(ctx context.Context, d time.Duration, wake <-chan struct{}) bool) process.Rest {
	return process.Rest(f)
}

func isBounded(ctx context.Context, answer <-chan int) {
	<-ctx.Done() // the caller's end is a signal
	context.AfterFunc(ctx, func() {})
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	select {
	case <-answer:
	case <-ctx.Done():
	}
	select {
	case <-ctx.Done():
	default:
	}
}
