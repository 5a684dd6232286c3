package people

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"paceline.internal/platform/process"
)

// A hold is a state of the profile, and messaging has to know it: messages of no conversation, such as those of the
// outbound queue, are held there. The profile is changed first, and remembers which version messaging knows. So a process that dies in
// between leaves a hold to forward, which ForwardHolds does, and the call is answered once it is forwarded.

// What keeps messaging from knowing a hold.
var (
	// ErrHoldNotForwarded is a hold or a release that is stored here, and that messaging does not know yet.
	ErrHoldNotForwarded = errors.New("the conversation is held or released as asked, but messaging, which keeps the other texts, " +
		"does not know; it is told as soon as it can be reached; repeat this until it succeeds")
	// ErrKeepsNoHolds is a messaging service of the release before.
	ErrKeepsNoHolds = errors.New("this release of messaging keeps no holds; it is told after its upgrade")
)

// Hold puts a safety hold on a person. Reason is for the timeline. Once it is answered nothing is on its way to them, and nothing is
// sent but our answers to words about consent. ErrNoProfile, ErrHoldNotForwarded.
func (c *Service) Hold(ctx context.Context, orgID, profileID, reason string) (Profile, error) {
	p, err := c.Store.SetHold(ctx, orgID, profileID, reason, c.Now())
	if err != nil {
		return Profile{}, err
	}
	return p, c.forwardNow(ctx, p)
}

// Release lifts a hold. A step that came due meanwhile gets an alarm at once, and the last reply that was held and still
// answers something is answered. Releasing a person who is not held changes nothing. It also ends the hold by words that may be an opt-out,
// unless a session or a failed job waits for their judgement. ErrNoProfile, ErrHoldNotForwarded.
func (c *Service) Release(ctx context.Context, orgID, profileID string) (Profile, error) {
	p, err := c.Store.Release(ctx, orgID, profileID, c.Now())
	if err != nil {
		return Profile{}, err
	}
	if err := c.forwardNow(ctx, p); err != nil {
		return p, err
	}
	return p, c.judgeLeft(ctx, p)
}

// forwardNow forwards a hold in the time of an operator's call. A messaging service of the release before holds what that release held.
func (c *Service) forwardNow(ctx context.Context, p Profile) error {
	err := c.forward(ctx, p)
	switch {
	case errors.Is(err, ErrKeepsNoHolds):
		c.Log.WarnContext(ctx, "people.hold_not_forwarded", "profile_id", p.ID, "error", err)
		return nil
	case errors.Is(err, ErrUnavailable):
		return fmt.Errorf("%w: %w", ErrHoldNotForwarded, err)
	}
	return err
}

func (c *Service) forward(ctx context.Context, p Profile) error {
	if p.HoldForwarded == p.HoldVersion {
		return nil
	}
	if err := c.Carrier.ForwardHold(ctx, p.OrgID, p.Phone, p.Hold, p.HoldVersion); err != nil {
		return fmt.Errorf("forward a hold: %w", err)
	}
	return c.Store.HoldForwarded(ctx, p.ID, p.HoldVersion)
}

const (
	forwardInterval = 5 * time.Second
	forwardBatch    = 100
	forwardTries    = 3 // in a row that messaging cannot take: it is away
)

// HoldsLoop repeats ForwardHolds.
func (c *Service) HoldsLoop(rest process.Rest) process.Repetition {
	return process.Repetition{
		Once: c.ForwardHolds,
		Failed: func(ctx context.Context, err error) {
			c.Log.WarnContext(ctx, "people.hold_not_forwarded", "error", err)
		},
		Rest: rest, Every: forwardInterval,
	}
}

// ForwardHolds forwards the holds and releases that messaging does not know: those of a process that died or could not reach it, and those
// of a release that did not forward them. One that messaging refuses, or cannot take while a message is on its way to the person, delays
// no other; several in a row that it cannot take are an outage.
func (c *Service) ForwardHolds(ctx context.Context) (more bool, err error) {
	var failures []error
	for after, away := uuid.Nil.String(), 0; ; {
		unforwarded, err := c.Store.UnforwardedHolds(ctx, after, forwardBatch)
		if err != nil {
			return false, errors.Join(append(failures, err)...)
		}
		for _, p := range unforwarded {
			after = p.ID
			err := c.forward(ctx, p)
			process.Progress(ctx)
			switch {
			case errors.Is(err, ErrKeepsNoHolds):
				return false, err
			case errors.Is(err, ErrUnavailable):
				away++
			default:
				away = 0
			}
			if err != nil {
				failures = append(failures, fmt.Errorf("profile %s: %w", p.ID, err))
			}
			if away == forwardTries {
				return false, errors.Join(failures...)
			}
		}
		if len(unforwarded) < forwardBatch {
			return false, errors.Join(failures...)
		}
	}
}

// HeldSince reads the version of a hold, which is also its time, in microseconds; a hold of early releases has none.
func HeldSince(version int64) time.Time {
	if version <= 1 {
		return time.Time{}
	}
	return time.UnixMicro(version).UTC()
}

// Judged returns ErrAwaitsOperator while words of a person may be an opt-out and no operator has judged them. ErrNoProfile, ErrUnavailable.
func (c *Service) Judged(ctx context.Context, orgID, profileID string) error {
	p, err := c.Store.Profile(ctx, orgID, profileID)
	if err != nil {
		return err
	}
	switch awaits, err := c.Words.AwaitsJudgement(ctx, orgID, p.Phone); {
	case err != nil:
		return err
	case awaits:
		return ErrAwaitsOperator
	}
	_, err = c.Carrier.CheckSender(ctx, orgID, p.Phone)
	if errors.Is(err, ErrNoSender) || errors.Is(err, ErrOptedOut) { // who has opted out has nothing left to judge
		return nil
	}
	return err
}

// judgeLeft judges words that nothing waits for, such as those of a session that was reset: nothing else would end their hold.
func (c *Service) judgeLeft(ctx context.Context, p Profile) error {
	awaits, err := c.Words.AwaitsJudgement(ctx, p.OrgID, p.Phone)
	if err != nil || awaits {
		return err
	}
	return c.Carrier.JudgeWords(ctx, p.OrgID, p.Phone)
}
