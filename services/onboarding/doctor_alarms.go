package onboarding

import (
	"context"
	"fmt"
	"time"

	"paceline.internal/platform/alarms"
	"paceline.internal/platform/postgres"
	"paceline.internal/platform/process"
	"paceline.internal/platform/qstash"
)

func lookAtQStash(ctx context.Context, cfg Config) (string, error) {
	if cfg.Alarms == alarmsPostgres {
		return "is not used: the database rings the alarms (ALARMS=postgres)", nil
	}
	client, err := qstash.New(qstash.Config{URL: cfg.QStashURL.String(), Token: cfg.QStashToken.Reveal()})
	if err != nil {
		return "", err
	}
	if _, err := client.Keys(ctx); err != nil {
		return "", err
	}
	return "the token is accepted at " + cfg.QStashURL.String(), nil
}

const (
	// lateAlarm is the time after which an alarm of the database that has not rung is overdue: its process would have rung it within a second.
	lateAlarm = time.Minute
	// countedAlarms bounds what is counted of them.
	countedAlarms = 10_000
)

// lookAtAlarms finds alarms of the database that no process rings, with any engine: some may be left from before a change.
func lookAtAlarms(ctx context.Context, cfg Config) (string, error) {
	pool, err := postgres.OpenFor(ctx, name, cfg.database())
	if err != nil {
		return "", process.AfterDatabase(err)
	}
	defer pool.Close()
	g, err := alarms.NewQueue(pool).GaugesUpTo(ctx, time.Now(), countedAlarms) //nolint:forbidigo // it is the real state that is looked at
	if err != nil {
		return "", process.AfterDatabase(err)
	}
	oldest := time.Duration(g.OldestDueSeconds * float64(time.Second))
	if oldest > lateAlarm && cfg.SchedulingDisabled {
		return "", process.Warn("%d alarms of the database wait for the end of ONBOARDING_SCHEDULING_DISABLED, the oldest for %s",
			g.Backlog, oldest.Round(time.Second))
	}
	if oldest > lateAlarm {
		return "", fmt.Errorf("%d alarms of the database are due and do not ring, the oldest for %s", g.Backlog, oldest.Round(time.Second))
	}
	return fmt.Sprintf("ALARMS=%s; the database has %d that are due later, and %d that are due", cfg.Alarms, g.Scheduled, g.Backlog), nil
}
