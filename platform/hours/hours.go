// Package hours is the part of the day in which something may begin, by the clock of a person.
package hours

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrWindow is wrapped by every refusal of a window; the text says what to change.
var ErrWindow = errors.New("invalid quiet hours")

// TimeOfDay is a time of day in minutes since midnight, 0 to 1439.
type TimeOfDay int

// minutesOfDay is the number of minutes that a clock shows before it begins again.
const minutesOfDay = 24 * 60

// The window of an organisation that says nothing else.
const (
	DefaultOpen  TimeOfDay = 8 * 60
	DefaultClose TimeOfDay = 21 * 60
)

// ParseTimeOfDay reads a time of day as 24-hour clocks show it, from 00:00 to 23:59; else ErrWindow.
func ParseTimeOfDay(s string) (TimeOfDay, error) {
	digit := func(i int) int { return int(s[i] - '0') }
	const form = "00:00"
	ok := len(s) == len(form) && s[2] == ':'
	for i := 0; ok && i < len(form); i++ {
		ok = i == 2 || s[i] >= '0' && s[i] <= '9'
	}
	if ok {
		hours, minutes := 10*digit(0)+digit(1), 10*digit(3)+digit(4)
		if hours < 24 && minutes < 60 {
			return TimeOfDay(hours*60 + minutes), nil
		}
	}
	return 0, fmt.Errorf("%w: %.10q must be a time of day from 00:00 to 23:59, such as 08:00; midnight is 00:00", ErrWindow, s)
}

// String is the time as ParseTimeOfDay reads it.
func (t TimeOfDay) String() string { return fmt.Sprintf("%02d:%02d", int(t)/60, int(t)%60) }

// Window is the part of the day in which a conversation may begin: from its opening, up to and without its closing. One that
// closes before it opens goes over midnight. The zero value is always open.
type Window struct {
	opens, closes TimeOfDay
}

// NewWindow is the window between two times of day. They must differ; else ErrWindow.
func NewWindow(opens, closes TimeOfDay) (Window, error) {
	for _, t := range []TimeOfDay{opens, closes} {
		if t < 0 || t >= minutesOfDay {
			return Window{}, fmt.Errorf("%w: %d is no minute of a day", ErrWindow, int(t))
		}
	}
	if opens == closes {
		return Window{}, fmt.Errorf("%w: open and close are both %s; to send at any time, disable them", ErrWindow, opens)
	}
	return Window{opens: opens, closes: closes}, nil
}

// DefaultWindow is the window of an organisation that wants quiet hours and says nothing else: from 08:00 to 21:00.
func DefaultWindow() Window { return Window{opens: DefaultOpen, closes: DefaultClose} }

// ParseWindow reads an opening and a closing such as 08:00-21:00. Nothing, and off, are the window that never closes; else ErrWindow.
func ParseWindow(s string) (Window, error) {
	if s == "" || s == "off" {
		return Window{}, nil
	}
	from, until, _ := strings.Cut(s, "-")
	opens, openErr := ParseTimeOfDay(from)
	closes, closeErr := ParseTimeOfDay(until)
	if err := errors.Join(openErr, closeErr); err != nil {
		return Window{}, fmt.Errorf("%w: write the opening and the closing, such as 08:00-21:00, or off", ErrWindow)
	}
	return NewWindow(opens, closes)
}

// String is the window as ParseWindow reads it.
func (w Window) String() string {
	if w.Always() {
		return "off"
	}
	return w.opens.String() + "-" + w.closes.String()
}

// Opens returns the time of day at which the window opens.
func (w Window) Opens() TimeOfDay { return w.opens }

// Closes returns the time of day at which the window closes.
func (w Window) Closes() TimeOfDay { return w.closes }

// Always reports whether the window never closes.
func (w Window) Always() bool { return w.opens == w.closes }

// shows reports whether the window is open when a clock shows that so much of the day has passed.
func (w Window) shows(passed time.Duration) bool {
	minute := TimeOfDay(passed / time.Minute)
	if w.opens < w.closes {
		return w.opens <= minute && minute < w.closes
	}
	return minute >= w.opens || minute < w.closes
}

// Quiet has the quiet hours of one person: all the time outside its window, by their clock. The zero value has none.
//
// Only the time counts that a clock on the person's wall shows at an instant, and nothing else. Where the clocks are changed that
// settles everything: an opening that the clock leaps over comes when it leaps, and where an hour is repeated the window is
// open or closed both times.
type Quiet struct {
	Window    Window
	Zone      *time.Location // nil is UTC
	ByDefault bool           // the window is the installation's, because the organisation has decided nothing
}

// Next is the first instant, not before at, at which the window is open: at itself, if it is.
func (h Quiet) Next(at time.Time) time.Time {
	if h.Window.Always() {
		return at
	}
	zone := h.Zone
	if zone == nil {
		zone = time.UTC
	}
	const day = minutesOfDay * time.Minute
	for next := at; ; {
		local := next.In(zone)
		passed := sinceMidnight(local)
		if h.Window.shows(passed) {
			return next
		}
		opening := next.Add((time.Duration(h.Window.opens)*time.Minute - passed + day) % day)
		_, change := local.ZoneBounds()
		if change.IsZero() || opening.Before(change) {
			return opening
		}
		next = change.In(at.Location()) // the clock is changed first: what it shows then may be in the window
	}
}

// sinceMidnight returns the part of the day that has passed by what a clock shows, which on a day of a change is not how long ago it began.
func sinceMidnight(local time.Time) time.Duration {
	hours, minutes, seconds := local.Clock()
	return time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute + time.Duration(seconds)*time.Second +
		time.Duration(local.Nanosecond())
}
