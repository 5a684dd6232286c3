package console

import (
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"paceline.internal/gateway/console/drawing"
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
	Trend      trend
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
	group.Go(func() (err error) {
		shown.Trend, err = c.trend(ctx, spanOf(r.Form.Get("span")), c.zoneOf(r))
		return err
	})
	group.Go(func() error {
		shown.Health = c.health(ctx)
		return nil
	})
	var tickets *onboardingv1.TicketCounts
	var late, distressed overviewv1.Count
	group.Go(func() error {
		found, err := c.distressed(ctx, "all")
		distressed.Count, distressed.More = int32(len(found)), len(found) == mostLoud //nolint:gosec // at most mostLoud
		return err
	})
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
		{"overview.distress", &distressed, "/inbox"},
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
	Sent, Delivered, Waiting, Undelivered int64
	More                                  bool // there are more than were counted
	Partial                               bool // messaging is of a release before, and does not say how many were delivered
	columns                               []drawing.Column
}

// byOutcome are the classes of a bar of texts.
var byOutcome = []string{"failed", "under_way", "delivered"}

// Hour draws the last hour, with the times of the day by the reader's clock.
func (f frame) Hour(c chart, title string) plot {
	began := f.Now.In(f.place).Add(-time.Duration(len(c.columns)) * time.Minute)
	for m := 0; m < len(c.columns); m += 15 {
		c.columns[m].Label = began.Add(time.Duration(m) * time.Minute).Format("15:04")
	}
	return plot{Chart: drawing.Bars(byOutcome, c.columns, 1), Title: title, Unit: f.T("trend.unit.texts") + " " + f.T("trend.per.hour")}
}

func chartOf(minutes []*messagingv1.UndeliveredMinute) (c chart) {
	for _, m := range minutes {
		for _, n := range []*overviewv1.Count{m.GetDelivered(), m.GetOnTheirWay(), m.GetFailed(), m.GetRejected()} {
			c.More = c.More || n.GetMore()
		}
		c.Partial = c.Partial || m.GetDelivered() == nil
		lost, waiting := int64(m.GetFailed().GetCount()+m.GetRejected().GetCount()), int64(m.GetOnTheirWay().GetCount())
		delivered := int64(m.GetDelivered().GetCount())
		c.columns = append(c.columns, drawing.Column{Parts: []int64{lost, waiting, delivered}})
		c.Delivered, c.Waiting, c.Undelivered = c.Delivered+delivered, c.Waiting+waiting, c.Undelivered+lost
	}
	c.Sent = c.Delivered + c.Waiting + c.Undelivered
	return c
}
