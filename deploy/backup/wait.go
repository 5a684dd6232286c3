package backup

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"paceline.internal/platform/process"
	"paceline.internal/services/messaging/readback"
)

// Bounds of the waits, in polls. What never comes must not keep all organisations stopped.
const (
	holdsAfter = 60  // for holds, once all else is done: messaging may refuse one
	stuckAfter = 600 // while nothing moves, and only organisations are left that Twilio refuses, or senders that nobody sweeps
)

// progress counts what is left to read back.
type progress struct {
	unread, sweeps, holds int
	failing               []uuid.UUID
}

// readBack waits until the services have read Twilio's record of what was lost.
func (w *work) readBack(ctx context.Context) error {
	var now readback.Settling
	var before progress
	said, still := "", 0
	for {
		var err error
		if now, err = w.readbacks.Settling(ctx); err != nil {
			return err
		}
		left, err := w.left(ctx, now)
		if err != nil {
			return err
		}
		if still++; left.unread != before.unread || left.sweeps != before.sweeps || len(left.failing) != left.unread {
			still = 0
		}
		before = left
		done := left.unread == 0 && left.sweeps == 0
		if done && left.holds == 0 || done && still > holdsAfter || still > stuckAfter {
			w.printLeft(left)
			break
		}
		waits := left.waits(now.Failure)
		if waits != said {
			w.printf("                waits for the services: %s\n", waits)
			said = waits
		}
		if !process.RestOnMachineClock(ctx, w.Poll, nil) {
			return fmt.Errorf("%s: are the services running, with the search for missed texts (INBOUND_SWEEP_INTERVAL)? Then settle again: %w",
				waits, ctx.Err())
		}
	}
	heard, err := w.onboarding.Restores().HeardSince(ctx, w.restore.BeganAt)
	if err != nil {
		return err
	}
	w.printf("2  read back    of what Twilio has, messaging had lost %d received and %d sent; %s of people went to onboarding\n",
		now.Received, now.Sent, many(heard, "message"))
	return nil
}

func (w *work) left(ctx context.Context, now readback.Settling) (left progress, err error) {
	left = progress{unread: now.Unread, failing: now.Failing}
	if left.sweeps, err = w.onboarding.Inbound().SweptAgain(ctx); err != nil {
		return left, err
	}
	left.holds, err = w.onboarding.People().HoldsToForward(ctx)
	return left, err
}

// waits tells the operator what is waited for, and what to do where Twilio refuses it.
func (p progress) waits(failure string) string {
	if p.unread == 0 && p.sweeps == 0 {
		return "holds to reach messaging"
	}
	waits := fmt.Sprintf("%s to read back, %s to deliver again", many(p.unread, "organisation"), many(p.sweeps, "sender"))
	if len(p.failing) > 0 {
		waits += fmt.Sprintf(": organisation %s: %s: mend its key, disable the sender, or end it by hand (docs/runbooks/restore.md)",
			p.failing[0], failure)
	}
	return waits
}

// printLeft prints what the settle goes on without.
func (w *work) printLeft(left progress) {
	for _, org := range left.failing {
		w.printf("                organisation %s is not read back: nothing is sent for it until it is\n", org)
	}
	if left.sweeps > 0 {
		w.printf("                %s not delivered again: nobody sweeps them\n", many(left.sweeps, "sender"))
	}
	if left.holds > 0 {
		w.printf("                messaging does not know %s yet\n", many(left.holds, "hold"))
	}
}
