package console

import (
	"maps"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/timestamppb"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// engagementPage is the data of pages/engagement.html.
type engagementPage struct {
	States  []stateCount
	Flows   []flowCount
	Sent    []outreachCount
	Runs    []*onboardingv1.EngagementRun
	Job     string // the run that is tried without writing: daily or weekly; empty for none
	Dry     *onboardingv1.RunEngagementResponse
	Skipped []stateCount // of the dry run, by reason
	Next    string       // the address of the next page of the dry run; empty on the last
}

// stateCount is a number of people in a state, or passed over for a reason.
type stateCount struct {
	Name  string
	Count int64
}

// flowCount is a way from one state to another, and how many went it.
type flowCount struct {
	From, To, Trigger string
	Count             int64
}

// outreachCount is a number of one type with one outcome.
type outreachCount struct {
	Type, Outcome string
	Count         int64
}

const (
	engagementSpan = 7 * 24 * time.Hour
	runsShown      = 14
	plannedShown   = 50
)

// engagement shows where people stand and how they got there in a week, and what the next run would do.
func (c *Console) engagement(r *http.Request) (page, error) {
	shown := engagementPage{Job: r.Form.Get("dry")}
	if shown.Job != "daily" && shown.Job != "weekly" {
		shown.Job = ""
	}
	var stats *onboardingv1.GetEngagementStatsResponse
	group, ctx := errgroup.WithContext(r.Context())
	group.Go(func() (err error) {
		stats, err = c.services.Engagement.GetEngagementStats(ctx, &onboardingv1.GetEngagementStatsRequest{
			Since: timestamppb.New(c.now().Add(-engagementSpan)),
		})
		return err
	})
	group.Go(func() error {
		out, err := c.services.Engagement.ListEngagementRuns(ctx, &onboardingv1.ListEngagementRunsRequest{PageSize: runsShown})
		shown.Runs = out.GetRuns()
		return err
	})
	if shown.Job != "" {
		group.Go(func() (err error) {
			shown.Dry, err = c.services.Engagement.RunEngagement(ctx, &onboardingv1.RunEngagementRequest{
				Job: shown.Job, DryRun: true, PageSize: plannedShown, PageToken: r.Form.Get("page"),
			})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return page{}, err
	}
	for _, state := range []string{"active", "goodbye_sent", "help_flow", "remind_later", "dormant"} {
		shown.States = append(shown.States, stateCount{state, stats.GetPeople()[state]})
	}
	shown.Flows, shown.Sent = moves(stats.GetTransitions()), sent(stats.GetOutreach())
	shown.Skipped, shown.Next = byName(shown.Dry.GetRun().GetSkipped()), nextPage(r, shown.Dry.GetNextPageToken())
	return page{Name: "engagement", Title: "engagement.title", Body: shown}, nil
}

// moves are the edges of the diagram in docs/engagement.md, with how many went them. A trigger that is not in it comes last, for a newer
// service may have more.
func moves(transitions map[string]int64) []flowCount {
	all := []flowCount{
		{From: "active", To: "goodbye_sent", Trigger: "inactivity_14d"},
		{From: "goodbye_sent", To: "help_flow", Trigger: "goodbye_response_1"},
		{From: "goodbye_sent", To: "remind_later", Trigger: "goodbye_response_2"},
		{From: "goodbye_sent", To: "dormant", Trigger: "goodbye_response_3"},
		{From: "goodbye_sent", To: "dormant", Trigger: "goodbye_timeout"},
		{From: "remind_later", To: "dormant", Trigger: "reminder_due"},
		{From: "", To: "active", Trigger: "user_message"},
	}
	for i := range all {
		all[i].Count = transitions[all[i].Trigger]
	}
	for _, trigger := range slices.Sorted(maps.Keys(transitions)) {
		if !slices.ContainsFunc(all, func(f flowCount) bool { return f.Trigger == trigger }) {
			all = append(all, flowCount{Trigger: trigger, Count: transitions[trigger]})
		}
	}
	return all
}

func sent(outreach map[string]*onboardingv1.OutreachCounts) (all []outreachCount) {
	for _, kind := range slices.Sorted(maps.Keys(outreach)) {
		for _, o := range byName(outreach[kind].GetOutcomes()) {
			all = append(all, outreachCount{kind, o.Name, o.Count})
		}
	}
	return all
}

func byName(counts map[string]int64) (all []stateCount) {
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, stateCount{name, counts[name]})
	}
	return all
}
