// Package reservation runs the work of one delivery at most once at a time, and remembers that it was done.
//
// A key has one of three values, each as of a given time: absent; in flight, with an owner and the end of their lease; done,
// with the end of the memory of it. A value that has ended is absent, whether or not its store has swept it up yet. With
// fewer values, a worker that died before its work could not be told from one that did it.
package reservation

import (
	"errors"
	"fmt"
	"time"
)

// Claim is what an owner says of a key to a store.
type Claim struct {
	Key   string
	Owner string    // the fence: a random text of one run, which no other run has
	Now   time.Time // the time by which leases are judged, to the microsecond
	Until time.Time // to Reserve: the end of the lease; to Complete: the end of the memory; not read by Release
}

// Verdict is how a store decides on a claim.
type Verdict int

// The verdicts.
const (
	Won      Verdict = iota + 1 // it was absent, and is the owner's now
	InFlight                    // somebody else holds it
	Done                        // its work was done
)

// Answer is a verdict and the time at which the value that stands behind it ends.
type Answer struct {
	Verdict Verdict
	Until   time.Time
}

// ErrLost is a reservation that its owner does not have, or has no more. Nothing was changed.
var ErrLost = errors.New("reservation: somebody else may have it by now")

// ErrUnavailable is a store that did not answer. The work was not begun.
var ErrUnavailable = errors.New("reservation: the store of reservations cannot be reached")

// InProgress is a delivery whose message or key somebody else holds. Nothing was done; before Until there is no use in
// coming back unless they fail, and a retry that does is one fewer for when they have died.
type InProgress struct {
	Until      time.Time     // the end of their lease
	RetryAfter time.Duration // from now until then
}

func (p *InProgress) Error() string {
	return fmt.Sprintf("another delivery of this is being worked on, for at most %s", p.RetryAfter)
}
