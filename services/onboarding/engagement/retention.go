package engagement

import (
	"time"

	"paceline.internal/platform/retention"
)

// Rules returns how long the rows of the room's tables are kept.
func Rules(kept, jobs time.Duration) []retention.Rule {
	return []retention.Rule{
		{
			Table: "engagement_state_transitions", Holds: "a person's newest, and those that others name, stay",
			Kept:     "{for} after it",
			Variable: "ENGAGEMENT_RETENTION", Setting: retention.Engagement, For: kept, Over: &retention.Over{
				At: "created_at", Still: true, If: `not exists (select from user_engagement_states u where u.transition_id = r.id)
                    and not exists (select from engagement_outreach o where o.transition_id = r.id)
                    and not exists (select from engagement_state_transitions n where n.supersedes = r.id)`,
			},
		},
		{
			Table: "engagement_runs", Holds: "counts; the newest of each kind stays", Kept: "{for} after it",
			Variable: "ENGAGEMENT_RETENTION", Setting: retention.Engagement, For: kept, Over: &retention.Over{
				At: "finished_at", Of: "r.finished_at is not null",
				If: `exists (select from engagement_runs n where n.org_id = r.org_id and n.job = r.job and n.period > r.period)`,
			},
		},
		{
			Table: "engagement_actions", Holds: "such as an expense",
			Kept: "62 days after it was reported", For: ActionsKept, Over: &retention.Over{At: "created_at"},
		},
		{
			Table:    "engagement_outreach",
			Holds:    "with texts; a goodbye that can still be answered stays",
			Variable: "JOBS_RETENTION", Setting: retention.Jobs,
			For: jobs, Kept: "{for} after its end",
		},
	}
}
