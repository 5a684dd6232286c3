package hours_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"paceline.internal/platform/hours"
)

func window(t require.TestingT, opens, closes string) hours.Window {
	from, err := hours.ParseTimeOfDay(opens)
	require.NoError(t, err)
	until, err := hours.ParseTimeOfDay(closes)
	require.NoError(t, err)
	w, err := hours.NewWindow(from, until)
	require.NoError(t, err)
	return w
}

func zone(t require.TestingT, name string) *time.Location {
	loaded, err := time.LoadLocation(name)
	require.NoError(t, err)
	return loaded
}

// TestNext has the outcomes on the days on which the clocks are changed, and on those on which they are not.
func TestNext(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name          string
		zone          string
		opens, closes string
		at, want      string
	}{
		{name: "InsideIsNow", zone: "UTC", opens: "08:00", closes: "21:00", at: "2026-11-20T12:34:56.789Z", want: "2026-11-20T12:34:56.789Z"},
		{name: "TheOpeningIsInside", zone: "UTC", opens: "08:00", closes: "21:00", at: "2026-11-20T08:00:00Z", want: "2026-11-20T08:00:00Z"},
		{name: "JustBeforeTheOpening", zone: "UTC", opens: "08:00", closes: "21:00", at: "2026-11-20T07:59:59.999999999Z", want: "2026-11-20T08:00:00Z"},
		{name: "JustBeforeTheClosing", zone: "UTC", opens: "08:00", closes: "21:00", at: "2026-11-20T20:59:59.999999999Z", want: "2026-11-20T20:59:59.999999999Z"},
		{name: "TheClosingIsOutside", zone: "UTC", opens: "08:00", closes: "21:00", at: "2026-11-20T21:00:00Z", want: "2026-11-21T08:00:00Z"},
		{name: "AfterMidnightIsTheSameMorning", zone: "UTC", opens: "08:00", closes: "21:00", at: "2026-11-21T01:00:00Z", want: "2026-11-21T08:00:00Z"},
		{name: "ByThePersonsClock", zone: "America/Sao_Paulo", opens: "08:00", closes: "21:00", at: "2026-11-21T01:30:00Z", want: "2026-11-21T08:00:00-03:00"},
		{name: "OverMidnightInside", zone: "UTC", opens: "18:00", closes: "02:00", at: "2026-11-20T23:59:00Z", want: "2026-11-20T23:59:00Z"},
		{name: "OverMidnightInsideAfterIt", zone: "UTC", opens: "18:00", closes: "02:00", at: "2026-11-21T01:59:59Z", want: "2026-11-21T01:59:59Z"},
		{name: "OverMidnightOutside", zone: "UTC", opens: "18:00", closes: "02:00", at: "2026-11-21T02:00:00Z", want: "2026-11-21T18:00:00Z"},
		{name: "UntilMidnight", zone: "UTC", opens: "08:00", closes: "00:00", at: "2026-11-21T00:00:00Z", want: "2026-11-21T08:00:00Z"},
		{name: "FromMidnight", zone: "UTC", opens: "00:00", closes: "09:00", at: "2026-11-21T22:00:00Z", want: "2026-11-22T00:00:00Z"},

		{name: "NightOfTheLeap", zone: "America/New_York", opens: "08:00", closes: "21:00", at: "2026-03-08T00:30:00-05:00", want: "2026-03-08T08:00:00-04:00"},
		{name: "NightOfTheRepeat", zone: "America/New_York", opens: "08:00", closes: "21:00", at: "2026-11-01T00:30:00-04:00", want: "2026-11-01T08:00:00-05:00"},
		{name: "OpeningThatIsLeaptOver", zone: "America/New_York", opens: "02:30", closes: "21:00", at: "2026-03-08T01:00:00-05:00", want: "2026-03-08T03:00:00-04:00"},
		{name: "WindowThatIsLeaptOver", zone: "America/New_York", opens: "02:10", closes: "02:50", at: "2026-03-08T01:00:00-05:00", want: "2026-03-09T02:10:00-04:00"},
		{name: "RepeatedHourFirstTime", zone: "America/New_York", opens: "01:30", closes: "21:00", at: "2026-11-01T01:10:00-04:00", want: "2026-11-01T01:30:00-04:00"},
		{name: "RepeatedHourClosesAgain", zone: "America/New_York", opens: "01:30", closes: "21:00", at: "2026-11-01T01:10:00-05:00", want: "2026-11-01T01:30:00-05:00"},
		{name: "RepeatedHourOpensAgain", zone: "America/New_York", opens: "20:00", closes: "01:30", at: "2026-11-01T01:40:00-04:00", want: "2026-11-01T01:00:00-05:00"},
		{name: "LeapOfHalfAnHour", zone: "Australia/Lord_Howe", opens: "02:15", closes: "21:00", at: "2026-10-04T01:59:00+10:30", want: "2026-10-04T02:30:00+11:00"},
		{name: "RepeatOfHalfAnHour", zone: "Australia/Lord_Howe", opens: "01:45", closes: "21:00", at: "2026-04-05T01:35:00+10:30", want: "2026-04-05T01:45:00+10:30"},
		{name: "MidnightThatIsLeaptOver", zone: "America/Sao_Paulo", opens: "00:00", closes: "00:30", at: "2018-11-03T23:59:00-03:00", want: "2018-11-05T00:00:00-02:00"},
		{name: "DayThatIsLeaptOver", zone: "Pacific/Apia", opens: "08:00", closes: "21:00", at: "2011-12-29T22:00:00-10:00", want: "2011-12-31T08:00:00+14:00"},
		{name: "QuarterHourZone", zone: "Asia/Kathmandu", opens: "08:00", closes: "21:00", at: "2026-11-20T21:30:00+05:45", want: "2026-11-21T08:00:00+05:45"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			at, err := time.Parse(time.RFC3339Nano, tt.at)
			require.NoError(t, err)
			want, err := time.Parse(time.RFC3339Nano, tt.want)
			require.NoError(t, err)
			got := hours.Quiet{Window: window(t, tt.opens, tt.closes), Zone: zone(t, tt.zone)}.Next(at.UTC())
			require.Equal(t, want.UTC(), got)
		})
	}
}

func TestAlwaysOpen(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	require.Equal(t, at, hours.Quiet{}.Next(at))
	require.Equal(t, at, hours.Quiet{Zone: zone(t, "Asia/Tokyo")}.Next(at))
	require.True(t, hours.Window{}.Always())
	require.Equal(t, time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC), hours.Quiet{Window: window(t, "08:00", "21:00")}.Next(at), "no zone is UTC")
}

// places are zones with something to say: hours and half hours of change, none, quarter hours, changes at midnight, a skipped day,
// a change of the country's mind, and two changes within one month.
var places = []string{
	"UTC", "America/New_York", "America/Sao_Paulo", "America/Los_Angeles", "Europe/Lisbon", "Asia/Kolkata", "Asia/Kathmandu",
	"Australia/Lord_Howe", "Australia/Eucla", "Pacific/Apia", "Pacific/Chatham", "America/St_Johns", "America/Caracas", "Africa/Casablanca",
	"Asia/Gaza", "Asia/Pyongyang", "Antarctica/Troll", "Pacific/Kiritimati", "Africa/Monrovia", "America/Havana",
}

// minutes tells which minutes of a day a window has, counted off one by one.
type minutes [24 * 60]bool

func minutesOf(from, until int) (in minutes) {
	for m := from; m != until; m = (m + 1) % len(in) {
		in[m] = true
	}
	return in
}

// open is the definition, from what a clock shows.
func (in *minutes) open(local time.Time) bool { return in[local.Hour()*60+local.Minute()] }

// TestNextIsTheFirstInstantInTheWindow reads every minute between: in the window, not before it was asked for, and no earlier one.
func TestNextIsTheFirstInstantInTheWindow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		location := zone(rt, rapid.SampledFrom(places).Draw(rt, "zone"))
		from := rapid.IntRange(0, 24*60-1).Draw(rt, "open")
		until := (from + rapid.OneOf(rapid.IntRange(1, 40), rapid.IntRange(1, 24*60-1)).Draw(rt, "minutes")) % (24 * 60)
		day := minutesOf(from, until)
		w, err := hours.NewWindow(hours.TimeOfDay(from), hours.TimeOfDay(until))
		require.NoError(rt, err)
		at := instant(rt, location)

		quiet := hours.Quiet{Window: w, Zone: location}
		got := quiet.Next(at)
		require.False(rt, got.Before(at), "never earlier than asked")
		require.True(rt, day.open(got.In(location)), "in the window")
		require.Equal(rt, got, quiet.Next(got), "and staying there")
		require.Equal(rt, at.Location(), got.Location())
		if got.Equal(at) {
			return
		}
		require.False(rt, day.open(at.In(location)), "one that is in the window is not deferred")
		require.False(rt, day.open(got.Add(-1).In(location)), "no later than the very moment that it opens")
		for minute := at.Truncate(time.Minute).Add(time.Minute); minute.Before(got); minute = minute.Add(time.Minute) {
			require.False(rt, day.open(minute.In(location)), "it was open at %s", minute.In(location))
		}
	})
}

// instant is any of the years in which zones had whole minutes, every other time near a change of the clocks.
func instant(rt *rapid.T, location *time.Location) time.Time {
	second := rapid.Int64Range(
		time.Date(1973, 1, 1, 0, 0, 0, 0, time.UTC).Unix(), time.Date(2060, 1, 1, 0, 0, 0, 0, time.UTC).Unix(),
	).Draw(rt, "second")
	at := time.Unix(second, rapid.Int64Range(0, int64(time.Second)-1).Draw(rt, "nanosecond")).UTC()
	if _, change := at.In(location).ZoneBounds(); rapid.Bool().Draw(rt, "near a change") && !change.IsZero() {
		return change.UTC().Add(time.Duration(rapid.Int64Range(-int64(26*time.Hour), int64(3*time.Hour)).Draw(rt, "from the change")))
	}
	return at
}

func TestParseTime(t *testing.T) {
	t.Parallel()
	for minute := range hours.TimeOfDay(24 * 60) {
		read, err := hours.ParseTimeOfDay(minute.String())
		require.NoError(t, err)
		require.Equal(t, minute, read)
	}
	for _, wrong := range []string{
		"", "8:00", "08:00:00", "24:00", "23:60", "-1:00", "08.00", "08:0a", "+8:00", "0800", " 08:00", "08:00 ", "8pm", "٠٨:٠٠", "08:00\x00", "::::",
	} {
		_, err := hours.ParseTimeOfDay(wrong)
		require.ErrorIs(t, err, hours.ErrWindow, "%q", wrong)
		require.ErrorContains(t, err, "such as 08:00")
	}
}

func FuzzParseTime(f *testing.F) {
	for _, seed := range []string{"08:00", "23:59", "24:00", "8:00", "", "0\x00:00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		read, err := hours.ParseTimeOfDay(s)
		if err != nil {
			require.ErrorIs(t, err, hours.ErrWindow)
			return
		}
		require.Equal(t, s, read.String())
	})
}

func TestParseWindow(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"08:00-21:00", "18:00-02:00", "off"} {
		read, err := hours.ParseWindow(s)
		require.NoError(t, err)
		require.Equal(t, s, read.String())
		require.Equal(t, s == "off", read.Always())
	}
	nothing, err := hours.ParseWindow("")
	require.NoError(t, err)
	require.True(t, nothing.Always())
	for _, wrong := range []string{"on", "8-21", "08:00", "08:00-08:00", "08:00-24:00", "08:00-21:00-22:00", " 08:00-21:00"} {
		_, err := hours.ParseWindow(wrong)
		require.ErrorIs(t, err, hours.ErrWindow, "%q", wrong)
	}
}

func TestNewWindow(t *testing.T) {
	t.Parallel()
	_, err := hours.NewWindow(8*60, 8*60)
	require.ErrorIs(t, err, hours.ErrWindow)
	require.ErrorContains(t, err, "both 08:00")
	for _, wrong := range []hours.TimeOfDay{-1, 24 * 60} {
		_, err = hours.NewWindow(wrong, 0)
		require.ErrorIs(t, err, hours.ErrWindow)
		_, err = hours.NewWindow(0, wrong)
		require.ErrorIs(t, err, hours.ErrWindow)
	}
}
