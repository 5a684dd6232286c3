package session

import (
	"time"

	"paceline.internal/platform/hours"
	"paceline.internal/services/onboarding/flow"
)

// Record is a session as it is stored, with what the decisions need to know of the person.
type Record struct {
	ID          string // UUIDv7: the episode
	OrgID       string
	ProfileID   string
	Mode        Mode
	Token       Token
	NextStep    StepID // empty outside the burst
	Status      Status
	Reason      string // why it is parked; empty otherwise
	Paused      bool
	Turn        int // how often it has changed
	Detours     int // how many of the turns were parkings and resumings, which led the conversation nowhere
	CopyVersion string
	CreatedAt   time.Time
	UpdatedAt   time.Time
	Quiet       hours.Quiet // of the organisation, by the clock of the person
	Flow        string      // of a published flow; empty of the deployment's own conversation
	FlowVersion string
	At          flow.State // in a published flow
	MovingUntil time.Time  // it is being moved to another version: nothing is sent until then; zero when it is not
}

// Snapshot returns what the decisions need of a record, together with the person's hold.
func (r Record) Snapshot(held bool) Snapshot {
	return Snapshot{Status: r.Status, Mode: r.Mode, Token: r.Token, NextStep: r.NextStep, Paused: r.Paused, Held: held}
}

// Place returns where the conversation is: its turns without the detours. A session that was parked and resumed is where it
// was, so what is said there again has the same key and what was held there still counts.
func (r Record) Place() int { return r.Turn - r.Detours }

// Entry is one line of a session's timeline.
type Entry struct {
	At        time.Time
	Kind      Kind
	From, To  Token // equal, or both empty, when the token did not change
	Trigger   Trigger
	Step      StepID
	MessageID string // in or out; empty when there is none
	Detail    string
	Actor     *string   // of an entry that is read: who made the call that caused it, as it is stored; nil when none did
	AskedAt   time.Time // of a message that was sent: since when a reply may answer it; zero for every other entry
}

// Triggers of what happens to a session without a transition of its token.
const (
	TriggerReply    Trigger = "reply"    // a reply that answers nothing
	TriggerStep     Trigger = "step"     // a step that could not be sent
	TriggerStop     Trigger = "stop"     // the person texted STOP
	TriggerOperator Trigger = "operator" // a person with one of our tokens
	TriggerQStash   Trigger = "qstash"   // an alarm that QStash gave up
)

// Kind is the subject of an Entry.
type Kind string

// The kinds of entries.
const (
	KindActivated Kind = "activated" // the session was opened
	KindSent      Kind = "sent"      // Twilio took one of our texts
	KindReplied   Kind = "replied"   // the person wrote
	KindHeld      Kind = "held"      // the person wrote while nothing may be answered; kept
	KindAdvanced  Kind = "advanced"  // the token or the due step changed
	KindPaused    Kind = "paused"    // the person asked for later
	KindStopped   Kind = "stopped"   // the person opted out
	KindParked    Kind = "parked"    // an operator has to act; detail says why
	KindClosed    Kind = "closed"    // an operator closed it
	KindFailed    Kind = "failed"    // QStash gave an alarm up
	KindReleased  Kind = "released"  // a hold was lifted
	KindResumed   Kind = "resumed"   // an operator made a parked session active again
	KindReplayed  Kind = "replayed"  // an operator set an alarm again that QStash gave up, or had a step sent before it was due
	KindForgotten Kind = "forgotten" // the timeline up to here is past its retention; the only entry then
	KindWaiting   Kind = "waiting"   // the due text waits: for the receipt of the one before it, for the end of quiet hours, or of a pause
)

// Move is one guarded change of a session. It takes effect only if the session still stands where From saw it, together
// with its timeline, the alarm that follows from it and the end of the job that caused it; or not at all.
type Move struct {
	From     Record
	Token    Token
	NextStep StepID
	Mode     Mode
	Status   Status
	Reason   string
	Paused   bool
	At       time.Time
	Entries  []Entry
	Alarm    *Alarm // the next alarm, if a step is due now
	Rang     *Alarm // the alarm that this process kept and rang; it is deleted
	Settled  bool   // nothing is left to do of the job that causes it: a resume does not take it up again
	// Position is the new place in a published flow, and Learnt has the fields that the flow learnt.
	Position flow.State
	Learnt   []Field
	SilentAt time.Time // a silence is acted on then; zero for never
	Calls    bool      // the host application is called now
	Starts   string    // the flow that follows this one
	Outcome  string    // of the flow, which is over
	// Ticket is opened for the person; nil for none.
	Ticket *flow.OpenTicket
	// Anew says that the conversation goes on in a new place, although nothing but its parking ends.
	Anew bool
	// AnswerHeldSince routes the last reply that was held after this instant, as the answer to what has been said
	// last. Zero routes none.
	AnswerHeldSince time.Time
}

// Field is a value that a flow learnt of a person.
type Field struct {
	Name    string     `json:"name"`
	Value   flow.Value `json:"value"`
	Private bool       `json:"private"`
}

// FollowAt returns when the service has to do something about the session by itself after this move: act on a silence, call the host
// application, or start the flow that follows. Zero is never.
func (m Move) FollowAt() time.Time {
	if m.Calls || m.Starts != "" {
		return m.At
	}
	return m.SilentAt
}

// Stay is a move that changes nothing but what is set on it afterwards.
func Stay(r Record, at time.Time) Move {
	return Move{
		From: r, Token: r.Token, NextStep: r.NextStep, Mode: r.Mode, Status: r.Status, Reason: r.Reason, Paused: r.Paused, At: at,
		Position: r.At,
	}
}

// Stop ends the session because the person opted out. What was due is not due any more.
func Stop(r Record, at time.Time, trigger Trigger, messageID string) Move {
	m := Stay(r, at)
	m.Status, m.Reason = Stopped, "the person opted out"
	m.Entries = []Entry{{At: at, Kind: KindStopped, From: r.Token, To: r.Token, Trigger: trigger, Step: r.NextStep, MessageID: messageID}}
	return m
}

// Park takes the session out of the flow until an operator has looked; reason says what happened and what to do, and
// messageID names the message that it happened to, if one.
func Park(r Record, at time.Time, status Status, trigger Trigger, messageID, reason string) Move {
	m := Stay(r, at)
	m.Status, m.Reason = status, reason
	m.Entries = []Entry{{
		At: at, Kind: KindParked, From: r.Token, To: r.Token, Trigger: trigger, Step: r.NextStep, MessageID: messageID, Detail: reason,
	}}
	return m
}

// ThenResume ends the reason of a parked session: what to do once all is mended.
func ThenResume(sessionID string) string { return "then POST /v1/sessions/" + sessionID + ":resume" }

// Resume takes a parked session back into the flow, where it was; all that it lacks is set by the caller.
func Resume(r Record, by Trigger, at time.Time) Move {
	m := Stay(r, at)
	m.Status, m.Reason = Active, ""
	m.Entries = []Entry{{At: at, Kind: KindResumed, From: r.Token, To: r.Token, Trigger: by, Step: r.NextStep}}
	return m
}
