package onboarding

import (
	"time"

	"paceline.internal/platform/retention"
	"paceline.internal/services/onboarding/engagement"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// Kept says how long the environment has rows kept that are over.
type Kept struct{ Timeline, Alarms, Engagement, Goals, Jobs, Events, Audit time.Duration }

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

// sqlSessionIsOver selects whether nothing of a session is to come any more.
const sqlSessionIsOver = `select from conversation_sessions s where s.id = r.session_id and s.ended_at is not null`

// organisation says how long the data of an organisation is kept.
const organisation = "the organisation goes"

// Rules say how long each table's rows are kept. docs/security-and-privacy.md shows them, and a test knows a table without one.
func Rules(kept Kept) []retention.Rule {
	const person = "the person is erased"
	return append([]retention.Rule{
		{Table: "profiles", Holds: "who a person is: phone, name, language, hold, preferences", Kept: person},
		{Table: "household_members", Holds: "who lives together", Kept: person},
		{Table: "user_engagement_states", Holds: "where a person stands in engagement", Kept: person},
		{Table: "conversation_sessions", Holds: "where a conversation stands, and how it ended; no words", Kept: person},
		{
			Table: "session_transitions", Holds: "the timeline of a session: what happened when, by whom; no words",
			Kept:     "{for} after the end of its session; one line stays, which says so. As long as the session goes on",
			Variable: "TIMELINE_RETENTION", Setting: people.KeepsTimeline, For: kept.Timeline, Over: &retention.Over{
				From: "conversation_sessions", At: "ended_at", Of: "r.ended_at is not null and r.timeline_deleted_at is null", Do: sqlForgetTimeline,
			},
		},
		{
			Table: "step_alarms", Holds: "when a step was due, and what QStash has of it",
			Kept:     "{for} after it was set and due, once its session is past the step",
			Variable: "ALARMS_RETENTION", Setting: people.KeepsAlarms, For: kept.Alarms, Over: &retention.Over{
				At: "created_at", If: `r.due_at < @before and not exists (select from conversation_sessions s
                    where s.id = r.session_id and s.ended_at is null and (s.next_step_id = r.step_id or r.published_at is null))`,
			},
		},
		{
			Table: "dead_letters", Holds: "alarms that QStash gave up: ids and its last answer",
			Kept:     "{for} after it came, once it was replayed or handled, or its session has ended; until then it waits for an operator",
			Variable: "ALARMS_RETENTION", For: kept.Alarms, Over: &retention.Over{
				At: "created_at", If: `r.replayed_at < @before or r.handled_at < @before or r.session_id is null or exists (` + sqlSessionIsOver + `)`,
			},
		},
		{
			Table: "webhook_jobs", Holds: "what came in to be worked on, with what a person wrote",
			Kept: "{for} after its end; while a held reply or a parked session names it, and one that waits for an operator " +
				"until it is dismissed",
			Variable: "JOBS_RETENTION", For: kept.Jobs,
		},
		{
			Table: "held_replies", Holds: "which jobs hold what a person wrote during a burst",
			Kept:     "{for} after it came, once its session has ended or gone on: the last one that still answered something was answered then",
			Variable: "JOBS_RETENTION", For: kept.Jobs, Over: &retention.Over{
				At: "received_at", If: `exists (select from conversation_sessions s
                    where s.id = r.session_id and (s.ended_at is not null or r.turn < s.turn - s.detours))`,
			},
		},
		{
			Table: "delivery_reservations", Holds: "which deliveries of QStash are being worked on",
			Kept: "it expires, within minutes, and another is completed",
		},
		{
			Table: "inbound_audits", Holds: "up to when a sender's messages were compared with Twilio's list: one row for each sender",
			Kept: organisation,
		},
		{Table: "organisation_settings", Holds: "what an organisation has decided", Kept: organisation},
		{Table: "erasures", Holds: "who was erased, when and at whose word: ids and a pseudonym", Kept: "never"},
		{Table: "scheduling_pauses", Holds: "that an organisation is paused", Kept: "the pause ends"},
		{
			Table: "engagement_state_transitions", Holds: "how a person came to stand where they do",
			Kept:     "{for} after it; the newest of a person, and one that an outreach or a later one names, stay with those",
			Variable: "ENGAGEMENT_RETENTION", Setting: people.KeepsEngagement, For: kept.Engagement, Over: &retention.Over{
				At: "created_at", Still: true, If: `not exists (select from user_engagement_states u where u.transition_id = r.id)
                    and not exists (select from engagement_outreach o where o.transition_id = r.id)
                    and not exists (select from engagement_state_transitions n where n.supersedes = r.id)`,
			},
		},
		{
			Table: "engagement_runs", Holds: "what the runs of engagement did: counts", Kept: "{for} after its end; the newest of each kind stays",
			Variable: "ENGAGEMENT_RETENTION", Setting: people.KeepsEngagement, For: kept.Engagement, Over: &retention.Over{
				At: "finished_at", Of: "r.finished_at is not null",
				If: `exists (select from engagement_runs n where n.org_id = r.org_id and n.job = r.job and n.period > r.period)`,
			},
		},
		{
			Table: "engagement_actions", Holds: "what a person reported, such as an expense",
			Kept: "62 days after it was reported, by when it is counted no more", For: engagement.ActionsKept, Over: &retention.Over{At: "created_at"},
		},
		{
			Table: "engagement_outreach", Holds: "messages of engagement, with their texts", Variable: "JOBS_RETENTION", For: kept.Jobs,
			Kept: "{for} after its end; the goodbye that a person may still answer stays",
		},
	}, rulesOfGoalsAndEvents(kept)...)
}

func rulesOfGoalsAndEvents(kept Kept) []retention.Rule {
	return []retention.Rule{
		{
			Table: "devices", Holds: "where a person's goals run", Variable: "GOALS_RETENTION", For: kept.Goals,
			Kept: "{for} after it was deleted, once no goal names it",
		},
		{Table: "device_nodes", Holds: "the processes that hold streams of devices", Kept: "an hour after the process was last heard of"},
		{
			Table: "goals", Holds: "what is to happen, in the person's words", Variable: "GOALS_RETENTION", For: kept.Goals,
			Kept: "{for} after its end and its time; one that was brought back stays as long as the goal that says so",
		},
		{Table: "goal_alarms", Holds: "when a goal was due", Kept: "its goal goes"},
		{Table: "goal_transitions", Holds: "the timeline of a goal", Kept: "its goal goes"},
		{
			Table: "goal_readings", Holds: "what a model read of a text", Kept: "{for} after it was read",
			Variable: "GOALS_RETENTION", For: kept.Goals,
		},
		{Table: "event_outbox", Holds: "events that have no number yet: ids", Kept: "the sequencer moves it, within seconds"},
		{
			Table: "events", Holds: "the log of events: ids", Variable: "EVENTS_RETENTION", For: kept.Events,
			Kept: "{for} after it was recorded; what a subscription has not had, three days at the least",
		},
		{
			Table: "event_deliveries", Holds: "events on their way to a subscription", Kept: "{for} after its end",
			Variable: "JOBS_RETENTION", For: kept.Jobs,
		},
		{Table: "event_subscriptions", Holds: "who is told of events", Kept: "it is deleted, with its deliveries"},
		{Table: "event_log_starts", Holds: "up to where an organisation's log was deleted", Kept: organisation},
		{Table: "event_feed", Holds: "where the sequencer is: one row", Kept: "never"},
		{Table: "event_types", Holds: "which events are written", Kept: "a release knows the type no more"},
		{
			Table: "audit", Holds: "who changed what, and which operator read what of whom", Kept: "{for} after the call",
			Variable: "AUDIT_RETENTION", Setting: people.KeepsAudit, For: kept.Audit, Over: &retention.Over{At: "at"},
		},
		{Table: "goose_db_version", Holds: "which migrations were run", Kept: "never"},
	}
}
