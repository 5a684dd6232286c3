package events

import (
	"time"

	"paceline.internal/platform/retention"
)

// Rules returns how long the rows of the room's tables are kept.
func Rules(kept, jobs time.Duration) []retention.Rule {
	return []retention.Rule{
		{Table: "event_outbox", Holds: "events that have no number yet: ids", Kept: "the sequencer moves it, within seconds"},
		{
			Table: "events", Holds: "the log of events: ids", Variable: "EVENTS_RETENTION", Setting: retention.Events, For: kept,
			Kept: "{for} after it was recorded; what a subscription has not had, three days at the least",
		},
		{
			Table: "event_deliveries", Holds: "events on their way to a subscription", Kept: "{for} after its end",
			Variable: "JOBS_RETENTION", Setting: retention.Jobs, For: jobs,
		},
		{Table: "event_subscriptions", Holds: "who is told of events", Kept: "it is deleted, with its deliveries"},
		{Table: "event_log_starts", Holds: "up to where an organisation's log was deleted", Kept: "the organisation goes"},
		{Table: "event_feed", Holds: "where the sequencer is: one row", Kept: "never"},
		{Table: "event_types", Holds: "which events are written", Kept: "a release knows the type no more"},
	}
}
