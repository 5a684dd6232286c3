package enrolment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"paceline.internal/platform/process"
	"paceline.internal/services/onboarding/dispatch"
)

// A hold is a state of the profile, and messaging has to know it: texts that are none of a conversation's, such as those of the
// outbound queue, are held there. The profile is changed first, and remembers which version messaging knows. So a process that dies in
// between leaves a duty that TellHolds finishes, and the verb is answered once it is done.

// What keeps messaging from knowing a hold.
var (
	// ErrHoldUntold is a hold or a release that stands here, and that messaging has not heard of yet.
	ErrHoldUntold = errors.New("the conversation is held or released as asked, but messaging, which keeps the other texts, does not know; " +
		"it is told as soon as it can be reached; repeat this until it succeeds")
	// ErrKeepsNoHolds is a messaging service of the release before.
	ErrKeepsNoHolds = errors.New("this release of messaging keeps no holds; it is told after its upgrade")
)

type heldProfiles interface {
	SetHold(ctx context.Context, orgID, profileID, reason string, at time.Time) (Profile, error)
	Release(ctx context.Context, orgID, profileID string, again Again, at time.Time) (Profile, error)
	// UntoldHolds are profiles of whose hold, or release, messaging does not know yet, by their ids, from behind one of them.
	UntoldHolds(ctx context.Context, after string, limit int) ([]Profile, error)
	// HoldTold notes which version messaging knows.
	HoldTold(ctx context.Context, profileID string, version int64) error
}

type holds interface {
	// TellHold is ErrKeepsNoHolds for a messaging service that does not know them, dispatch.ErrUnavailable for one that cannot be reached.
	TellHold(ctx context.Context, orgID, phone string, held bool, version int64) error
}

// Hold puts a safety hold on a person. Reason is for the timeline. Once it is answered nothing is on its way to them, and nothing is
// sent but our answers to STOP and HELP. ErrNoProfile, ErrHoldUntold.
func (d *Desk) Hold(ctx context.Context, orgID, profileID, reason string) (Profile, error) {
	p, err := d.Profiles.SetHold(ctx, orgID, profileID, reason, d.Now())
	if err != nil {
		return Profile{}, err
	}
	return p, d.tellNow(ctx, p)
}

// tellNow tells messaging in the time of an operator's verb. A messaging service of the release before holds what that release held.
func (d *Desk) tellNow(ctx context.Context, p Profile) error {
	err := d.tell(ctx, p)
	switch {
	case errors.Is(err, ErrKeepsNoHolds):
		d.Log.WarnContext(ctx, "onboarding.hold_untold", "profile_id", p.ID, "error", err)
		return nil
	case errors.Is(err, dispatch.ErrUnavailable):
		return fmt.Errorf("%w: %w", ErrHoldUntold, err)
	}
	return err
}

func (d *Desk) tell(ctx context.Context, p Profile) error {
	if p.HoldTold == p.HoldVersion {
		return nil
	}
	if err := d.Holds.TellHold(ctx, p.OrgID, p.Phone, p.Hold, p.HoldVersion); err != nil {
		return fmt.Errorf("tell messaging of a hold: %w", err)
	}
	return d.Profiles.HoldTold(ctx, p.ID, p.HoldVersion)
}

const (
	tellInterval = 5 * time.Second
	tellBatch    = 100
	tellTries    = 3 // in a row that messaging cannot take: it is away
)

// TellLoop repeats TellHolds.
func (d *Desk) TellLoop(rest process.Rest) process.Repetition {
	return process.Repetition{
		Once:   d.TellHolds,
		Failed: func(ctx context.Context, err error) { d.Log.WarnContext(ctx, "onboarding.hold_untold", "error", err) },
		Rest:   rest, Every: tellInterval,
	}
}

// TellHolds has messaging know the holds and releases that it was not told of: those whose process died over them, or could not reach it,
// and those of a release that did not tell. One that messaging refuses, or puts off because a text is on its way to the person, keeps
// back no other; several in a row that it cannot take are an outage.
func (d *Desk) TellHolds(ctx context.Context) (more bool, err error) {
	var failures []error
	for after, away := uuid.Nil.String(), 0; ; {
		untold, err := d.Profiles.UntoldHolds(ctx, after, tellBatch)
		if err != nil {
			return false, errors.Join(append(failures, err)...)
		}
		for _, p := range untold {
			after = p.ID
			err := d.tell(ctx, p)
			process.Progress(ctx)
			switch {
			case errors.Is(err, ErrKeepsNoHolds):
				return false, err
			case errors.Is(err, dispatch.ErrUnavailable):
				away++
			default:
				away = 0
			}
			if err != nil {
				failures = append(failures, fmt.Errorf("profile %s: %w", p.ID, err))
			}
			if away == tellTries {
				return false, errors.Join(failures...)
			}
		}
		if len(untold) < tellBatch {
			return false, errors.Join(failures...)
		}
	}
}
