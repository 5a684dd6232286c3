package rules_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"paceline.internal/services/onboarding/engagement/rules"
)

var calendar = rules.DefaultConfig().Calendar

func instant(t require.TestingT, s string) time.Time {
	at, err := time.Parse(time.RFC3339, s)
	require.NoError(t, err)
	return at
}

func zone(t require.TestingT, name string) *time.Location {
	loaded, err := time.LoadLocation(name)
	require.NoError(t, err)
	return loaded
}

// places are zones with something to say: none, halves and quarters of hours, the ends of the world, changes at midnight, a skipped day.
var places = []string{
	"UTC", "America/Sao_Paulo", "America/New_York", "America/Adak", "Pacific/Honolulu", "Pacific/Kiritimati", "Pacific/Apia", "Asia/Kathmandu",
	"Australia/Lord_Howe", "Pacific/Chatham", "Asia/Gaza", "America/Havana", "Europe/Lisbon", "Africa/Casablanca", "Pacific/Pago_Pago",
}

func names(periods []rules.Period) (all []string) {
	for _, p := range periods {
		all = append(all, p.Name)
	}
	return all
}

func TestTheNewestMissedPeriodRuns(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name       string
		job        rules.Job
		recorded   string
		now        string
		run        string
		superseded []string
	}{
		{name: "DailyAtSix", job: rules.Daily, recorded: "2026-11-21", now: "2026-11-22T06:00:00Z", run: "2026-11-22"},
		{name: "DailyNotBefore", job: rules.Daily, recorded: "2026-11-21", now: "2026-11-22T05:59:59Z"},
		{name: "DailyOnce", job: rules.Daily, recorded: "2026-11-22", now: "2026-11-23T05:59:59Z"},
		{name: "DailyAfterDowntime", job: rules.Daily, recorded: "2026-11-18", now: "2026-11-22T05:00:00Z", run: "2026-11-21", superseded: []string{"2026-11-19", "2026-11-20"}},
		{name: "DailyOverTheYear", job: rules.Daily, recorded: "2026-12-30", now: "2027-01-01T07:00:00Z", run: "2027-01-01", superseded: []string{"2026-12-31"}},
		{name: "DailyBeginsNow", job: rules.Daily, now: "2026-11-22T12:00:00Z", run: "2026-11-22"},
		{name: "WeeklyOnMondayAtNine", job: rules.Weekly, recorded: "2026-W47", now: "2026-11-23T09:00:00Z", run: "2026-W48"},
		{name: "WeeklyNotBefore", job: rules.Weekly, recorded: "2026-W47", now: "2026-11-23T08:59:59Z"},
		{name: "WeeklyOnce", job: rules.Weekly, recorded: "2026-W48", now: "2026-11-29T23:00:00Z"},
		{name: "WeeklyWithin48Hours", job: rules.Weekly, recorded: "2026-W46", now: "2026-11-25T09:00:00Z", run: "2026-W48", superseded: []string{"2026-W47"}},
		{name: "WeeklyAfter48Hours", job: rules.Weekly, recorded: "2026-W47", now: "2026-11-25T09:00:01Z", superseded: []string{"2026-W48"}},
		{name: "WeeklyOverTheYearOf53Weeks", job: rules.Weekly, recorded: "2026-W52", now: "2027-01-04T10:00:00Z", run: "2027-W01", superseded: []string{"2026-W53"}},
		{name: "WeeklyBeginsNow", job: rules.Weekly, now: "2026-11-24T12:00:00Z", run: "2026-W48"},
		{name: "WeeklyBeginsWithTheNext", job: rules.Weekly, now: "2026-11-28T12:00:00Z", superseded: []string{"2026-W48"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			run, superseded := calendar.Due(tt.job, tt.recorded, instant(t, tt.now))
			require.Equal(t, tt.superseded, names(superseded))
			if tt.run == "" {
				require.Nil(t, run)
				return
			}
			require.NotNil(t, run)
			require.Equal(t, tt.run, run.Name)
			again, superseded := calendar.Due(tt.job, run.Name, instant(t, tt.now))
			require.Nil(t, again, "exactly once")
			require.Empty(t, superseded)
		})
	}
	require.Equal(t, []rules.Job{"daily", "weekly"}, rules.Jobs())
	_, superseded := calendar.Due(rules.Daily, "1900-01-01", start)
	require.LessOrEqual(t, len(superseded), 3660, "bounded")
}

// Whenever the loop looks, and however long it was down, each period is run or recorded as superseded exactly once.
func TestEveryPeriodIsSettledExactlyOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := rules.Calendar{
			DailyAt: calendar.DailyAt, WeeklyAt: calendar.WeeklyAt, WeeklyOn: time.Weekday(rapid.IntRange(0, 6).Draw(t, "weekday")),
		}
		job := rapid.SampledFrom(rules.Jobs()).Draw(t, "job")
		now := time.Unix(rapid.Int64Range(1_700_000_000, 2_500_000_000).Draw(t, "now"), 0)
		first := c.Newest(job, now)
		recorded := []string{first.Name}
		for range rapid.IntRange(1, 8).Draw(t, "looks") {
			now = now.Add(time.Duration(rapid.Int64Range(1, int64(20*day)).Draw(t, "later")))
			run, superseded := c.Due(job, recorded[len(recorded)-1], now)
			recorded = append(recorded, names(superseded)...)
			if run != nil {
				require.Equal(t, c.Newest(job, now), *run)
				require.False(t, run.Nominal.After(now))
				require.LessOrEqual(t, now.Sub(run.Nominal), map[rules.Job]time.Duration{rules.Daily: 24 * time.Hour, rules.Weekly: 48 * time.Hour}[job])
				recorded = append(recorded, run.Name)
			}
			require.Equal(t, c.Newest(job, now).Name, recorded[len(recorded)-1])
		}
		step := map[rules.Job]int{rules.Daily: 1, rules.Weekly: 7}[job]
		for i, name := range recorded {
			require.Equal(t, c.Newest(job, first.Nominal.AddDate(0, 0, i*step)).Name, name, "none is left out and none is there twice")
		}
	})
}

// The day and the week are those of calendars of paper, in any zone and over the ends of years.
func TestS4_32_LocalDaysAndISOWeeks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		location := zone(t, rapid.SampledFrom(places).Draw(t, "zone"))
		at := time.Unix(rapid.Int64Range(1_000_000_000, 2_500_000_000).Draw(t, "at"), 0).UTC()
		if rapid.Bool().Draw(t, "at the end of a year") {
			at = time.Date(at.Year(), 12, 29, 0, 0, 0, 0, time.UTC).Add(time.Duration(rapid.IntRange(0, 7*24*60).Draw(t, "minute")) * time.Minute)
		}
		local := at.In(location)
		o := rules.Outreach{Type: rules.Reminder, At: at, Zone: location}
		require.Equal(t, fmt.Sprintf("p:reminder:%04d-%02d-%02d", local.Year(), local.Month(), local.Day()), o.Key("p"))

		review := rules.Outreach{Type: rules.WeeklyReview, At: at, Zone: location}
		var year, week int
		_, err := fmt.Sscanf(review.Key("p"), "p:weekly_review:%d-W%d", &year, &week)
		require.NoError(t, err)
		// The first week is that of January 4; the weeks begin on Mondays.
		january := time.Date(year, 1, 4, 0, 0, 0, 0, time.UTC)
		begins := january.AddDate(0, 0, (week-1)*7-(int(january.Weekday())+6)%7)
		require.False(t, at.Before(begins))
		require.True(t, at.Before(begins.AddDate(0, 0, 7)))

		monday := begins.Add(9 * time.Hour)
		this, next := rules.Outreach{Type: rules.WeeklyReview, At: monday, Zone: location}, rules.Outreach{Type: rules.WeeklyReview, At: monday.AddDate(0, 0, 7), Zone: location}
		require.NotEqual(t, this.Key("p"), next.Key("p"), "two runs are two reviews")
		tuesday := begins.AddDate(0, 0, 1)
		last := this.Expires().Add(-1).In(location)
		require.Equal(t, tuesday.Format(time.DateOnly), last.Format(time.DateOnly), "the end of its Tuesday")
		require.NotEqual(t, tuesday.Format(time.DateOnly), this.Expires().In(location).Format(time.DateOnly))
	})
}
