// Package goals runs what people ask to happen later: a goal runs on the device that it was asked from, once, or says why not. The row is
// the truth; its alarm, a callback of QStash, only says that it is time to look.
package goals

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Status is the status of a goal.
type Status string

// The statuses: scheduled, then running, then completed or failed; or scheduled, then cancelled or failed.
const (
	Scheduled Status = "scheduled"
	Running   Status = "running"
	Completed Status = "completed"
	Failed    Status = "failed"
	Cancelled Status = "cancelled"
)

// Statuses are all of them.
func Statuses() []Status { return []Status{Scheduled, Running, Completed, Failed, Cancelled} }

// Kind is a kind of device.
type Kind string

// The kinds.
const (
	Stream Kind = "stream" // connected by a WebSocket
	Phone  Kind = "phone"  // the person's own: what runs is a text to them
)

// Source is the place at which a goal was said.
type Source string

// The sources.
const (
	SourceREST   Source = "rest"
	SourceDevice Source = "device"
	SourceVoice  Source = "voice"
	SourceText   Source = "text"
)

// Why a goal failed. The words of a device that ended a run are in the timeline: events have reasons, and no words.
const (
	ReasonDevice      = "device_failed"  // the device said so
	ReasonOffline     = "device_offline" // its alarm and all retries found the device offline
	ReasonBusy        = "device_busy"    // another goal ran on the device, or a conversation on the phone, for an hour
	ReasonLost        = "device_lost"    // the device was silent for RUN_LEASE
	ReasonRemoved     = "device_removed" // the device was deleted
	ReasonLimit       = "run_limit"      // the run lasted for RUN_LIMIT
	ReasonNoAlarm     = "alarm_lost"     // no alarm of it came through
	ReasonHeld        = "on_hold"        // of a phone: the person is held
	ReasonOptedOut    = "opted_out"      // of a phone: the person has opted out
	ReasonUndelivered = "undelivered"    // of a phone: the carrier refused the text, or gave it up
)

// Goal is one row.
type Goal struct {
	ID           string // UUIDv7
	OrgID        string
	ProfileID    string
	DeviceID     string
	Kind         Kind // of the device
	Source       Source
	Key          string // of idempotency, with its source's prefix; unique per person
	Said         string // with the time in it
	Goal         string // what the device gets
	Locale       string
	Understood   string
	Note         string
	Status       Status
	Reason       string
	ScheduledFor time.Time // whole seconds
	Delay        time.Duration
	CalledAt     time.Time // its alarm found the device connected and free
	WaitingSince time.Time
	OfflineTries int
	RunID        string    // fences a run; empty until there is one
	HeardAt      time.Time // when the device last spoke of the run
	Progress     string
	StopAskedAt  time.Time
	StartedAt    time.Time
	EndedAt      time.Time
	UndoOf       string
	CreatedBy    string
	CreatedAt    time.Time
	Moved        bool // it was given another time; only read of the goal of a key

	// SchedulingPaused says that an operator has paused the organisation: nothing of it begins.
	SchedulingPaused bool
}

// Transition is one line of a goal's timeline.
type Transition struct {
	At       time.Time
	From, To Status
	Event    string
	Actor    string // user:<id>, operator:<subject>, app:<subject>, device:<id>, alarm, sweeper or text
	Detail   string
}

// Device is one row.
type Device struct {
	ID            string // UUIDv7
	OrgID         string
	ProfileID     string
	Name          string
	Kind          Kind
	Configuration json.RawMessage // an object, at most 4 KiB
	Online        bool
	ConnectedAt   time.Time
	CreatedAt     time.Time
}

// Owner is the person who says a goal, with their language and zone.
type Owner struct {
	OrgID     string
	ProfileID string
	Locale    string
	Zone      *time.Location
}

// Alarm is a row of the outbox: when QStash is to call for a goal.
type Alarm struct {
	ID         string // UUIDv7
	OrgID      string
	GoalID     string
	Generation int
	Cause      string
	DueAt      time.Time
	LeaseToken string
}

type (
	// Hello is the begin of a stream of a device.
	Hello struct{ DeviceID, Token, Client string }
	// Connection is a stream of a device that has the device by its row.
	Connection struct {
		OrgID, ProfileID, DeviceID string
		Epoch                      int64
		Runs                       []string // open by their rows
	}
	// Call is one order to a node for one of its devices: begin a goal, or stop a run.
	Call struct {
		GoalID, DeviceID string
		Epoch            int64
		Stop             string // the run
	}
	// Offer is a run that has begun by its row, for the device to run now.
	Offer struct {
		RunID, GoalID, Goal string
		ScheduledFor        time.Time
		Configuration       json.RawMessage

		// What is measured of it, and not told to the device.
		CalledAt time.Time
		Waited   string
	}
)

// End is the end of a run.
type End struct {
	RunID    string
	DeviceID string // only its own runs
	OK       bool
	Reason   string // of a failure
	Detail   string // in the device's words, at most 200 characters
	Actor    string
	At       time.Time
}

// Errors that callers see. Their texts hold no words of a person.
var (
	ErrInvalid   = errors.New("the goal is not valid")
	ErrNoGoal    = errors.New("there is no such goal")
	ErrNoDevice  = errors.New("there is no such device of this person")
	ErrNoOwner   = errors.New("there is no such person")
	ErrExists    = errors.New("the person has a device of that name")
	ErrToken     = errors.New("this is not the token of the device; rotate it, or register the device")
	ErrNotOwner  = errors.New("the goal is another person's")
	ErrOffline   = errors.New("the device is not connected")
	ErrOver      = errors.New("the organisation of the device has ended; connect again later, it may be resumed")
	ErrOvertaken = errors.New("a stream of the device that was opened later came first; connect again")
	ErrReplaced  = errors.New("a newer stream of the device is open, or its token was replaced, or it was deleted")
	ErrForgotten = errors.New("the device has acknowledged the run before") // and says that it never saw it
	ErrTooMany   = errors.New("too many goals: at most 100 open ones, and 20 new ones a day by text")
	ErrKeyReused = errors.New("the idempotency key was used for another goal")
	ErrConflict  = errors.New("the goal changed meanwhile; try again")
	ErrNoTime    = errors.New("a text to a phone needs a time: say when")
	ErrPast      = errors.New("the time has passed")
	ErrTooFar    = fmt.Errorf("the time is more than %d days ahead, which is as far as a goal may be", daysAhead)
	ErrUndone    = errors.New("the goal was brought back already")
)

// UnclearError is a time that was not understood for certain; nothing was scheduled.
type UnclearError struct{ Understood string } // what was read, in the person's language; may be empty

func (e *UnclearError) Error() string {
	if e.Understood == "" {
		return "it is not clear when this is meant; say it as in \"in 20 minutes\" or \"tomorrow at 9am\""
	}
	return fmt.Sprintf("it is not clear when this is meant; what was read is %q", e.Understood)
}

// LogValue keeps the words out of the log.
func (e *UnclearError) LogValue() slog.Value {
	return slog.StringValue("it is not clear when this is meant")
}

// StatusError refuses a change of a goal that has another status. It says when one that has begun did.
type StatusError struct {
	Status    Status
	StartedAt time.Time
}

func (e *StatusError) Error() string {
	if e.StartedAt.IsZero() {
		return fmt.Sprintf("the goal is %s", e.Status)
	}
	return fmt.Sprintf("the goal is %s; it started at %s", e.Status, e.StartedAt.UTC().Format(time.RFC3339))
}
