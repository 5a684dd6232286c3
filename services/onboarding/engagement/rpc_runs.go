package engagement

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/engagement/rules"
	"paceline.internal/services/onboarding/request"
)

// runNow is the time that a call works on a run. What is left is the loop's.
const runNow = 5 * time.Second

// RunEngagement runs the newest period of a job now, or says what it would do.
func (s *RPC) RunEngagement(
	ctx context.Context, in *onboardingv1.RunEngagementRequest,
) (*onboardingv1.RunEngagementResponse, error) {
	job := rules.Job(cmp.Or(in.GetJob(), string(rules.Daily)))
	if !slices.Contains(rules.Jobs(), job) {
		return nil, request.Invalid("job must be daily or weekly")
	}
	if in.GetDryRun() {
		return s.dryRun(ctx, job, in)
	}
	if in.GetPageSize() != 0 || in.GetPageToken() != "" {
		return nil, request.Invalid("page_size and page_token are of a dry_run")
	}
	if _, err := s.People.WorkRuns(ctx, request.Org(ctx), runNow); err != nil {
		return nil, err
	}
	found, err := s.Store.Runs(ctx, request.Org(ctx), string(job), "", 1)
	if err != nil {
		return nil, err
	}
	out := &onboardingv1.RunEngagementResponse{}
	if len(found) > 0 {
		out.Run = run(found[0])
	}
	return out, nil
}

func (s *RPC) dryRun(
	ctx context.Context, job rules.Job, in *onboardingv1.RunEngagementRequest,
) (*onboardingv1.RunEngagementResponse, error) {
	size, from := int(cmp.Or(in.GetPageSize(), request.DefaultPage)), 0
	if size < 1 || size > request.MaxPage {
		return nil, request.Invalid("page_size must be 0 to %d", request.MaxPage)
	}
	place, err := rpc.PageFrom(in)
	if err != nil {
		return nil, err
	}
	if place != "" {
		if from, err = strconv.Atoi(place); err != nil || from < 1 {
			return nil, rpc.ForeignPage()
		}
	}
	would, planned, err := s.People.DryRun(ctx, request.Org(ctx), job, from, size)
	if err != nil {
		return nil, err
	}
	out := &onboardingv1.RunEngagementResponse{Run: run(would)}
	out.Run.RunId = ""
	for _, p := range planned {
		change := &onboardingv1.PlannedChange{ProfileId: p.Change.View.ProfileID, Skip: string(p.Skip)}
		for _, m := range p.Change.Moves {
			change.Trigger = string(m.Audit.Trigger)
		}
		for _, o := range p.Change.Outreach {
			change.Type = string(o.Type)
		}
		out.Planned = append(out.Planned, change)
	}
	if shown := from + len(planned); shown < would.Counts.Succeeded {
		out.NextPageToken = rpc.NextPage(in, strconv.Itoa(shown))
	}
	return out, nil
}

// ListEngagementRuns lists the runs of the caller's organisation.
func (s *RPC) ListEngagementRuns(
	ctx context.Context, in *onboardingv1.ListEngagementRunsRequest,
) (*onboardingv1.ListEngagementRunsResponse, error) {
	wanted, before, err := request.Page(in)
	if err != nil {
		return nil, err
	}
	if in.GetJob() != "" && !slices.Contains(rules.Jobs(), rules.Job(in.GetJob())) {
		return nil, request.Invalid("job must be daily or weekly")
	}
	found, err := s.Store.Runs(ctx, request.Org(ctx), in.GetJob(), before, wanted+1)
	if err != nil {
		return nil, err
	}
	out := &onboardingv1.ListEngagementRunsResponse{}
	if len(found) > wanted {
		found = found[:wanted]
		out.NextPageToken = rpc.NextPage(in, found[wanted-1].ID)
	}
	for _, r := range found {
		out.Runs = append(out.Runs, run(r))
	}
	return out, nil
}

func run(r Run) *onboardingv1.EngagementRun {
	out := &onboardingv1.EngagementRun{
		RunId: r.ID, Job: string(r.Period.Job), Period: r.Period.Name, NominalAt: timestamppb.New(r.Period.Nominal), Status: r.Status,
		Processed: int64(r.Counts.Processed), Succeeded: int64(r.Counts.Succeeded), Failed: int64(r.Counts.Failed),
		Skipped: map[string]int64{}, Duration: durationpb.New(r.Counts.Worked),
	}
	for skip, n := range r.Counts.Skipped {
		out.Skipped[string(skip)] = int64(n)
	}
	if !r.Ended.IsZero() {
		out.FinishedAt = timestamppb.New(r.Ended)
	}
	return out
}
