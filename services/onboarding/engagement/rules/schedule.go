package rules

import (
	"fmt"
	"slices"
	"time"

	"paceline.internal/platform/hours"
)

// Job is a job of the calendar.
type Job string

// The jobs.
const (
	Daily  Job = "daily"
	Weekly Job = "weekly"
)

// Jobs lists them all.
func Jobs() []Job { return []Job{Daily, Weekly} }

// How long after its nominal instant a period is caught up.
const (
	CatchUpDaily  = 24 * time.Hour
	CatchUpWeekly = 48 * time.Hour
)

// Calendar has the times of the jobs, in UTC.
type Calendar struct {
	DailyAt  hours.TimeOfDay
	WeeklyOn time.Weekday
	WeeklyAt hours.TimeOfDay
}

// Period is one run of a job that there is to be. Everything in the run is computed from its nominal instant.
type Period struct {
	Job     Job
	Name    string // the UTC date "2026-11-22", or the ISO week "2026-W47"
	Nominal time.Time
}

// Newest returns the newest period that has begun by now.
func (c Calendar) Newest(job Job, now time.Time) Period {
	at, step := c.DailyAt, 1
	day := midnight(now.UTC(), 0)
	if job == Weekly {
		at, step = c.WeeklyAt, 7
		day = monday(now.UTC()).AddDate(0, 0, weekday(c.WeeklyOn))
	}
	nominal := day.Add(time.Duration(at) * time.Minute)
	if nominal.After(now) {
		nominal = nominal.AddDate(0, 0, -step)
	}
	return period(job, nominal)
}

// Due returns the work of a job at now, when its newest period that is recorded has this name, or it has none (""): the
// period to run, if any, and those to record as superseded, the oldest first. Only the newest runs, and only while it can be caught
// up. A job without a record begins now and has missed nothing.
func (c Calendar) Due(job Job, recorded string, now time.Time) (run *Period, superseded []Period) {
	limit, step := CatchUpDaily, 1
	if job == Weekly {
		limit, step = CatchUpWeekly, 7
	}
	newest := c.Newest(job, now)
	if newest.Name <= recorded {
		return nil, nil
	}
	for p, n := newest, 0; recorded != "" && n < longestGap; n++ {
		if p = period(job, p.Nominal.AddDate(0, 0, -step)); p.Name <= recorded {
			break
		}
		superseded = append(superseded, p)
	}
	slices.Reverse(superseded)
	if now.Sub(newest.Nominal) > limit {
		return nil, append(superseded, newest)
	}
	return &newest, superseded
}

// longestGap bounds how many periods are recorded as superseded at once: ten years of days.
const longestGap = 3660

func period(job Job, nominal time.Time) Period {
	name := LocalDay(nominal, time.UTC)
	if job == Weekly {
		name = isoWeek(nominal)
	}
	return Period{Job: job, Name: name, Nominal: nominal}
}

// LocalDay is the day that a person's calendar shows at an instant, as 2026-11-22. No zone is UTC.
func LocalDay(at time.Time, zone *time.Location) string {
	return at.In(orUTC(zone)).Format(time.DateOnly)
}

// isoWeek is the ISO week of an instant in UTC, as 2026-W47: that of the run, which is the same for all people. By the calendars of
// people two runs could be in one week: 09:00 UTC of a Monday is 00:00 in Adak in summer and 23:00 of Sunday in winter.
func isoWeek(at time.Time) string {
	year, week := at.UTC().ISOWeek()
	return fmt.Sprintf("%04d-W%02d", year, week)
}

// monday is the first midnight of the ISO week that a date is in.
func monday(at time.Time) time.Time { return midnight(at, -weekday(at.Weekday())) }

// weekday counts the days from Monday to a day.
func weekday(d time.Weekday) int { return (int(d) + 6) % 7 }

// midnight is the first instant of the day of at, by its clock, or of the one so many days later.
func midnight(at time.Time, days int) time.Time {
	year, month, day := at.Date()
	first := time.Date(year, month, day+days, 0, 0, 0, 0, at.Location())
	if hour := first.Hour(); hour > 12 { // the clock leaps over midnight: time.Date has gone back for it
		_, first = first.ZoneBounds()
	}
	return first
}

// civil is the day that a person's calendar shows, for counting days: as if it were in UTC.
func civil(at time.Time, zone *time.Location) time.Time {
	year, month, day := at.In(orUTC(zone)).Date()
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}

func orUTC(zone *time.Location) *time.Location {
	if zone == nil {
		return time.UTC
	}
	return zone
}
