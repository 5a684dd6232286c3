package console

import (
	"context"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/gateway/console/drawing"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// trend is the part of the overview that says whether it goes well, over a span.
type trend struct {
	Span      string
	Figures   []figure // none of the last hour, which has a chart of its minutes
	Countries []country
	Total     *country // of those that have a price; nil without a price list
	Currency  string   // of the price list; empty without one
	Unpriced  int64    // segments to countries without a price, where there is a list
	Counted   *timestamppb.Timestamp

	begins []time.Time // of the periods
}

// figure is a chart with its numbers.
type figure struct {
	Name   string // of its title: trend.NAME
	Series []series
	More   bool // it counts up to a limit
	Money  bool // it counts millionths of the currency
}

// series has the numbers of one kind, one for each period. In a chart the first stands on top.
type series struct {
	Name string // of its words: trend.NAME
	Of   []int64
}

// Sum adds up the periods.
func (s series) Sum() (n int64) {
	for _, one := range s.Of {
		n += one
	}
	return n
}

// Sum adds up the kinds.
func (g figure) Sum() (n int64) {
	for _, s := range g.Series {
		n += s.Sum()
	}
	return n
}

// Share returns the percentage of the first kind; -1 where there is one kind, or nothing.
func (g figure) Share() int64 {
	sum := g.Sum()
	if len(g.Series) == 1 || sum == 0 {
		return -1
	}
	return g.Series[0].Sum() * 100 / sum
}

const spanHour = "hour"

// spansShown lists the spans of the overview; the second is shown where none is chosen.
var spansShown = []string{spanHour, "day", "week", "month"}

// spanOf is the span that a query chooses.
func spanOf(chosen string) string {
	if slices.Contains(spansShown, chosen) {
		return chosen
	}
	return spansShown[1]
}

// trend reads how the periods of a span went. Where a service is of the release before, the last hour is shown.
func (c *Console) trend(ctx context.Context, span string, place *time.Location) (t trend, err error) {
	t.Span = span
	if span == spanHour {
		return t, nil
	}
	group, ctx := errgroup.WithContext(ctx)
	var texts *messagingv1.GetMessagingTrendResponse
	var talks *onboardingv1.GetOnboardingTrendResponse
	var settings *onboardingv1.GetSettingsResponse
	group.Go(func() (err error) {
		settings, err = c.services.Onboarding.GetSettings(ctx, &onboardingv1.GetSettingsRequest{})
		return err
	})
	group.Go(func() (err error) {
		texts, err = c.services.Messaging.GetMessagingTrend(ctx, &messagingv1.GetMessagingTrendRequest{Span: span, TimeZone: place.String()})
		return err
	})
	group.Go(func() (err error) {
		talks, err = c.services.Onboarding.GetOnboardingTrend(ctx, &onboardingv1.GetOnboardingTrendRequest{Span: span, TimeZone: place.String()})
		return err
	})
	if err := group.Wait(); status.Code(err) == codes.Unimplemented {
		return trend{Span: spanHour}, nil
	} else if err != nil {
		return trend{}, err
	}
	t.Counted = texts.GetCountedUntil()
	of := func(read func(p *messagingv1.MessagingPeriod) int64) (all []int64) {
		for _, p := range texts.GetPeriods() {
			all = append(all, read(p))
		}
		return all
	}
	completed := figure{Name: "completed", Series: []series{{Name: "conversations"}}}
	for _, p := range talks.GetPeriods() {
		completed.Series[0].Of = append(completed.Series[0].Of, int64(p.GetCompleted().GetCount()))
		completed.More = completed.More || p.GetCompleted().GetMore()
		t.begins = append(t.begins, p.GetBeginsAt().AsTime())
	}
	t.Figures = []figure{
		{Name: "texts", Series: []series{
			{"delivered", of((*messagingv1.MessagingPeriod).GetDelivered)},
			{"under_way", of((*messagingv1.MessagingPeriod).GetUnderWay)},
			{"failed", of((*messagingv1.MessagingPeriod).GetFailed)},
		}},
		{Name: "answers", Series: []series{
			{"replies", of(func(p *messagingv1.MessagingPeriod) int64 { return p.GetReplies() - p.GetOptOuts() })},
			{"opt_outs", of((*messagingv1.MessagingPeriod).GetOptOuts)},
		}},
		completed,
		{Name: "cost", Series: []series{{"segments", of((*messagingv1.MessagingPeriod).GetSegments)}}},
	}
	t = t.priced(texts, priceList(settings.GetSettings().GetSegmentPrices()))
	return t, nil
}

// plot is a figure as it is drawn and written.
type plot struct {
	drawing.Chart

	Title, Unit string
	Rows        []plotRow
}

// plotRow has the numbers of a period.
type plotRow struct {
	Label string
	Of    []int64
	Said  []string // the same, as they are written
}

// Plot draws a figure of a trend in the reader's words and zone.
func (f frame) Plot(t trend, g figure) (p plot) {
	var classes, sums []string
	for _, s := range g.Series {
		classes = append(classes, s.Name)
		sums = append(sums, f.T("trend."+s.Name)+" "+f.Figure(t, g, s.Sum()))
	}
	p.Title = f.T("trend."+g.Name) + ", " + f.T("trend."+t.Span) + ": " + strings.Join(sums, ", ")
	p.Unit = f.T("trend.unit."+g.Name) + " " + f.T("trend.per."+t.Span)
	unit := int64(1)
	if g.Money {
		p.Unit, unit = t.Currency+" "+f.T("trend.per."+t.Span), millionths
	}
	columns := make([]drawing.Column, 0, len(t.begins))
	for i, begins := range t.begins {
		column := f.period(t.Span, len(t.begins)-1-i, begins)
		row, hints := plotRow{Label: column.Hint}, []string{}
		for _, s := range g.Series {
			if i < len(s.Of) {
				row.Of = append(row.Of, s.Of[i])
				hints = append(hints, f.T("trend."+s.Name)+" "+f.Figure(t, g, s.Of[i]))
			}
		}
		for _, n := range row.Of {
			row.Said = append(row.Said, f.Figure(t, g, n))
		}
		p.Rows = append(p.Rows, row)
		column.Parts = slices.Clone(row.Of)
		slices.Reverse(column.Parts)
		column.Hint += "\n" + strings.Join(hints, "\n")
		columns = append(columns, column)
	}
	slices.Reverse(classes)
	p.Chart = drawing.Bars(classes, columns, unit)
	return p
}

// period labels the period that begins at begins; behind counts the periods after it.
func (f frame) period(span string, behind int, begins time.Time) drawing.Column {
	local := begins.In(f.place)
	clock := local.Format("15:04")
	switch span {
	case "day":
		c := drawing.Column{Hint: f.Day(begins) + " " + clock}
		if local.Hour()%6 == 0 {
			c.Label = clock
		}
		return c
	case "week":
		c := drawing.Column{Hint: f.day(begins) + " " + clock, Over: 4}
		if local.Hour() == 0 && behind/4%2 == 0 {
			c.Label = f.day(begins)
		}
		return c
	}
	c := drawing.Column{Hint: f.day(begins), Over: 1}
	if behind%5 == 0 {
		c.Label = c.Hint
	}
	return c
}

// Number writes a number as the reader's language does.
func (f frame) Number(n any) string { return f.printer.Sprint(n) }

// Spans are the spans that the overview may be switched to.
func (trend) Spans() []string { return spansShown }
