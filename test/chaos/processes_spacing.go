package chaos

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/services/onboarding/session"
)

const sqlSteps = `select id::text, idempotency_key from sms_messages where direction = 'outbound' and idempotency_key like 'onboarding:%'`

// sent is when Twilio took the text of a step, and the row that it was sent for.
type sent struct {
	row string
	at  time.Time
}

// measureSpacing compares every gap of a burst with the flow. A gap is disturbed when somebody was down, or a vendor did
// something wrong about it, at any time from its beginning to its end.
func (s *site) measureSpacing(ctx context.Context, r *ProcessReport) error {
	steps, err := s.steps(ctx)
	if err != nil {
		return err
	}
	outages := s.outages.list()
	var all, undisturbed []time.Duration
	flow := s.flow.Steps()
	for sessionID, texts := range steps {
		for i := 1; i < len(flow); i++ {
			from, hasFrom := texts[flow[i-1].ID]
			to, hasTo := texts[flow[i].ID]
			if !hasFrom || !hasTo {
				continue
			}
			over := to.at.Sub(from.at) - flow[i].Delay
			all = append(all, over)
			if !struckWithin(outages, from.at, to.at) && !s.quietWithin(from.at, to.at) &&
				!s.faults.disturbed(sessionID, string(flow[i].ID), to.row) &&
				!s.faults.disturbed(sessionID, string(flow[i-1].ID), from.row) {
				undisturbed = append(undisturbed, over)
			}
		}
	}
	r.SpacingAll, r.SpacingUndisturbed = spreadOf(all), spreadOf(undisturbed)
	s.measureSilences(steps, r)
	return nil
}

// steps is when the text of each step was first taken, by session.
func (s *site) steps(ctx context.Context) (map[string]map[session.StepID]sent, error) {
	first := map[string]time.Time{}
	for _, m := range s.witness.Texts() {
		if _, again := first[rowOf(m)]; !again {
			first[rowOf(m)] = m.CreatedAt
		}
	}
	rows, err := s.messaging.Query(ctx, sqlSteps)
	if err != nil {
		return nil, fmt.Errorf("read messages: %w", err)
	}
	steps := map[string]map[session.StepID]sent{}
	var row, key string
	_, err = pgx.ForEachRow(rows, []any{&row, &key}, func() error {
		at, taken := first[row]
		parts := strings.SplitN(key, ":", 4) // onboarding, profile, session, step
		if !taken || len(parts) != 4 {
			return nil
		}
		if steps[parts[2]] == nil {
			steps[parts[2]] = map[session.StepID]sent{}
		}
		steps[parts[2]][session.StepID(parts[3])] = sent{row: row, at: at}
		return nil
	})
	return steps, err
}

// struckWithin reports whether anybody was down between two instants.
func struckWithin(outages []outage, from, to time.Time) bool {
	for _, o := range outages {
		over := o.ready.IsZero() || !o.ready.Before(from)
		if over && o.at.Before(to) {
			return true
		}
	}
	return false
}
