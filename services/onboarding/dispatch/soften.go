package dispatch

import (
	"errors"
	"time"

	"paceline.internal/services/onboarding/jobs"
)

// Soften tells the job runner which errors of a delivery are nobody's fault: those are tried again without using up an
// attempt, soon at first and then every half a minute. A lost lease is somebody else's success. age is the job's.
func Soften(err error, age time.Duration) error {
	var wait *Wait
	switch {
	case err == nil, errors.Is(err, jobs.ErrFenced):
		return nil
	case errors.As(err, &wait):
		return &jobs.Snooze{After: max(wait.RetryAfter, Patience(age)), Cause: err}
	case errors.Is(err, ErrUnavailable), errors.Is(err, ErrConflict):
		return &jobs.Snooze{After: Patience(age), Cause: err}
	default:
		return err
	}
}

// Patience is the pause before the next try of something as old as age.
func Patience(age time.Duration) time.Duration {
	return min(max(age/2, time.Second), 30*time.Second)
}
