// Package overview counts how everything stands: for the first page of an operator, for the metrics of a scrape, and over time. It reads
// the rows of all rooms, and changes nothing.
package overview

import (
	"cmp"
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	overviewv1 "paceline.internal/proto/gen/paceline/overview/v1"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/engagement"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/request"
	"paceline.internal/services/onboarding/session"
)

// countedUpTo bounds what an overview counts: reading so many entries of an index takes a few milliseconds.
const countedUpTo = 10_000

// RPC serves how everything stands, of OnboardingService.
type RPC struct {
	Store              *Store
	Pauses             *people.Store
	SchedulingDisabled bool
	Now                func() time.Time
}

// GetOverview reports how everything stands in the caller's organisation.
func (s *RPC) GetOverview(ctx context.Context, _ *onboardingv1.GetOverviewRequest) (*onboardingv1.GetOverviewResponse, error) {
	now := s.Now()
	o, err := s.Store.Overview(ctx, request.Org(ctx), now, countedUpTo+1) // one more shows whether there are more
	if err != nil {
		return nil, err
	}
	gauges := o.Conversations
	out := &onboardingv1.GetOverviewResponse{
		At:      timestamppb.New(now),
		InBurst: counted(gauges.InBurst), OverdueSteps: counted(gauges.Overdue), OldestStepDueAt: ago(now, gauges.Lag),
		UnpublishedAlarms: counted(gauges.Unpublished), OldestUnpublishedAt: ago(now, gauges.OldestAlarm),
		OverdueGoals: counted(o.OverdueGoals), SchedulingDisabled: s.SchedulingDisabled,
		Attention: &onboardingv1.Attention{
			ParkedSessions: counted(o.Parked), DeadLetters: counted(gauges.DeadLetters), HeldPeople: counted(o.Held),
			PausedSubscriptions: counted(o.PausedSubscriptions),
		},
	}
	paused, err := s.Pauses.SchedulingPause(ctx, request.Org(ctx))
	if err != nil {
		return nil, err
	}
	out.SchedulingPause = people.Pause(ctx, paused)
	if gauges.InBurst > countedUpTo && gauges.Overdue <= countedUpTo { // those that were not looked at may be overdue, too
		out.OverdueSteps.More = true
	}
	for _, status := range []session.Status{session.Active, session.Stuck, session.Undeliverable, session.Stopped, session.Closed, ""} {
		out.People = append(out.People, &onboardingv1.StatusCount{
			Status: cmp.Or(string(status), people.NotActivated), People: counted(o.People[status]),
		})
	}
	for _, q := range o.Queues {
		out.Queues = append(out.Queues, queueGauges(q, now))
		switch q.Name {
		case conversation.JobsTable:
			out.Attention.FailedJobs = counted(q.Failed)
		case engagement.OutreachTable:
			out.Attention.FailedOutreach = counted(q.Failed)
		}
	}
	return out, nil
}

func queueGauges(q QueueOverview, now time.Time) *overviewv1.QueueGauges {
	return &overviewv1.QueueGauges{
		Queue: q.Name, Running: counted(q.Running), Due: counted(q.Backlog), Scheduled: counted(q.Scheduled), Failed: counted(q.Failed),
		OldestDueAt: ago(now, time.Duration(q.OldestDueSeconds*float64(time.Second))),
	}
}

// counted writes a number that was counted up to one more than the limit.
func counted(n int) *overviewv1.Count {
	return &overviewv1.Count{Count: int32(min(n, countedUpTo)), More: n > countedUpTo} //nolint:gosec // at most the limit
}

// ago returns when something was so long ago; nil for no time.
func ago(now time.Time, d time.Duration) *timestamppb.Timestamp {
	if d <= 0 {
		return nil
	}
	return timestamppb.New(now.Add(-d))
}
