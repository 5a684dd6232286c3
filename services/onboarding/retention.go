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

// Rules say how long each table's rows are kept. docs/security-and-privacy.md shows them, and a test knows a table without one.
func Rules(kept Kept) []retention.Rule {
	const person = "the person is erased"
	rules := []retention.Rule{
		{Table: "profiles", Holds: "who a person is: phone, name, language, hold, preferences", Kept: person},
		{Table: "profile_fields", Holds: "what flows and the host application know of a person", Kept: person},
		{Table: "household_members", Holds: "who lives together", Kept: person},
		{Table: "user_engagement_states", Holds: "where a person stands in engagement", Kept: person},
		{Table: "conversation_sessions", Holds: "where a conversation stands, and how it ended; no words", Kept: person},
		{
			Table: "session_transitions", Holds: "the timeline of a session: what happened when, by whom; no words",
			Kept:     "{for} after the end of its session; one line stays, which says so",
			Variable: "TIMELINE_RETENTION", Setting: retention.Timeline, For: kept.Timeline, Over: &retention.Over{
				From: "conversation_sessions", At: "ended_at", Of: "r.ended_at is not null and r.timeline_deleted_at is null", Do: sqlForgetTimeline,
			},
		},
		{
			Table: "step_alarms", Holds: "when a step was due",
			Kept:     "{for} after it was set and due, once its session is past the step",
			Variable: "ALARMS_RETENTION", Setting: retention.Alarms, For: kept.Alarms, Over: &retention.Over{
				At: "created_at", If: `r.due_at < @before and not exists (select from conversation_sessions s
                    where s.id = r.session_id and s.ended_at is null and (s.next_step_id = r.step_id or r.published_at is null))`,
			},
		},
		{
			Table: "alarm_jobs", Holds: "the alarms that the database rings: ids",
			Kept: "a day after its end",
		},
		{
			Table: "dead_letters", Holds: "alarms that QStash gave up: ids and its last answer",
			Kept:     "{for} after it came, once it was replayed or handled, or its session has ended",
			Variable: "ALARMS_RETENTION", For: kept.Alarms, Over: &retention.Over{
				At: "created_at", If: `r.replayed_at < @before or r.handled_at < @before or r.session_id is null or exists (` + sqlSessionIsOver + `)`,
			},
		},
		{
			Table: "webhook_jobs", Holds: "what came in to be worked on, with what a person wrote",
			Kept: "{for} after its end; while a held reply or a parked session names it, and one that waits for an operator " +
				"until it is dismissed",
			Variable: "JOBS_RETENTION", Setting: retention.Jobs, For: kept.Jobs,
		},
		{
			Table: "held_replies", Holds: "which jobs hold what a person wrote during a burst",
			Kept:     "{for} after it came, once its session has ended or gone on",
			Variable: "JOBS_RETENTION", For: kept.Jobs, Over: &retention.Over{
				At: "received_at", If: `exists (select from conversation_sessions s
                    where s.id = r.session_id and (s.ended_at is not null or r.turn < s.turn - s.detours))`,
			},
		},
		{
			Table: "delivery_reservations", Holds: "which deliveries of QStash are being worked on",
			Kept: "it expires, within minutes",
		},
		{
			Table: "inbound_sweeps", Holds: "up to when a sender's messages were compared with Twilio's list",
			Kept: organisation,
		},
	}
	rules = append(rules, rulesOfTickets(kept)...)
	rules = append(rules, rulesOfOrganisations()...)
	rules = append(rules, []retention.Rule{
		{Table: "saved_replies", Holds: "the texts that an organisation answers with", Kept: organisation},
		{Table: "organisation_settings", Holds: "what an organisation has decided", Kept: organisation},
		{Table: "settings_versions", Holds: "what an organisation had decided: the last 100 changes", Kept: organisation},
		{Table: "erasures", Holds: "who was erased, when and at whose word: ids and a pseudonym", Kept: "never"},
		{Table: "scheduling_pauses", Holds: "that an organisation is paused", Kept: "the pause ends"},
	}...)
	rules = append(rules, rulesOfFlows(kept)...)
	rules = append(rules, engagement.Rules(kept.Engagement, kept.Jobs)...)
	rules = append(rules, goals.Rules(kept.Goals)...)
	rules = append(rules, events.Rules(kept.Events, kept.Jobs)...)
	rules = append(rules,
		retention.Rule{
			Table: "audit", Holds: "who changed what, and which operator read what of whom", Kept: "{for} after the call",
			Variable: "AUDIT_RETENTION", Setting: retention.Audit, For: kept.Audit, Over: &retention.Over{At: "at"},
		},
	)
	return append(rules, rulesOfDatabases()...)
}

// rulesOfDatabases returns the rules of what is remembered of the database itself.
func rulesOfDatabases() []retention.Rule {
	return []retention.Rule{
		{
			Table: "histories", Holds: "which servers and timelines the database was of", Kept: "never",
		},
		{Table: "beats", Holds: "what each process has counted, and when", Kept: "30 days after the process"},
		{Table: "restores", Holds: "to which instants the databases were restored", Kept: "never"},
		{Table: "goose_db_version", Holds: "which migrations were run", Kept: "never"},
	}
}

// rulesOfTickets returns the rules of the inbox.
func rulesOfTickets(kept Kept) []retention.Rule {
	return []retention.Rule{
		{
			Table: "tickets", Holds: "words: the beginning of what the person wrote last, and why a colleague opened it",
			Kept:     "{for} after they wrote; the words are taken out",
			Variable: "MESSAGES_RETENTION", Setting: retention.Messages, For: kept.Messages, Over: &retention.Over{
				At: "last_text_at", Of: "r.last_text <> '' or r.reason = 'operator' and r.detail <> ''", Do: sqlTakeTicketWords,
			},
		},
		{
			Table: "tickets", Holds: "who waited for a person of the organisation, why, and who answered",
			Kept:     "{for} after it was closed",
			Variable: "TIMELINE_RETENTION", Setting: retention.Timeline, For: kept.Timeline, Over: &retention.Over{
				At: "closed_at", Of: "r.closed_at is not null",
			},
		},
		{
			Table: "ticket_answers", Holds: "what operators answered by hand",
			Kept:     "{for} after it was written, once it is settled, or its ticket goes",
			Variable: "MESSAGES_RETENTION", Setting: retention.Messages, For: kept.Messages, Over: &retention.Over{
				At: "created_at", If: "r.status <> 'sending'",
			},
		},
		{
			Table: "ticket_notes", Holds: "what operators noted about a ticket", Kept: "{for} after it was written, or its ticket goes",
			Variable: "MESSAGES_RETENTION", Setting: retention.Messages, For: kept.Messages, Over: &retention.Over{At: "created_at"},
		},
	}
}

// rulesOfOrganisations returns the rules of organisations and their keys.
func rulesOfOrganisations() []retention.Rule {
	return []retention.Rule{
		{Table: "organisations", Holds: "name, status, and who changed it when and why", Kept: "never"},
		{
			Table: "api_keys", Holds: "API keys: a hash, who made and revoked them, their last use",
			Kept: "30 days after it was revoked or has expired", For: apikeys.KeptFor, Over: &retention.Over{
				At: "over_at", Of: "r.over_at is not null",
			},
		},
	}
}

// rulesOfFlows returns the rules of published flows and their runs.
func rulesOfFlows(kept Kept) []retention.Rule {
	return []retention.Rule{
		{Table: "flow_versions", Holds: "published flows and their texts", Kept: organisation},
		{
			Table: "flow_counts",
			Holds: "how many sessions came to a step of a flow, by day: numbers",
			Kept:  "60 days, and while somebody stands there", For: flows.CountsFor, Over: &retention.Over{
				At: "began_at", Of: "r.standing = 0",
			},
		},
		{Table: "flow_count_changes", Holds: "the same, as it changed", Kept: "it is added up, within a minute"},
		{Table: "flow_publications", Holds: "when a version of a flow became current, and by whom", Kept: organisation},
		{Table: "flow_drafts", Holds: "texts of a flow that are being changed, and by whom", Kept: organisation},
		{
			Table: "flow_run_people", Holds: "for whom a run starts a flow, or why not: ids",
			Kept: "{for} after the end of the run", Variable: "JOBS_RETENTION", Setting: retention.Jobs, For: kept.Jobs, Over: &retention.Over{
				At: "due_at", If: `exists (select from flow_runs f where f.id = r.run_id and f.finished_at < @before)`,
			},
		},
		{
			Table: "flow_runs", Holds: "runs of flows: the filter, and how they ended",
			Kept:     "{for} after its end, once its people are deleted",
			Variable: "JOBS_RETENTION", Setting: retention.Jobs, For: kept.Jobs, Over: &retention.Over{
				At: "finished_at", Of: "r.finished_at is not null", If: `not exists (select from flow_run_people p where p.run_id = r.id)`,
			},
		},
	}
}
