package flows

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/session"
)

// ErrVersionMove is wrapped by every refusal to move sessions to another version; the text says what to change.
var ErrVersionMove = errors.New("the sessions cannot be moved")

// VersionMove asks to move the sessions of a version that wait for a reply to another version, by a map from step to step.
type VersionMove struct {
	Flow, From, To string
	Steps          map[string]string
	DryRun         bool
}

// Mover moves sessions to another version of their flow.
type Mover struct {
	Store *Store
	Now   func() time.Time
}

// VersionMoved counts the open sessions of the version. Moved are those that were moved, or of a dry run would be.
type VersionMoved struct {
	Moved     int
	Busy      int  // at a step of the map, while something is worked on for their person
	Unmapped  int  // that wait at other steps
	Elsewhere int  // that wait for no reply: a text is due, a call, or an operator has them
	More      bool // the time was over: the same request again moves the rest
}

// stepMove is one pair of the map, with what the session becomes.
type stepMove struct {
	from, to string
	token    session.Token
	silence  time.Duration // after which the step acts on a silence; 0 for never
}

const (
	// movesFor bounds one request; each page is committed by itself.
	movesFor = 10 * time.Second
	// movingFor bounds the announcement of a move, for a process that dies before it moves anything. The move itself has to begin early in
	// it: clocks of processes differ.
	movingFor, movesWithin = 30 * time.Second, 10 * time.Second
)

// Move moves sessions to another version of their flow. A text that is on its way stays in its version: only sessions that wait for
// a reply are moved. Errors: flow.ErrNotFound, ErrVersionMove.
func (v *Mover) Move(ctx context.Context, orgID string, m VersionMove) (done VersionMoved, err error) {
	if err := m.check(); err != nil {
		return done, err
	}
	was, err := v.Store.Version(ctx, orgID, m.Flow, m.From)
	if err != nil {
		return done, err
	}
	is, err := v.Store.Version(ctx, orgID, m.Flow, m.To)
	if err != nil {
		return done, err
	}
	steps, err := stepMoves(&was, &is, m)
	if err != nil {
		return done, err
	}
	if !m.DryRun {
		if done.Moved, done.More, err = v.movePages(ctx, orgID, m, steps); err != nil {
			return done, err
		}
	}
	left, err := v.Store.CountVersion(ctx, orgID, m, steps)
	if m.DryRun {
		done.Moved = left.Moved
	}
	done.Busy, done.Unmapped, done.Elsewhere = left.Busy, left.Unmapped, left.Elsewhere
	return done, err
}

// movePages moves page after page. A move is announced before it is made: a reply that is read before that has an open job, and its session
// stays; one that is read after it waits, and is answered by the new version. So no reply is answered by both.
func (v *Mover) movePages(ctx context.Context, orgID string, m VersionMove, steps []stepMove) (moved int, more bool, err error) {
	after := ""
	for until := v.Now().Add(movesFor); ; {
		now := v.Now()
		page, err := v.Store.MarkVersion(ctx, orgID, m, steps, after, now, now.Add(movingFor))
		if err != nil || len(page.IDs) == 0 {
			return moved, false, err
		}
		after = slices.Max(page.IDs)
		if v.Now().Before(now.Add(movesWithin)) {
			n, err := v.Store.MoveVersion(ctx, orgID, m, steps, page, v.Now())
			if moved += n; err != nil {
				return moved, false, err
			}
		}
		if !v.Now().Before(until) {
			return moved, true, nil
		}
	}
}

// check refuses a request that lacks something; ErrVersionMove.
func (m VersionMove) check() error {
	var problem string
	switch {
	case m.From == "":
		problem = "from_version is missing"
	case m.To == "":
		problem = "to_version is missing"
	case m.From == m.To:
		problem = "from_version and to_version are the same"
	case len(m.Steps) == 0:
		problem = `steps is empty; name each step that waits and its new one, such as {"ask": "ask_again"}`
	default:
		return nil
	}
	return fmt.Errorf("%w: %s", ErrVersionMove, problem)
}

// stepMoves holds the map to the steps of both versions, and names everything that is wrong.
func stepMoves(was, is *flow.Flow, m VersionMove) (steps []stepMove, err error) {
	var problems []string
	for _, from := range slices.Sorted(maps.Keys(m.Steps)) {
		to := m.Steps[from]
		if !was.Steps[from].Waits {
			problems = append(problems, fmt.Sprintf("steps: %.64q is no step of from_version that waits for a reply; these do: %s",
				from, repliedTo(was)))
		}
		next := is.Steps[to]
		if !next.Waits {
			problems = append(problems, fmt.Sprintf("steps: %.64q is no step of to_version that waits for a reply; these do: %s", to, repliedTo(is)))
		}
		move := stepMove{from: from, to: to, token: session.Token(next.State)}
		if next.Silence != nil {
			move.silence = next.Silence.After
		}
		steps = append(steps, move)
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("%w: %s", ErrVersionMove, strings.Join(problems, "; "))
	}
	return steps, nil
}

// repliedTo lists the steps of a flow that wait for a reply.
func repliedTo(f *flow.Flow) string {
	var all []string
	for _, id := range f.Order {
		if f.Steps[id].Waits {
			all = append(all, id)
		}
	}
	return strings.Join(all, ", ")
}
