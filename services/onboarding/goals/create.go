package goals

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"paceline.internal/platform/letters"
	"paceline.internal/services/onboarding/goals/timeparse"
)

// MaxSaid bounds what is said, in characters.
const MaxSaid = 1000

// New is a goal as it was said.
type New struct {
	OrgID     string
	ProfileID string
	DeviceID  string // empty is the person's phone
	Said      string
	At        time.Time      // when, instead of words of time; zero reads the words
	Zone      *time.Location // that the words are meant in; nil is the person's
	Source    Source
	Key       string    // with its source's prefix
	SaidAt    time.Time // when it reached us; zero is now
	Near      time.Time // of a goal that the words move: an hour without a day is one of this day; zero of a new goal
	UndoOf    string    // a cancelled goal to bring back instead
	By        string    // the actor
}

// Prepared has what decides about a new goal.
type Prepared struct {
	Owner    Owner
	Device   Device // a phone that is not made yet has no id
	Existing *Goal  // that the key has already
	UndoOf   *Goal
}

// Create reads when a goal is meant, and schedules it. The same key again returns the goal that there is. Errors: ErrInvalid, ErrNoOwner,
// ErrNoDevice, ErrNoGoal, *StatusError of UndoOf, *UnclearError, ErrPast, ErrNoTime, ErrTooFar, ErrTooMany, ErrKeyReused.
func (s *Service) Create(ctx context.Context, n New) (g Goal, duplicate bool, err error) {
	if n.SaidAt.IsZero() {
		n.SaidAt = s.Now()
	}
	n.Said = letters.Compose(n.Said)
	if err := n.check(); err != nil {
		return Goal{}, false, err
	}
	p, err := s.Store.Prepare(ctx, n)
	if err != nil {
		return Goal{}, false, err
	}
	if p.Existing != nil {
		return sameGoal(*p.Existing, n)
	}
	if g, err = s.read(ctx, n, p); err != nil {
		return Goal{}, false, err
	}
	if n.UndoOf == "" && g.Understood != "" && asksNothing(g.Goal, n.Source) {
		return Goal{}, false, fmt.Errorf("%w: goal has a time and nothing to do; say both, as in \"call Ana in 20 minutes\"", ErrInvalid)
	}
	a := Alarm{
		ID: newID(), OrgID: g.OrgID, GoalID: g.ID, Generation: 1, Cause: "due", DueAt: g.ScheduledFor, LeaseToken: uuid.NewString(),
	}
	stored, duplicate, err := s.Store.Insert(ctx, g, a)
	if err != nil {
		return Goal{}, false, err
	}
	if duplicate {
		return sameGoal(stored, n)
	}
	s.publish(ctx, stored, a)
	return stored, false, nil
}

func (n New) check() error {
	length := utf8.RuneCountInString(n.Said)
	switch {
	case n.UndoOf != "" && (n.Said != "" || n.DeviceID != "" || !n.At.IsZero()):
		return fmt.Errorf("%w: undo_of brings back a goal as it was; leave goal, device_id and scheduled_for out", ErrInvalid)
	case n.UndoOf == "" && (strings.TrimSpace(n.Said) == "" || length > MaxSaid):
		return fmt.Errorf("%w: goal must have 1 to %d characters", ErrInvalid, MaxSaid)
	case !utf8.ValidString(n.Said) || strings.ContainsRune(n.Said, 0):
		return fmt.Errorf("%w: goal must be text", ErrInvalid)
	}
	return nil
}

// read makes the goal of what was said.
func (s *Service) read(ctx context.Context, n New, p Prepared) (Goal, error) {
	g := Goal{
		ID: newID(), OrgID: n.OrgID, ProfileID: n.ProfileID, DeviceID: p.Device.ID, Kind: p.Device.Kind, Source: n.Source, Key: n.Key,
		Said: n.Said, Goal: n.Said, Locale: p.Owner.Locale, Status: Scheduled, ScheduledFor: n.SaidAt.Truncate(time.Second),
		UndoOf: n.UndoOf, CreatedBy: n.By, CreatedAt: s.Now(),
	}
	switch {
	case p.UndoOf != nil:
		if p.UndoOf.Status != Cancelled {
			return Goal{}, &StatusError{Status: p.UndoOf.Status, StartedAt: p.UndoOf.StartedAt}
		}
		g.Said, g.Goal, g.Understood, g.Note = p.UndoOf.Said, p.UndoOf.Goal, p.UndoOf.Understood, p.UndoOf.Note
		g.ScheduledFor, g.Source = p.UndoOf.ScheduledFor, p.UndoOf.Source
		if !g.ScheduledFor.After(n.SaidAt) {
			return Goal{}, ErrPast
		}
	case !n.At.IsZero():
		if n.At.Before(n.SaidAt.Truncate(time.Second)) {
			return Goal{}, ErrPast
		}
		g.ScheduledFor = n.At.Truncate(time.Second)
	default:
		zone := n.Zone
		if zone == nil {
			zone = p.Owner.Zone
		}
		if err := s.readWords(ctx, &g, n, zone); err != nil {
			return Goal{}, err
		}
	}
	if g.ScheduledFor.After(g.CreatedAt.Add(MaxAhead)) { // too far to be meant
		return Goal{}, ErrTooFar
	}
	g.Delay = max(0, g.ScheduledFor.Sub(n.SaidAt.Truncate(time.Second)))
	return g, nil
}

// readWords sets the goal's time by its words: by the rules, and where they leave it unclear by a model, if there is one. Words of time
// alone, which a goal is moved by, leave nothing to do.
func (s *Service) readWords(ctx context.Context, g *Goal, n New, zone *time.Location) error {
	read := timeparse.Read(n.Said, g.Locale, zone, n.SaidAt)
	if !n.Near.IsZero() {
		read = onItsDay(read, n.Said, g.Locale, zone, n.Near, n.SaidAt)
	}
	if read.Kind == timeparse.Unclear && !read.Past && s.Reader != nil && s.Reader.Reads(n.OrgID) {
		asked, err := s.ask(ctx, n, g.Locale, zone)
		if err != nil {
			return err
		}
		if asked != nil {
			read = *asked
		}
	}
	switch {
	case read.Past:
		return ErrPast
	case read.Kind == timeparse.Unclear:
		return &UnclearError{Understood: read.Understood}
	case read.Kind == timeparse.None && g.Kind == Phone:
		return ErrNoTime
	case read.Kind == timeparse.None:
		return nil
	}
	g.ScheduledFor, g.Goal, g.Understood, g.Note = read.At, read.Goal, read.Understood, read.Note
	if n.Source == SourceText {
		g.Goal = spoken(g.Goal)
	}
	return nil
}

// ask asks the model once: what it read is kept under the key, and a repeat does not ask again. A failure of the model leaves it to the
// rules.
func (s *Service) ask(ctx context.Context, n New, locale string, zone *time.Location) (*timeparse.Reading, error) {
	kept, err := s.Store.Reading(ctx, n)
	if err != nil || kept != nil {
		return kept, err
	}
	read, err := s.Reader.Read(ctx, n.Said, locale, zone, n.SaidAt)
	if err != nil {
		s.Log.WarnContext(ctx, "goals.model_failed", "error", err)
		return nil, nil //nolint:nilnil // then the rules decide
	}
	return s.Store.KeepReading(ctx, n, read, s.Now())
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }
