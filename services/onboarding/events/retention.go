package events

import (
	"time"

	"paceline.internal/platform/retention"
)

// Rules returns how long the rows of the room's tables are kept.
func Rules(kept, jobs time.Duration) []retention.Rule {
	return []retention.Rule{
		{Table: "event_outbox", Holds: "ids", Kept: "it is worked off, within minutes"},
		{
			Table:    "events",
			Holds:    "ids; three days at least for a subscription that has not had them",
			Variable: "EVENTS_RETENTION", Setting: retention.Events, For: kept,
			Kept: "{for} after it was recorded",
		},
		{
			Table: "event_deliveries", Kept: "{for} after its end",
			Variable: "JOBS_RETENTION", Setting: retention.Jobs, For: jobs,
		},
		{Table: "event_subscriptions", Holds: "with their deliveries", Kept: "it is deleted"},
		{Table: "event_log_starts", Kept: "the organisation goes"},
		{Table: "event_feed", Holds: "one row", Kept: "never"},
		{Table: "event_types", Kept: "a release drops the type"},
	}
}
