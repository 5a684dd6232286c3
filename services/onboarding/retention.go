package onboarding

import (
	"time"

	"paceline.internal/platform/retention"
	"paceline.internal/services/onboarding/apikeys"
	"paceline.internal/services/onboarding/engagement"
	"paceline.internal/services/onboarding/events"
	"paceline.internal/services/onboarding/flows"
	"paceline.internal/services/onboarding/goals"
	"paceline.internal/services/onboarding/session"
)

// Kept has the time for which the environment has rows of each kind kept that are over.
type Kept struct{ Messages, Timeline, Alarms, Engagement, Goals, Jobs, Events, Audit time.Duration }

// TimelineDeleted stands in a timeline after it was deleted.
const TimelineDeleted = "what was here is past its retention and was deleted"

// sqlForgetTimeline leaves one line where the timeline of an ended session was: so its reader knows that there was one.
const sqlForgetTimeline = `update conversation_sessions r set timeline_deleted_at = @now
    where r.ctid = any (array(select place from free)) returning r.id
), lines as (
    delete from session_transitions t using gone where t.session_id = gone.id
), instead as (
    insert into session_transitions (session_id, at, kind, trigger, detail)
    select id, @now, '` + string(session.KindForgotten) + `', 'retention', '` + TimelineDeleted + `' from gone`

// sqlTakeTicketWords leaves the ticket: it goes with the timeline.
const sqlTakeTicketWords = `update tickets r set last_text = '', detail = case when r.reason = 'operator' then '' else r.detail end
    where r.ctid = any (array(select place from free)) returning 1`

// sqlSessionIsOver selects whether nothing of a session is to come any more.
const sqlSessionIsOver = `select from conversation_sessions s where s.id = r.session_id and s.ended_at is not null`

// organisation is the event until which the data of an organisation is kept.
const organisation = "the organisation goes"

// Events until which the rows of several tables are kept.
const (
	afterItsEnd = "{for} after its end"
	written     = "{for} after it was written, or with its ticket"
)

// Rules say how long each table's rows are kept. docs/security-and-privacy.md shows them, and a test knows a table without one.
func Rules(kept Kept) []retention.Rule {
	const person = "the person is erased"
	rules := []retention.Rule{
		{Table: "profiles", Holds: "phone, name, language, hold, preferences", Kept: person},
		{Table: "profile_fields", Holds: "what flows and the host application know", Kept: person},
		{Table: "household_members", Kept: person},
		{Table: "user_engagement_states", Kept: person},
		{Table: "conversation_sessions", Holds: "state and outcome, no words", Kept: person},
		{
			Table: "session_transitions", Holds: "the timeline, without words; one line stays",
			Kept:     "{for} after its session's end",
			Variable: "TIMELINE_RETENTION", Setting: retention.Timeline, For: kept.Timeline, Over: &retention.Over{
				From: "conversation_sessions", At: "ended_at", Of: "r.ended_at is not null and r.timeline_deleted_at is null", Do: sqlForgetTimeline,
			},
		},
		{
			Table:    "step_alarms",
			Kept:     "{for} after it was due, once its session is past the step",
			Variable: "ALARMS_RETENTION", Setting: retention.Alarms, For: kept.Alarms, Over: &retention.Over{
				At: "created_at", If: `r.due_at < @before and not exists (select from conversation_sessions s
                    where s.id = r.session_id and s.ended_at is null and (s.next_step_id = r.step_id or r.published_at is null))`,
			},
		},
		{
			Table: "alarm_jobs", Holds: "alarms that the database rings",
			Kept: "until it has rung; a day after it failed or was withdrawn",
		},
		{
			Table: "dead_letters", Holds: "alarms that QStash gave up",
			Kept:     "{for} after it came, once it is settled",
			Variable: "ALARMS_RETENTION", For: kept.Alarms, Over: &retention.Over{
				At: "created_at", If: `r.replayed_at < @before or r.handled_at < @before or r.session_id is null or exists (` + sqlSessionIsOver + `)`,
			},
		},
		{
			Table: "webhook_jobs", Holds: "what people wrote; longer while a held reply, a parked session or an operator needs it",
			Kept:     afterItsEnd,
			Variable: "JOBS_RETENTION", Setting: retention.Jobs, For: kept.Jobs,
		},
		{
			Table: "held_replies", Holds: "ids of jobs",
			Kept:     "{for} after it came, once its session has ended or gone on",
			Variable: "JOBS_RETENTION", For: kept.Jobs, Over: &retention.Over{
				At: "received_at", If: `exists (select from conversation_sessions s
                    where s.id = r.session_id and (s.ended_at is not null or r.turn < s.turn - s.detours))`,
			},
		},
		{
			Table: "delivery_reservations", Kept: "it is worked off, within minutes",
		},
		{
			Table: "inbound_sweeps", Kept: organisation,
		},
	}
	rules = append(rules, rulesOfTickets(kept)...)
	rules = append(rules, rulesOfOrganisations()...)
	rules = append(rules, []retention.Rule{
		{Table: "saved_replies", Kept: organisation},
		{Table: "organisation_settings", Kept: organisation},
		{Table: "settings_versions", Holds: "the last 100", Kept: organisation},
		{Table: "erasures", Holds: "who, when, at whose word; ids and a pseudonym", Kept: "never"},
		{Table: "scheduling_pauses", Kept: "the pause ends"},
	}...)
	rules = append(rules, rulesOfFlows(kept)...)
	rules = append(rules, engagement.Rules(kept.Engagement, kept.Jobs)...)
	rules = append(rules, goals.Rules(kept.Goals)...)
	rules = append(rules, events.Rules(kept.Events, kept.Jobs)...)
	rules = append(rules,
		retention.Rule{
			Table: "audit", Holds: "who changed what, which operator read whom", Kept: "{for} after the call",
			Variable: "AUDIT_RETENTION", Setting: retention.Audit, For: kept.Audit, Over: &retention.Over{At: "at"},
		},
	)
	return append(rules, rulesOfDatabases()...)
}

// rulesOfDatabases returns the rules of what is remembered of the database itself.
func rulesOfDatabases() []retention.Rule {
	return []retention.Rule{
		{Table: "histories", Holds: "the database's servers and timelines", Kept: "never"},
		{Table: "beats", Holds: "what each process counted", Kept: "30 days after the process"},
		{Table: "restores", Kept: "never"},
		{Table: "goose_db_version", Holds: "migrations", Kept: "never"},
	}
}

// rulesOfTickets returns the rules of the inbox.
func rulesOfTickets(kept Kept) []retention.Rule {
	return []retention.Rule{
		{
			Table: "tickets", Holds: "the person's last words and an operator's reason; the row stays",
			Kept:     written,
			Variable: "MESSAGES_RETENTION", Setting: retention.Messages, For: kept.Messages, Over: &retention.Over{
				At: "last_text_at", Of: "r.last_text <> '' or r.reason = 'operator' and r.detail <> ''", Do: sqlTakeTicketWords,
			},
		},
		{
			Table: "tickets", Holds: "who waited, why, who answered",
			Kept:     "{for} after it was closed",
			Variable: "TIMELINE_RETENTION", Setting: retention.Timeline, For: kept.Timeline, Over: &retention.Over{
				At: "closed_at", Of: "r.closed_at is not null",
			},
		},
		{
			Table: "ticket_answers", Holds: "settled ones",
			Kept:     written,
			Variable: "MESSAGES_RETENTION", Setting: retention.Messages, For: kept.Messages, Over: &retention.Over{
				At: "created_at", If: "r.status <> 'sending'",
			},
		},
		{
			Table: "ticket_notes", Kept: written,
			Variable: "MESSAGES_RETENTION", Setting: retention.Messages, For: kept.Messages, Over: &retention.Over{At: "created_at"},
		},
	}
}

// rulesOfOrganisations returns the rules of organisations and their keys.
func rulesOfOrganisations() []retention.Rule {
	return []retention.Rule{
		{Table: "organisations", Holds: "name, status, who changed it when and why", Kept: "never"},
		{
			Table: "api_keys", Holds: "hash, who made and revoked it, last use",
			Kept: "30 days after it was revoked or expired", For: apikeys.KeptFor, Over: &retention.Over{
				At: "over_at", Of: "r.over_at is not null",
			},
		},
	}
}

// rulesOfFlows returns the rules of published flows and their runs.
func rulesOfFlows(kept Kept) []retention.Rule {
	return []retention.Rule{
		{Table: "flow_versions", Kept: organisation},
		{
			Table: "flow_counts",
			Holds: "how many people came to a step",
			Kept:  "60 days, or longer while somebody stands there", For: flows.CountsFor, Over: &retention.Over{
				At: "began_at", Of: "r.standing = 0",
			},
		},
		{Table: "flow_count_changes", Kept: "it is worked off, within minutes"},
		{Table: "flow_publications", Holds: "when and by whom", Kept: organisation},
		{Table: "flow_drafts", Holds: "texts and authors", Kept: organisation},
		{
			Table: "flow_run_people", Holds: "ids, and why a flow did not start",
			Kept: afterItsEnd, Variable: "JOBS_RETENTION", Setting: retention.Jobs, For: kept.Jobs, Over: &retention.Over{
				At: "due_at", If: `exists (select from flow_runs f where f.id = r.run_id and f.finished_at < @before)`,
			},
		},
		{
			Table: "flow_runs", Holds: "filter and outcome",
			Kept:     afterItsEnd,
			Variable: "JOBS_RETENTION", Setting: retention.Jobs, For: kept.Jobs, Over: &retention.Over{
				At: "finished_at", Of: "r.finished_at is not null", If: `not exists (select from flow_run_people p where p.run_id = r.id)`,
			},
		},
	}
}
