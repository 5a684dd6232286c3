package goals

import (
	"time"

	"paceline.internal/services/onboarding/goals/timeparse"
)

// sameGoal answers for a key that has a goal. What was asked is not stored, so it is compared with what came of it.
func sameGoal(g Goal, n New) (Goal, bool, error) {
	if g.UndoOf != n.UndoOf || n.UndoOf == "" && !(g.Said == n.Said && g.Source == n.Source && g.isFor(n) && g.isAt(n)) {
		return Goal{}, false, ErrKeyReused
	}
	return g, true, nil
}

// isFor reports whether a request means the goal's device. One that names none means the phone.
func (g Goal) isFor(n New) bool {
	if n.DeviceID == "" {
		return g.Kind == Phone
	}
	return g.DeviceID == n.DeviceID
}

// isAt reports whether a request may be the one that gave the goal its time. Of a goal that was moved that is not known any more. A time
// that was read from words is understood, and one that was given is not.
func (g Goal) isAt(n New) bool {
	switch byWords := g.Understood != ""; {
	case g.Moved:
		return true
	case !n.At.IsZero():
		return !byWords && g.ScheduledFor.Equal(n.At.Truncate(time.Second))
	case !byWords: // without words of time it is meant for at once
		return g.Delay == 0
	case n.Zone == nil: // the person's, which may have changed since
		return true
	}
	return g.meantIn(n.Zone)
}

// meantIn reports whether the goal's words, said when they were, mean its time in a zone. True where that cannot be told: what a model has
// read, and words said at an unknown second.
func (g Goal) meantIn(zone *time.Location) bool {
	if g.Delay == 0 {
		return true
	}
	said := g.ScheduledFor.Add(-g.Delay) // with its second alone
	for _, at := range []time.Time{said, said.Add(time.Second - time.Nanosecond)} {
		read := timeparse.Read(g.Said, g.Locale, zone, at)
		// The rest of the second moves a time by as much, and another zone by a quarter of an hour or more.
		if read.Kind != timeparse.At || read.At.Sub(g.ScheduledFor).Abs() < time.Minute {
			return true
		}
	}
	return false
}
