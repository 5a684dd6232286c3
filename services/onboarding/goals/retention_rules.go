package goals

import (
	"time"

	"paceline.internal/platform/retention"
)

// Rules returns how long the rows of the room's tables are kept.
func Rules(kept time.Duration) []retention.Rule {
	return []retention.Rule{
		{
			Table: "devices", Holds: "where a person's goals run", Variable: "GOALS_RETENTION", For: kept,
			Kept: "{for} after it was deleted, once no goal names it",
		},
		{Table: "device_nodes", Holds: "the processes that hold streams of devices", Kept: "an hour after the process was last heard of"},
		{
			Table: "goals", Holds: "what is to happen, in the person's words", Variable: "GOALS_RETENTION", For: kept,
			Kept: "{for} after its end and its time; one that was brought back stays as long as the goal that says so",
		},
		{Table: "goal_alarms", Holds: "when a goal was due", Kept: "its goal goes"},
		{Table: "goal_transitions", Holds: "the timeline of a goal", Kept: "its goal goes"},
		{
			Table: "goal_readings", Holds: "what a model read of a text", Kept: "{for} after it was read",
			Variable: "GOALS_RETENTION", For: kept,
		},
	}
}
