package console

import (
	"net/http"

	"golang.org/x/sync/errgroup"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	overviewv1 "paceline.internal/proto/gen/paceline/overview/v1"
)

// overviewPage is the data of pages/overview.html.
type overviewPage struct {
	Onboarding *onboardingv1.GetOverviewResponse
	Messaging  *messagingv1.GetMessagingOverviewResponse
	Health     []Health
	Needs      []wanting
	Queues     []*overviewv1.QueueGauges
	Chart      chart
	Switch     string // what may be done about scheduling: the key of its words
}

// wanting is a number of things that wait for an operator.
type wanting struct {
	Key   string
	Count *overviewv1.Count
	To    string // where they are listed
}

// overview makes the page that shows whether everything is all right.
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
	refused := &overviewv1.Count{Count: int32(len(shown.Messaging.GetRefusals()))} //nolint:gosec // as many as there are codes
	for _, w := range []wanting{
		{"overview.refusals", refused, "/needs?kind=refusal"},
		{"overview.parked", waiting.GetParkedSessions(), "/needs?kind=session"},
		{"overview.doubtful", shown.Messaging.GetParked(), "/needs?kind=message"},
		{"overview.dead_letters", waiting.GetDeadLetters(), "/needs?kind=letter"},
		{"overview.failed_jobs", waiting.GetFailedJobs(), "/needs?kind=job"},
		{"overview.failed_outreach", waiting.GetFailedOutreach(), "/needs?kind=outreach"},
		{"overview.subscriptions", waiting.GetPausedSubscriptions(), "/needs?kind=subscription"},
		{"overview.holds", waiting.GetHeldPeople(), "/people?held=on"},
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

// chart is the texts of the last hour, a bar for each minute: full those that were delivered, grey those that are on their way, hollow
// those that did not reach the person, so that none is told by its colour alone.
type chart struct {
	Bars                                  []bar
	Sent, Delivered, Waiting, Undelivered int
	More                                  bool // there are more than were counted
	Partial                               bool // messaging is of a release before, and does not say how many were delivered
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
	highest := int32(1)
	for _, m := range minutes {
		highest = max(highest, m.GetDelivered().GetCount()+m.GetOnTheirWay().GetCount()+m.GetFailed().GetCount()+m.GetRejected().GetCount())
		for _, n := range []*overviewv1.Count{m.GetDelivered(), m.GetOnTheirWay(), m.GetFailed(), m.GetRejected()} {
			c.More = c.More || n.GetMore()
		}
		c.Partial = c.Partial || m.GetDelivered() == nil
	}
	for i, m := range minutes {
		lost := m.GetFailed().GetCount() + m.GetRejected().GetCount()
		c.Delivered += int(m.GetDelivered().GetCount())
		c.Waiting, c.Undelivered = c.Waiting+int(m.GetOnTheirWay().GetCount()), c.Undelivered+int(lost)
		low := chartHeight
		for _, part := range []struct {
			class string
			n     int32
		}{{"failed", lost}, {"waiting", m.GetOnTheirWay().GetCount()}, {"delivered", m.GetDelivered().GetCount()}} {
			if part.n == 0 {
				continue
			}
			height := int(max(2, part.n*chartHeight/highest))
			low -= height
			c.Bars = append(c.Bars, bar{Class: part.class, X: i * barEvery, Y: max(low, 0), Height: height})
		}
	}
	c.Sent = c.Delivered + c.Waiting + c.Undelivered
	return c
}
