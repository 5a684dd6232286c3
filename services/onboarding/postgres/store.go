// Package postgres is onboarding's store: intentions that own their transaction, in plain SQL beside their caller.
package postgres

import (
	"paceline.internal/platform/hours"
	"paceline.internal/platform/outbox"
	"paceline.internal/platform/postgres"
	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/schema"
	"paceline.internal/services/onboarding/session"
)

// Migrations is schema.Migrations.
func Migrations() postgres.Migrations { return schema.Migrations() }

// Channels on which the store notifies of work that no request does itself.
const (
	ChannelAlarms = "step_alarms"
	ChannelJobs   = "webhook_jobs"
)

// Store holds the pool. Every time that a statement uses is handed in.
type Store struct {
	// QuietByDefault is when a conversation may begin with people of an organisation that has decided nothing; the zero value is always.
	QuietByDefault hours.Window

	pool   postgres.DB
	hot    *postgres.Combiner // of what every step does
	alarms *outbox.Store[session.Alarm]
	jobs   *queue.Queue
	intake *queue.Intake
}

// NewStore returns a store on an open pool.
func NewStore(pool postgres.DB) *Store {
	jobs := tableOfJobs(pool)
	return &Store{
		pool: pool, hot: postgres.NewCombiner(pool), alarms: stepAlarms(pool), jobs: jobs, intake: queue.NewIntake(jobs),
	}
}

// Waited is how many steps and replies have had to wait for others so far, before the database took them.
func (s *Store) Waited() int { return s.hot.Waited() }
