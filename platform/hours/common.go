package hours

import "time"

// Common returns a window and the zone that it is by, which are open only while w is open in every one of the zones: for a person of whom
// only their number is known, which several zones have. It is in the first zone. All of a year is looked at, so that it holds whichever of
// the zones changes its clocks. Where there is no such time of day, it is the time when most of the zones are open.
func (w Window) Common(zones []*time.Location) (Window, *time.Location) {
	if len(zones) == 0 {
		return w, time.UTC
	}
	if len(zones) == 1 || w.Always() {
		return w, zones[0]
	}
	var open [minutesOfDay]int // in how many pairs of a zone and a month it is open at a minute of the first zone's day
	for month := time.January; month <= time.December; month++ {
		// The rules of the tz database go on from year to year; the day is in no week in which clocks are changed.
		at := time.Date(2026, month, 17, 12, 0, 0, 0, time.UTC)
		_, first := at.In(zones[0]).Zone()
		for _, zone := range zones {
			_, offset := at.In(zone).Zone()
			ahead := (offset - first) / 60
			for minute := range open {
				local := ((minute+ahead)%minutesOfDay + minutesOfDay) % minutesOfDay
				if w.shows(time.Duration(local) * time.Minute) {
					open[minute]++
				}
			}
		}
	}
	most := 0
	for _, n := range open {
		most = max(most, n)
	}
	opens, length := longest(open[:], most)
	return Window{opens: TimeOfDay(opens), closes: TimeOfDay((opens + length) % minutesOfDay)}, zones[0]
}

// longest returns where the longest run of a value in a ring begins, and its length.
func longest(ring []int, value int) (begin, length int) {
	for i := range ring {
		n := 0
		for n < len(ring) && ring[(i+n)%len(ring)] == value {
			n++
		}
		if n > length {
			begin, length = i, n
		}
	}
	return begin, length
}
