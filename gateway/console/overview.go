package console

import (
	"net/http"
	"slices"
	"strconv"
	"time"

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
	Refusals   []need // that keep texts back until somebody acts
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
	var tickets *onboardingv1.TicketCounts
	var late overviewv1.Count
	group.Go(func() error {
		out, err := c.tickets(ctx, &onboardingv1.ListTicketsRequest{PageSize: 1})
		tickets = out.GetCounts()
		if err != nil {
			return err
		}
		found, more, err := c.lateTickets(ctx, tickets)
		late.Count, late.More = int32(min(len(found), mostAssigned)), more != ""
		return err
	})
	if err := group.Wait(); err != nil {
		return page{}, err
	}
	shown.Refusals = refusalsIn(shown.Messaging)
	waiting := shown.Onboarding.GetAttention()
	for _, w := range []wanting{
		{"overview.tickets", &overviewv1.Count{Count: tickets.GetOpen()}, "/inbox?view=unassigned"},
		{"overview.late", &late, "/needs?kind=ticket"},
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
	More                                  bool   // there are more than were counted
	Lines                                 []mark // the scale of the numbers
	Partial                               bool   // messaging is of a release before, and does not say how many were delivered
}

// bar is one part of a minute's bar, in the units of the picture: 600 wide, 80 high.
type bar struct {
	Class        string
	X, Y, Height int
}

// mark is a label of an axis.
type mark struct {
	X, Y  int
	Label string
}

// Hour labels the axis of the last hour: the times of the day, by the reader's clock.
func (f frame) Hour() (all []mark) {
	for m := 0; m <= 60; m += 15 {
		at := f.Now.In(f.place).Add(time.Duration(m-60) * time.Minute)
		all = append(all, mark{X: m * barEvery, Label: at.Format("15:04")})
	}
	return all
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
	for _, n := range slices.Compact([]int32{0, highest / 2, highest}) {
		c.Lines = append(c.Lines, mark{Y: chartHeight - int(n*chartHeight/highest), Label: strconv.Itoa(int(n))})
	}
	c.Sent = c.Delivered + c.Waiting + c.Undelivered
	return c
}
