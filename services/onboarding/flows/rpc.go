package flows

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	overviewv1 "paceline.internal/proto/gen/paceline/overview/v1"
	"paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/request"
)

// RPC serves FlowService.
type RPC struct {
	onboardingv1.UnimplementedFlowServiceServer

	Store *Store
	Now   func() time.Time
}

// GetFlowFunnel counts the sessions of a flow by its steps.
func (s *RPC) GetFlowFunnel(ctx context.Context, in *onboardingv1.GetFlowFunnelRequest) (*onboardingv1.GetFlowFunnelResponse, error) {
	f, err := s.Store.Current(ctx, request.Org(ctx), in.GetFlow())
	if err != nil {
		return nil, err
	}
	found, err := s.Store.Funnel(ctx, request.Org(ctx), &f, s.Now())
	if err != nil {
		return nil, err
	}
	out := &onboardingv1.GetFlowFunnelResponse{
		Since: timestamppb.New(found.Since),
		Began: &overviewv1.Count{Count: int32(found.Began)}, //nolint:gosec // an int4 of Postgres
		Open:  &overviewv1.Count{Count: int32(found.Open)},  //nolint:gosec // an int4 of Postgres
	}
	steps := slices.Clone(f.Order)
	for _, id := range slices.Sorted(maps.Keys(found.Steps)) {
		if !slices.Contains(steps, id) {
			steps = append(steps, id)
		}
	}
	for _, id := range steps {
		n := cmp.Or(found.Steps[id], &FunnelStep{})
		out.Steps = append(out.Steps, &onboardingv1.FunnelStep{
			Step: id, Now: int32(n.Now), Reached: int32(n.Reached), WentOn: int32(n.WentOn), //nolint:gosec // parts of what is bounded
			Answered: int32(n.Answered), Silent: int32(n.Silent), Stopped: int32(n.Stopped), //nolint:gosec // parts of what is bounded
		})
	}
	return out, nil
}

// MoveSessions moves sessions that wait for a reply to another version.
func (s *RPC) MoveSessions(ctx context.Context, in *onboardingv1.MoveSessionsRequest) (*onboardingv1.MoveSessionsResponse, error) {
	done, err := (&Mover{Store: s.Store, Now: s.Now}).Move(ctx, request.Org(ctx), VersionMove{
		Flow: in.GetFlow(), From: in.GetFromVersion(), To: in.GetToVersion(), Steps: in.GetSteps(), DryRun: in.GetDryRun(),
	})
	if err != nil {
		return nil, err
	}
	return &onboardingv1.MoveSessionsResponse{
		Moved: int64(done.Moved), Busy: int64(done.Busy), Unmapped: int64(done.Unmapped), Elsewhere: int64(done.Elsewhere), More: done.More,
	}, nil
}

// CheckFlow reports what is wrong with files.
func (s *RPC) CheckFlow(ctx context.Context, in *onboardingv1.CheckFlowRequest) (*onboardingv1.CheckFlowResponse, error) {
	if len(in.GetFiles()) == 0 {
		return nil, request.Invalid("files must have flow.yaml and the texts, such as en.yaml")
	}
	parsed, err := s.Store.Check(ctx, request.Org(ctx), in.GetFiles())
	out := &onboardingv1.CheckFlowResponse{Flow: parsed.Name, Version: parsed.Version}
	if problems, wrong := errors.AsType[flow.Problems](err); wrong {
		out = &onboardingv1.CheckFlowResponse{}
		for _, p := range problems {
			line := int32(min(p.Line, MaxBytes)) //nolint:gosec // it is in range
			out.Problems = append(out.Problems, &onboardingv1.FlowProblem{File: p.File, Line: line, Problem: p.Text})
		}
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// PublishFlow makes files the current version of their flow.
func (s *RPC) PublishFlow(ctx context.Context, in *onboardingv1.PublishFlowRequest) (*onboardingv1.PublishFlowResponse, error) {
	done, err := s.Store.Publish(ctx, request.Org(ctx), in.GetFiles(), s.Now())
	if problems, wrong := errors.AsType[flow.Problems](err); wrong {
		return nil, refused(problems)
	}
	if err != nil {
		return nil, err
	}
	return &onboardingv1.PublishFlowResponse{
		Version: shown(ctx, done.Version), Created: done.Created, AlreadyCurrent: done.Unchanged,
	}, nil
}

// The bounds of a refusal: it travels in the headers of an answer.
const maxViolations, maxDescription = 100, 400

// refused names every problem as a violation, by its file and line.
func refused(problems flow.Problems) error {
	fields := make([]rpc.Violation, 0, maxViolations+1)
	for _, p := range problems[:min(len(problems), maxViolations)] {
		where := p.File
		if p.Line > 0 {
			where += ":" + strconv.Itoa(p.Line)
		}
		fields = append(fields, rpc.Violation{Field: where, Description: fmt.Sprintf("%.*s", maxDescription, p.Text)})
	}
	if more := len(problems) - maxViolations; more > 0 {
		said := fmt.Sprintf("there are %d more problems; POST /v1/flows:check lists all", more)
		fields = append(fields, rpc.Violation{Field: "files", Description: said})
	}
	return &rpc.Error{
		Code: codes.InvalidArgument, Reason: onboardingv1.Reason_REASON_INVALID.String(), Domain: request.Domain,
		Message: fmt.Sprintf("files: problems: %d; field_violations has each with its file and line", len(problems)), Fields: fields,
	}
}

// ListFlows lists the current versions.
func (s *RPC) ListFlows(ctx context.Context, _ *onboardingv1.ListFlowsRequest) (*onboardingv1.ListFlowsResponse, error) {
	found, err := s.Store.List(ctx, request.Org(ctx))
	if err != nil {
		return nil, err
	}
	out := &onboardingv1.ListFlowsResponse{}
	for _, v := range found {
		out.Flows = append(out.Flows, shown(ctx, v))
	}
	return out, nil
}

// GetCurrentFlow reads the current version of a flow.
func (s *RPC) GetCurrentFlow(
	ctx context.Context, in *onboardingv1.GetCurrentFlowRequest,
) (*onboardingv1.GetCurrentFlowResponse, error) {
	found, files, err := s.whole(ctx, in.GetFlow(), "")
	if err != nil {
		return nil, err
	}
	return &onboardingv1.GetCurrentFlowResponse{Version: found, Files: files}, nil
}

// GetFlowVersion reads a version of a flow.
func (s *RPC) GetFlowVersion(
	ctx context.Context, in *onboardingv1.GetFlowVersionRequest,
) (*onboardingv1.GetFlowVersionResponse, error) {
	if in.GetVersion() == "" {
		return nil, request.Invalid("version is required")
	}
	found, files, err := s.whole(ctx, in.GetFlow(), in.GetVersion())
	if err != nil {
		return nil, err
	}
	return &onboardingv1.GetFlowVersionResponse{Version: found, Files: files}, nil
}

func (s *RPC) whole(ctx context.Context, name, version string) (*onboardingv1.FlowVersion, map[string]string, error) {
	found, err := s.Store.Describe(ctx, request.Org(ctx), name, version)
	if err != nil {
		return nil, nil, err
	}
	files, err := s.Store.Files(ctx, request.Org(ctx), name, found.Version)
	return shown(ctx, found), files, err
}

// ListFlowVersions lists the versions of a flow.
func (s *RPC) ListFlowVersions(
	ctx context.Context, in *onboardingv1.ListFlowVersionsRequest,
) (*onboardingv1.ListFlowVersionsResponse, error) {
	limit, err := request.PageSize(in)
	if err != nil {
		return nil, err
	}
	before := 0
	place, err := rpc.PageFrom(in)
	if err == nil && place != "" {
		if before, err = strconv.Atoi(place); err != nil {
			err = rpc.ForeignPage()
		}
	}
	if err != nil {
		return nil, request.Invalid("%s", err)
	}
	found, err := s.Store.Versions(ctx, request.Org(ctx), in.GetFlow(), before, limit+1)
	if err != nil {
		return nil, err
	}
	out := &onboardingv1.ListFlowVersionsResponse{}
	for _, v := range found[:min(limit, len(found))] {
		out.Versions = append(out.Versions, shown(ctx, v))
	}
	if len(found) > limit {
		out.NextPageToken = rpc.NextPage(in, strconv.Itoa(found[limit-1].Number))
	}
	return out, nil
}

func shown(ctx context.Context, v Version) *onboardingv1.FlowVersion {
	return &onboardingv1.FlowVersion{
		Flow: v.Flow, Version: v.Version, Current: v.Current, PublishedAt: timestamppb.New(v.PublishedAt),
		PublishedBy: request.Actor(ctx, v.PublishedBy),
	}
}
