package onboarding

import (
	"context"
	"fmt"
	"strings"
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
func lookAtAlarms(ctx context.Context, cfg Config, pool *postgres.Pool) (string, error) {
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

const sqlPausedOrganisations = `select count(*), min(paused_at) from scheduling_pauses`

// lookAtScheduling names what has been switched off by hand: people wait for texts, and nothing else says why.
func lookAtScheduling(ctx context.Context, cfg Config, pool *postgres.Pool) (string, error) {
	var paused int
	var since *time.Time
	if err := pool.QueryRow(ctx, sqlPausedOrganisations).Scan(&paused, &since); err != nil {
		return "", process.AfterDatabase(err)
	}
	var off []string
	if cfg.SchedulingDisabled {
		off = append(off, "ONBOARDING_SCHEDULING_DISABLED is set: alarms are recorded, and none rings, so no step is sent")
	}
	if paused > 0 {
		off = append(off, fmt.Sprintf("the scheduling of %d organisations is paused (POST /v1/scheduling:pause), of the first since %s",
			paused, since.UTC().Format(time.RFC3339)))
	}
	if len(off) > 0 {
		return "", process.Warn("%s", strings.Join(off, "; "))
	}
	return "is on, and no organisation has paused it", nil
}
