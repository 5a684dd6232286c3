package runs

import (
	"context"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/request"
)

// RPC serves RunService.
type RPC struct {
	onboardingv1.UnimplementedRunServiceServer

	Runs *Service
}

// StartRun makes a run, or counts what one would do.
func (s *RPC) StartRun(ctx context.Context, in *onboardingv1.StartRunRequest) (*onboardingv1.StartRunResponse, error) {
	asked := Request{
		OrgID: request.Org(ctx), Flow: in.GetFlow(), People: in.GetPeople(), Filter: in.GetFilter(), Paused: in.GetPaused(),
		Key: in.GetIdempotencyKey(),
	}
	var err error
	if asked.Consent, err = people.ReadConsent(in.GetConsent(), s.Runs.Now()); err != nil {
		return nil, err
	}
	if in.GetDryRun() {
		p, unknown, err := s.Runs.Preview(ctx, asked)
		if err != nil {
			return nil, err
		}
		return &onboardingv1.StartRunResponse{Preview: preview(p), Unknown: notFound(unknown)}, nil
	}
	run, unknown, duplicate, err := s.Runs.Start(ctx, asked)
	if err != nil {
		return nil, err
	}
	return &onboardingv1.StartRunResponse{Run: shown(ctx, run), Duplicate: duplicate, Unknown: notFound(unknown)}, nil
}

// AddRunPeople adds people to a run.
func (s *RPC) AddRunPeople(ctx context.Context, in *onboardingv1.AddRunPeopleRequest) (*onboardingv1.AddRunPeopleResponse, error) {
	if err := request.ID("run_id", in.GetRunId()); err != nil {
		return nil, err
	}
	added, already, unknown, err := s.Runs.Add(ctx, request.Org(ctx), in.GetRunId(), in.GetPeople())
	if err != nil {
		return nil, err
	}
	return &onboardingv1.AddRunPeopleResponse{Added: int64(added), Already: int64(already), Unknown: notFound(unknown)}, nil
}

// ListRuns lists runs.
func (s *RPC) ListRuns(ctx context.Context, in *onboardingv1.ListRunsRequest) (*onboardingv1.ListRunsResponse, error) {
	limit, before, err := request.Page(in)
	if err != nil {
		return nil, err
	}
	found, err := s.Runs.Store.List(ctx, request.Org(ctx), in.GetFlow(), before, limit+1)
	if err != nil {
		return nil, err
	}
	out := &onboardingv1.ListRunsResponse{}
	for _, r := range found[:min(limit, len(found))] {
		out.Runs = append(out.Runs, shown(ctx, r))
	}
	if len(found) > limit {
		out.NextPageToken = rpc.NextPage(in, found[limit-1].ID)
	}
	return out, nil
}

// GetRun reads a run.
func (s *RPC) GetRun(ctx context.Context, in *onboardingv1.GetRunRequest) (*onboardingv1.GetRunResponse, error) {
	if err := request.ID("run_id", in.GetRunId()); err != nil {
		return nil, err
	}
	r, err := s.Runs.Get(ctx, request.Org(ctx), in.GetRunId())
	if err != nil {
		return nil, err
	}
	return &onboardingv1.GetRunResponse{Run: shown(ctx, r)}, nil
}

// PauseRun pauses a run.
func (s *RPC) PauseRun(ctx context.Context, in *onboardingv1.PauseRunRequest) (*onboardingv1.PauseRunResponse, error) {
	r, err := s.switched(ctx, in.GetRunId(), Paused)
	return &onboardingv1.PauseRunResponse{Run: r}, err
}

// ResumeRun resumes a run.
func (s *RPC) ResumeRun(ctx context.Context, in *onboardingv1.ResumeRunRequest) (*onboardingv1.ResumeRunResponse, error) {
	r, err := s.switched(ctx, in.GetRunId(), Running)
	return &onboardingv1.ResumeRunResponse{Run: r}, err
}

// CancelRun cancels a run.
func (s *RPC) CancelRun(ctx context.Context, in *onboardingv1.CancelRunRequest) (*onboardingv1.CancelRunResponse, error) {
	r, err := s.switched(ctx, in.GetRunId(), Cancelled)
	return &onboardingv1.CancelRunResponse{Run: r}, err
}

func (s *RPC) switched(ctx context.Context, id string, to Status) (*onboardingv1.Run, error) {
	if err := request.ID("run_id", id); err != nil {
		return nil, err
	}
	r, err := s.Runs.Switch(ctx, request.Org(ctx), id, to)
	if err != nil {
		return nil, err
	}
	return shown(ctx, r), nil
}

func shown(ctx context.Context, r Run) *onboardingv1.Run {
	out := &onboardingv1.Run{
		RunId: r.ID, Flow: r.Flow, FlowVersion: r.FlowVersion, Status: string(r.Status), Reason: r.Reason, Filter: r.Filter,
		CreatedAt: timestamppb.New(r.CreatedAt), UpdatedAt: timestamppb.New(r.UpdatedAt), FinishedAt: request.StampOf(r.FinishedAt),
		CreatedBy: request.Actor(ctx, r.CreatedBy),
	}
	if c := r.Counts; c != nil {
		out.Counts = &onboardingv1.RunCounts{
			People: int64(c.People), Waiting: int64(c.Waiting), Started: int64(c.Started), LeftOut: numbers(c.LeftOut), Filtering: r.Filtering,
		}
	}
	return out
}

func numbers(of map[Reason]int) map[string]int64 {
	out := map[string]int64{}
	for reason, n := range of {
		out[string(reason)] = int64(n)
	}
	return out
}

func notFound(u Unknown) *onboardingv1.RunUnknown {
	out := &onboardingv1.RunUnknown{Counts: numbers(u.Counts)}
	for _, place := range u.Places {
		out.Places = append(out.Places, int32(place)) //nolint:gosec // below MaxPage
	}
	return out
}

func preview(p Preview) *onboardingv1.RunPreview {
	out := &onboardingv1.RunPreview{
		People: int64(p.People), Segments: int64(p.Segments), LeftOut: numbers(p.LeftOut), Quiet: int64(p.Quiet), Complete: p.Complete,
	}
	for language, share := range p.Languages {
		out.Languages = append(out.Languages, &onboardingv1.RunLanguage{
			Language: language, People: int64(share.People), Segments: int64(share.Segments),
		})
	}
	slices.SortFunc(out.GetLanguages(), func(a, b *onboardingv1.RunLanguage) int { return int(b.GetPeople() - a.GetPeople()) })
	return out
}
