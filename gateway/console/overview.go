package console

import (
	"net/http"

	"golang.org/x/sync/errgroup"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	overviewv1 "paceline.internal/proto/gen/paceline/overview/v1"
)

// overviewPage is what pages/overview.html shows.
type overviewPage struct {
	Onboarding *onboardingv1.GetOverviewResponse
	Messaging  *messagingv1.GetMessagingOverviewResponse
	Health     []Health
	Needs      []wanting
	Queues     []*overviewv1.QueueGauges
	Chart      chart
	Switch     string // what may be done about scheduling: the key of its words
}

// wanting is how much of something waits for an operator.
type wanting struct {
	Key   string
	Count *overviewv1.Count
}

// overview says whether everything is all right.
func (c *Console) overview(r *http.Request) (page, error) {
	group, ctx := errgroup.WithContext(r.Context())
	var shown overviewPage
	group.Go(func() (err error) {
		shown.Onboarding, err = c.services.Onboarding.GetOverview(ctx, &onboardingv1.GetOverviewRequest{})
		return err
	})
	group.Go(func() (err error) {
		shown.Messaging, err = c.services.Messaging.GetMessagingOverview(ctx, &messagingv1.GetMessagingOverviewRequest{})
		return err
	})
	group.Go(func() error {
		shown.Health = c.health(ctx)
		return nil
	})
	if err := group.Wait(); err != nil {
		return page{}, err
	}
	waiting := shown.Onboarding.GetAttention()
	for _, w := range []wanting{
		{"overview.parked", waiting.GetParkedSessions()},
		{"overview.doubtful", shown.Messaging.GetParked()},
		{"overview.dead_letters", waiting.GetDeadLetters()},
		{"overview.failed_jobs", waiting.GetFailedJobs()},
		{"overview.failed_outreach", waiting.GetFailedOutreach()},
		{"overview.subscriptions", waiting.GetPausedSubscriptions()},
		{"overview.holds", waiting.GetHeldPeople()},
	} {
		if w.Count.GetCount() > 0 {
			shown.Needs = append(shown.Needs, w)
		}
	}
	shown.Queues = append(shown.Onboarding.GetQueues(), shown.Messaging.GetQueues()...)
	shown.Switch = "scheduling.pause"
	if shown.Onboarding.GetSchedulingPause() != nil {
		shown.Switch = "scheduling.resume"
	}
	shown.Chart = chartOf(shown.Messaging.GetUndelivered())
	return page{Name: "overview", Title: "overview.title", Topic: topicAll, Body: shown}, nil
}

// chart is the texts of the last hour that Twilio accepted and that were not delivered, a bar for each minute: filled those that are on
// their way, hollow those that failed, so that neither is told by its colour alone.
type chart struct {
	Bars            []bar
	Waiting, Failed int
}

// bar is one part of a minute's bar, in the units of the picture: 600 wide, 80 high.
type bar struct {
	Class        string
	X, Y, Height int
}

const (
	chartHeight = 80
	barEvery    = 10
)

func chartOf(minutes []*messagingv1.UndeliveredMinute) (c chart) {
	highest := 1
	for _, m := range minutes {
		highest = max(highest, int(m.GetOnTheirWay().GetCount()+m.GetFailed().GetCount()))
	}
	for i, m := range minutes {
		failed, waiting := int(m.GetFailed().GetCount()), int(m.GetOnTheirWay().GetCount())
		c.Failed, c.Waiting = c.Failed+failed, c.Waiting+waiting
		low := chartHeight
		for _, part := range []struct {
			class string
			n     int
		}{{"failed", failed}, {"waiting", waiting}} {
			if part.n == 0 {
				continue
			}
			height := max(2, part.n*chartHeight/highest)
			low -= height
			c.Bars = append(c.Bars, bar{Class: part.class, X: i * barEvery, Y: max(low, 0), Height: height})
		}
	}
	return c
}
