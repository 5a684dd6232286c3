package conversation

import (
	"paceline.internal/platform/outbox"
	"paceline.internal/platform/postgres"
	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// Channels on which the store notifies of work that no request does itself.
const (
	ChannelAlarms = "step_alarms"
	ChannelJobs   = "webhook_jobs"
)

// Store keeps sessions, their timelines and alarms, dead letters, and jobs. Every time that a statement uses is handed in.
type Store struct {
	people *people.Store
	pool   postgres.DB
	hot    *postgres.Combiner // of what every step does
	alarms *outbox.Store[session.Alarm]
	jobs   *queue.Queue
	intake *queue.Intake
}

// NewStore returns a store on an open pool, and has the store of people follow holds in it.
func NewStore(pool postgres.DB, of *people.Store) *Store {
	jobs := tableOfJobs(pool)
	s := &Store{
		people: of, pool: pool, hot: postgres.NewCombiner(pool), alarms: stepAlarms(pool), jobs: jobs, intake: queue.NewIntake(jobs),
	}
	of.Sessions = s
	return s
}

// Hot returns the combiner of the statements that every step and every reply needs.
func (s *Store) Hot() *postgres.Combiner { return s.hot }

// Waited returns how many steps and replies came while another waited for the database.
func (s *Store) Waited() int { return s.hot.Waited() }
