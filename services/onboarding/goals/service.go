package goals

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"paceline.internal/platform/outbox"
	"paceline.internal/platform/qstash"
	"paceline.internal/services/onboarding/goals/timeparse"
)

// Route has the addresses to which QStash delivers the alarms of goals: two callbacks of the gateway.
var Route = qstash.Route{Path: "/api/goals/execute", FailurePath: "/api/goals/execute/failed", Label: "goal"}

// Limits of one person.
const (
	MaxOpen      = 100 // open goals
	MaxTextDaily = 20  // new goals by text in 24 hours
)

const (
	// tolerance is the time by which an alarm may come early and still counts: QStash's clock and ours differ.
	tolerance = 2 * time.Second
	// awaitBegin is the time that an alarm waits for the device's node to begin the goal.
	awaitBegin = 5 * time.Second
	// CallWindow is the time after its alarm in which a goal may begin: a device that comes back later gets it by the next try.
	CallWindow = 10 * time.Second
	// MaxBusy is the time that a goal waits for its device to be free.
	MaxBusy = time.Hour
	// lookAgain bounds how long a waiting alarm trusts that it will be notified.
	lookAgain = time.Second
	// lookSoon and lookLate are the shortest and the longest wait before a goal looks again at a burst.
	lookSoon, lookLate = 10 * time.Second, 5 * time.Minute
	// deleteTimeout bounds the withdrawal of an alarm, which changes nothing but a call less.
	deleteTimeout = 2 * time.Second
)

// store keeps goals. Each method is one guarded statement, or one transaction. Store implements it and documents each, and the crash
// matrix puts one in its place that fails at the k-th call.
type store interface { //nolint:interfacebloat // each is one intention
	Prepare(ctx context.Context, n New) (Prepared, error)
	Insert(ctx context.Context, g Goal, a Alarm) (stored Goal, duplicate bool, err error)
	Reading(ctx context.Context, n New) (*timeparse.Reading, error)
	KeepReading(ctx context.Context, n New, read timeparse.Reading, at time.Time) (*timeparse.Reading, error)
	Goal(ctx context.Context, orgID, goalID string, now time.Time) (Situation, error)

	DoneBy(ctx context.Context, profileID, messageID string) (done *Goal, texts []byte, err error)
	ByText(ctx context.Context, profileID string, since time.Time) ([]Goal, error)

	Offline(ctx context.Context, g Goal, at time.Time) error
	Busy(ctx context.Context, g Goal, at time.Time) error
	Waits(ctx context.Context, g Goal, at time.Time) error
	Call(ctx context.Context, g Goal, at time.Time) error
	BeginPhone(ctx context.Context, g Goal, runID string, at time.Time) error
	End(ctx context.Context, e End) (bool, error)
	Fail(ctx context.Context, g Goal, reason, actor string, at time.Time) error
	FailedAlarm(ctx context.Context, goalID, messageID string, at time.Time) (bool, error)

	Cancel(ctx context.Context, goalID, actor string, at time.Time) (g Goal, messageID string, err error)
	Reschedule(ctx context.Context, g Goal, a Alarm, actor string, at time.Time) (stored Goal, set Alarm, messageID string, err error)
	AskStop(ctx context.Context, goalID, actor string, at time.Time) (Goal, error)

	Overdue(ctx context.Context, p Patience, limit int, now time.Time) ([]Overdue, error)
	Rearm(ctx context.Context, g Goal, a Alarm, at time.Time) error
	PutBack(ctx context.Context, g Goal, a Alarm, at time.Time) error
}

// messages deletes what was published; qstash.Client implements it.
type messages interface {
	Delete(ctx context.Context, messageID string) error
}

// reader is a model that reads what the rules cannot; classifier.Client implements it.
type reader interface {
	Reads(orgID string) bool
	Read(ctx context.Context, text, locale string, zone *time.Location, now time.Time) (timeparse.Reading, error)
}

// Config configures a Service.
type Config struct {
	Store  store
	Outbox outbox.Rows[Alarm]
	QStash outbox.Publisher
	// Messages withdraws what was published.
	Messages messages
	Reader   reader // nil reads by the rules alone
	Phone    phoneRunner
	// Reach bounds the time until an alarm that the scheduler's plan accepts; those of later goals wait in the outbox.
	Reach time.Duration
	// RunLease bounds the silence of a run, and RunLimit its length.
	RunLease, RunLimit time.Duration
	Disabled           bool // alarms are recorded and not published
	// Begin starts the span of a publish.
	Begin   func(ctx context.Context, a Alarm) (context.Context, func())
	Metrics *Metrics
	Log     *slog.Logger
	Now     func() time.Time
}

// MaxAhead bounds the time until a goal: a leap year.
const (
	daysAhead = 366
	MaxAhead  = daysAhead * 24 * time.Hour
)

// Service creates, moves and ends goals.
type Service struct {
	Config

	Alarms *outbox.Outbox[Alarm]

	mu    sync.Mutex
	moved chan struct{} // closed and replaced whenever some goal may have moved
}

// NewService wires a service.
func NewService(cfg Config) *Service {
	s := &Service{Config: cfg, moved: make(chan struct{})}
	s.Alarms = &outbox.Outbox[Alarm]{
		Name: "goal_alarms", Rows: cfg.Outbox, QStash: cfg.QStash, Job: job, Begin: cfg.Begin,
		Reach: cfg.Reach, Disabled: cfg.Disabled, Log: cfg.Log, Now: cfg.Now,
		Attrs: func(a Alarm) []any { return []any{"goal_id", a.GoalID, "generation", a.Generation} },
	}
	return s
}

// job makes the message that QStash delivers: the goal's id and nothing else. Its identity is goal-{goal_id}-{generation}.
func job(a Alarm) (qstash.Job, error) {
	body, err := json.Marshal(struct {
		GoalID string `json:"goal_id"`
	}{a.GoalID})
	if err != nil {
		return qstash.Job{}, fmt.Errorf("encode alarm: %w", err)
	}
	id, err := qstash.NewDedupID("goal", a.GoalID, strconv.Itoa(a.Generation))
	return qstash.Job{OrgID: a.OrgID, Lost: a.Cause == "overdue", Route: Route, DedupID: id, Body: body, Due: a.DueAt}, err
}

// Moved tells the alarms that wait here that some goal may have moved.
func (s *Service) Moved() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.moved)
	s.moved = make(chan struct{})
}

func (s *Service) nextMove() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.moved
}

// withdraw deletes an alarm at QStash, as far as that is possible: one that comes all the same finds the goal moved.
func (s *Service) withdraw(ctx context.Context, g Goal, messageID string) {
	if messageID == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteTimeout)
	defer cancel()
	if err := s.Messages.Delete(ctx, messageID); err != nil {
		s.Log.WarnContext(ctx, "goals.alarm_not_withdrawn", "goal_id", g.ID, "error", err)
	}
}

// unmoved turns the conflict of a goal that moved meanwhile into nothing, for whom that is as good.
func unmoved(err error) error {
	if errors.Is(err, ErrConflict) {
		return nil
	}
	return err
}
