package goals

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/hours"
	"paceline.internal/platform/postgres"
	"paceline.internal/platform/rpc"
	explainv1 "paceline.internal/proto/gen/paceline/explain/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/request"
)

// RPC serves GoalService.
type RPC struct {
	onboardingv1.UnimplementedGoalServiceServer

	Goals   *Service
	Devices *Devices
	Store   *Store
	Pause   func(ctx context.Context, orgID string) (conversation.Pause, error) // reads the pause of an organisation
	Now     func() time.Time
}

const maxGoalKey = 200

// CreateGoal schedules a goal.
func (s *RPC) CreateGoal(ctx context.Context, in *onboardingv1.CreateGoalRequest) (*onboardingv1.CreateGoalResponse, error) {
	ctx, c := s.caller(ctx)
	profile, err := c.person(in.GetProfileId())
	if err != nil {
		return nil, err
	}
	n := New{
		OrgID: c.OrgID, ProfileID: profile, DeviceID: in.GetDeviceId(), Said: in.GetGoal(), Source: SourceREST,
		Key: "api:" + in.GetIdempotencyKey(), UndoOf: in.GetUndoOf(), By: c.Actor,
	}
	if err := checkGoal(in, &n); err != nil {
		return nil, err
	}
	g, duplicate, err := s.Goals.Create(ctx, n)
	if err != nil {
		return nil, Refusal(err)
	}
	return &onboardingv1.CreateGoalResponse{Goal: s.Goal(g), Duplicate: duplicate}, nil
}

// checkGoal checks the fields of a new goal, each by its name, and takes over what has to be parsed.
func checkGoal(in *onboardingv1.CreateGoalRequest, n *New) error {
	if err := request.ID("profile_id", n.ProfileID); err != nil {
		return err
	}
	for field, id := range map[string]string{"device_id": n.DeviceID, "undo_of": n.UndoOf} {
		if id != "" && !request.IsID(id) {
			return request.Invalid("%s must be a UUID", field)
		}
	}
	if key := in.GetIdempotencyKey(); key == "" || utf8.RuneCountInString(key) > maxGoalKey {
		return request.Invalid("idempotency_key must have 1 to %d characters", maxGoalKey)
	}
	switch in.GetSource() {
	case "", string(SourceREST):
	case string(SourceVoice):
		n.Source = SourceVoice
	default:
		return request.Invalid("source must be rest or voice")
	}
	if at := in.GetScheduledFor(); at != nil {
		if err := wholeSecond(at); err != nil {
			return err
		}
		n.At = at.AsTime()
	}
	if name := in.GetTimeZone(); name != "" {
		_, zone, err := hours.ParsePlace(name)
		if err != nil {
			return request.Invalid("%s", err)
		}
		n.Zone = zone
	}
	return nil
}

func wholeSecond(at *timestamppb.Timestamp) error {
	if at.GetNanos() != 0 {
		return request.Invalid("scheduled_for must be a time in whole seconds")
	}
	return request.Time("scheduled_for", at)
}

// caller returns the caller, in the scope of their organisation: what a user may do to a goal is checked against its row.
func (s *RPC) caller(ctx context.Context) (context.Context, Caller) {
	p, _ := rpc.PrincipalFrom(ctx)
	c := Caller{OrgID: p.OrgID, Actor: string(p.Role) + ":" + p.Subject}
	if p.Role == rpc.RoleUser {
		c.ProfileID = p.Subject
	}
	return postgres.ForOrganisation(ctx, p.OrgID), c
}

// person returns the person that a request is about: a user asks only about themselves, named or not.
func (c Caller) person(named string) (string, error) {
	if c.ProfileID != "" && named != "" && named != c.ProfileID {
		return "", request.ErrNotTheirs
	}
	return cmp.Or(named, c.ProfileID), nil
}

// GetGoal reads a goal with its timeline.
func (s *RPC) GetGoal(ctx context.Context, in *onboardingv1.GetGoalRequest) (*onboardingv1.GetGoalResponse, error) {
	ctx, v, err := s.find(ctx, in.GetGoalId())
	if err != nil {
		return nil, err
	}
	timeline, err := s.Store.Timeline(ctx, v.ID)
	if err != nil {
		return nil, Refusal(err)
	}
	out := &onboardingv1.GetGoalResponse{Goal: s.Goal(v.Goal)}
	for _, t := range timeline {
		out.Timeline = append(out.Timeline, &onboardingv1.GoalTransition{
			At: timestamppb.New(t.At), FromStatus: string(t.From), ToStatus: string(t.To), Event: t.Event, Actor: t.Actor, Detail: t.Detail,
		})
	}
	return out, nil
}

// find reads a goal that the caller may see.
func (s *RPC) find(ctx context.Context, goalID string) (context.Context, Situation, error) {
	if err := request.ID("goal_id", goalID); err != nil {
		return ctx, Situation{}, err
	}
	ctx, c := s.caller(ctx)
	v, err := s.Goals.Find(ctx, c, goalID)
	return ctx, v, Refusal(err)
}

// ListGoals lists goals that the caller may see.
func (s *RPC) ListGoals(ctx context.Context, in *onboardingv1.ListGoalsRequest) (*onboardingv1.ListGoalsResponse, error) {
	wanted, before, err := request.Page(in)
	if err != nil {
		return nil, err
	}
	ctx, c := s.caller(ctx)
	profile, err := c.person(in.GetProfileId())
	if err != nil {
		return nil, err
	}
	f := GoalFilter{ProfileID: profile, DeviceID: in.GetDeviceId(), Status: in.GetStatus(), Before: before, Limit: wanted + 1}
	for field, id := range map[string]string{"profile_id": f.ProfileID, "device_id": f.DeviceID} {
		if id != "" && !request.IsID(id) {
			return nil, request.Invalid("%s must be a UUID", field)
		}
	}
	if f.Status != "" && !slices.Contains(Statuses(), Status(f.Status)) {
		return nil, request.Invalid("status must be scheduled, running, completed, failed or cancelled")
	}
	found, err := s.Store.List(ctx, f)
	if err != nil {
		return nil, Refusal(err)
	}
	out := &onboardingv1.ListGoalsResponse{}
	if len(found) > wanted {
		found = found[:wanted]
		out.NextPageToken = rpc.NextPage(in, found[wanted-1].ID)
	}
	for _, g := range found {
		out.Goals = append(out.Goals, s.Goal(g))
	}
	return out, nil
}

// ExplainGoal reports where a goal stands, and why.
func (s *RPC) ExplainGoal(ctx context.Context, in *onboardingv1.ExplainGoalRequest) (*onboardingv1.ExplainGoalResponse, error) {
	_, v, err := s.find(ctx, in.GetGoalId())
	if err != nil {
		return nil, err
	}
	held, err := s.Pause(ctx, v.OrgID)
	if err != nil {
		return nil, err
	}
	e := v.Explain(s.Now(), s.Goals.Disabled, held)
	gates, outcome := v.Gates(s.Now(), held)
	out := &onboardingv1.ExplainGoalResponse{Summary: e.Summary, Next: e.Next, Advice: e.Advice, Outcome: outcome}
	for _, g := range gates {
		out.Gates = append(out.Gates, &explainv1.Gate{
			Name: g.Name, Passed: g.Passed, Fact: g.Fact, Change: g.Change, Since: request.Stamp(g.Since),
		})
	}
	return out, nil
}

// CancelGoal cancels a goal that has not begun.
func (s *RPC) CancelGoal(ctx context.Context, in *onboardingv1.CancelGoalRequest) (*onboardingv1.CancelGoalResponse, error) {
	g, err := s.change(ctx, in.GetGoalId(), s.Goals.Cancel)
	return &onboardingv1.CancelGoalResponse{Goal: g}, err
}

// StopGoal asks the device to end a goal.
func (s *RPC) StopGoal(ctx context.Context, in *onboardingv1.StopGoalRequest) (*onboardingv1.StopGoalResponse, error) {
	g, err := s.change(ctx, in.GetGoalId(), s.Goals.Stop)
	return &onboardingv1.StopGoalResponse{Goal: g}, err
}

// RescheduleGoal moves a goal that has not begun.
func (s *RPC) RescheduleGoal(
	ctx context.Context, in *onboardingv1.RescheduleGoalRequest,
) (*onboardingv1.RescheduleGoalResponse, error) {
	to := Moment{Words: in.GetWhen()}
	if at := in.GetScheduledFor(); at != nil {
		if err := wholeSecond(at); err != nil {
			return nil, err
		}
		to.At = at.AsTime()
	}
	g, err := s.change(ctx, in.GetGoalId(), func(ctx context.Context, c Caller, goalID string) (Goal, error) {
		return s.Goals.Reschedule(ctx, c, goalID, to)
	})
	return &onboardingv1.RescheduleGoalResponse{Goal: g}, err
}

func (s *RPC) change(
	ctx context.Context, goalID string, do func(ctx context.Context, c Caller, goalID string) (Goal, error),
) (*onboardingv1.Goal, error) {
	if err := request.ID("goal_id", goalID); err != nil {
		return nil, err
	}
	ctx, c := s.caller(ctx)
	g, err := do(ctx, c, goalID)
	return s.Goal(g), Refusal(err)
}

// ExecuteGoal is the alarm of a goal.
func (s *RPC) ExecuteGoal(ctx context.Context, in *onboardingv1.ExecuteGoalRequest) (*onboardingv1.ExecuteGoalResponse, error) {
	if err := request.ID("goal_id", in.GetGoalId()); err != nil {
		return nil, err
	}
	outcome, err := s.Goals.Execute(ctx, in.GetGoalId())
	return &onboardingv1.ExecuteGoalResponse{Outcome: outcome}, Refusal(err)
}

// RecordGoalFailure takes QStash's word that an alarm failed with every retry.
func (s *RPC) RecordGoalFailure(
	ctx context.Context, in *onboardingv1.RecordGoalFailureRequest,
) (*onboardingv1.RecordGoalFailureResponse, error) {
	if in.GetSourceMessageId() == "" {
		return nil, request.Invalid("source_message_id must not be empty")
	}
	if !request.IsID(in.GetGoalId()) { // its body was not from here, or cannot be read
		return &onboardingv1.RecordGoalFailureResponse{}, nil
	}
	failed, err := s.Goals.AlarmFailed(ctx, in.GetGoalId(), in.GetSourceMessageId())
	return &onboardingv1.RecordGoalFailureResponse{Failed: failed}, Refusal(err)
}

// Goal returns a goal as a caller sees it.
func (s *RPC) Goal(g Goal) *onboardingv1.Goal {
	return &onboardingv1.Goal{
		GoalId: g.ID, OrgId: g.OrgID, ProfileId: g.ProfileID, DeviceId: g.DeviceID, DeviceKind: string(g.Kind), Goal: g.Goal, Said: g.Said,
		Source: string(g.Source), Status: string(g.Status), Reason: g.Reason, ScheduledFor: timestamppb.New(g.ScheduledFor),
		ScheduledDelay: int64(g.Delay.Seconds()), Understood: g.Understood, Note: g.Note,
		SchedulingPaused: (s.Goals.Disabled || g.SchedulingPaused) && g.Status == Scheduled, WaitingSince: request.Stamp(g.WaitingSince),
		OfflineTries: int32(min(g.OfflineTries, maxTries)), //nolint:gosec // bounded
		StartedAt:    request.Stamp(g.StartedAt), EndedAt: request.Stamp(g.EndedAt), Progress: g.Progress,
		StopRequestedAt: request.Stamp(g.StopAskedAt),
		UndoOf:          g.UndoOf, CreatedAt: timestamppb.New(g.CreatedAt),
	}
}

// maxTries is far beyond what any policy of retries has.
const maxTries = 1 << 20

// Refusal returns what a caller is told of an error that carries something; any other error as it is.
func Refusal(err error) error {
	var unclear *UnclearError
	var status *StatusError
	switch {
	case errors.As(err, &unclear):
		return &rpc.Error{
			Code: codes.InvalidArgument, Reason: onboardingv1.Reason_REASON_TIME_UNCLEAR.String(), Domain: request.Domain, Message: unclear.Error(),
			Meta: map[string]string{"goal": "say it as in \"in 20 minutes\" or \"tomorrow at 9am\"", "understood": unclear.Understood},
		}
	case errors.Is(err, ErrTooFar):
		return request.Refuse(codes.InvalidArgument, onboardingv1.Reason_REASON_TIME_TOO_FAR, ErrTooFar.Error(), 0)
	case errors.As(err, &status):
		meta := map[string]string{"status": string(status.Status)}
		if !status.StartedAt.IsZero() {
			meta["started_at"] = status.StartedAt.UTC().Format(time.RFC3339Nano)
		}
		return &rpc.Error{
			Code: codes.FailedPrecondition, Reason: onboardingv1.Reason_REASON_GOAL_STATUS.String(), Domain: request.Domain, Message: status.Error(),
			Meta: meta,
		}
	}
	return err
}
