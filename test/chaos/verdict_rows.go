package chaos

import (
	"context"
	"fmt"
	"time"

	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/onboarding/engagement/rules"
)

const sqlOpenJobs = `
select id::text, event_type, status from webhook_jobs where status in ('pending', 'processing')`

const sqlOpenAlarms = `
select a.id::text, a.step_id from step_alarms a where a.published_at is null`

// examineRows looks for what was left lying about.
func (c *population) examineRows(ctx context.Context, v *Verdict) error {
	var id, kind, status string
	if err := each(ctx, c.onboardingDB, sqlOpenJobs, []any{&id, &kind, &status}, func() {
		v.breakf(&v.OrphanRows, "job %s (%s) is still %s", id, kind, status)
	}); err != nil {
		return fmt.Errorf("read jobs: %w", err)
	}
	if err := each(ctx, c.onboardingDB, sqlOpenAlarms, []any{&id, &kind}, func() {
		v.breakf(&v.OrphanRows, "alarm %s (%s) was never published", id, kind)
	}); err != nil {
		return fmt.Errorf("read alarms: %w", err)
	}
	return c.unanswered(ctx, v)
}

// Replies without an answer: the person's last ordinary text is younger than our last text, in a session that
// waits for exactly that. A job that is still open is counted with the orphan rows.
const sqlOrdinary = `
select from_number, body, created_at from sms_messages where direction = 'inbound' and consent_effect = 'none' order by created_at`

const sqlWaiting = `
select s.id::text, p.phone, max(t.at) from conversation_sessions s
join profiles p on p.id = s.profile_id
join session_transitions t on t.session_id = s.id and t.kind in ('sent', 'activated')
where s.status = 'active' and s.mode = 'onboarding' and s.next_step_id is null and s.paused_at is null and not p.hold
group by 1, 2`

// unanswered finds active sessions that wait for a reply which the person has given.
func (c *population) unanswered(ctx context.Context, v *Verdict) error {
	wrote := map[string]time.Time{}
	var phone, id, body string
	var at time.Time
	if err := each(ctx, c.messagingDB, sqlOrdinary, []any{&phone, &body, &at}, func() {
		if _, moves := rules.ParseDestination(body); !moves && !consent.PreferencesOf(body).Any() { // those are no replies
			wrote[phone] = at
		}
	}); err != nil {
		return fmt.Errorf("read inbound messages: %w", err)
	}
	if err := each(ctx, c.onboardingDB, sqlWaiting, []any{&id, &phone, &at}, func() {
		if wrote[phone].After(at) {
			v.breakf(&v.Stranded, "session %s waits for a reply that the person gave at %s", id, wrote[phone].Format(time.RFC3339Nano))
		}
	}); err != nil {
		return fmt.Errorf("read waiting sessions: %w", err)
	}
	return nil
}

const sqlConsents = `select phone, state from consents`

// examinePeople compares what the people know with what is stored. They say nothing any more, so the last word of each has to hold, and
// one who waits has to have been asked something.
func (c *population) examinePeople(ctx context.Context, episodes []*episode, v *Verdict) error {
	holds := map[string]consent.State{}
	var phone string
	var state consent.State
	if err := each(ctx, c.messagingDB, sqlConsents, []any{&phone, &state}, func() { holds[phone] = state }); err != nil {
		return fmt.Errorf("read consents: %w", err)
	}
	waits := map[string]bool{}
	for _, s := range episodes {
		waits[s.ID] = s.end() == waitsForPerson
	}
	for _, p := range c.cast {
		p.mu.Lock()
		if p.wish != "" && holds[p.phone] != p.wish {
			v.breakf(&v.ConsentErrors, "person %d is %s, and what they said last means %s", p.i, holds[p.phone], p.wish)
		}
		if p.pending > 0 {
			v.breakf(&v.Unfinished, "person %d still waited when the time was over; their session is %s", p.i, p.session)
		}
		if p.spoke > p.listened && waits[p.session] {
			v.breakf(&v.Stranded, "session %s waits for person %d, who said something that was acknowledged and heard nothing since", p.session, p.i)
		}
		p.mu.Unlock()
	}
	return nil
}
