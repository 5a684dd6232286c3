package hours

import (
	"cmp"
	"errors"
	"time"
)

// Quarter is the longest time of which each period of Periods is a whole number: the zones are quarters of an hour apart.
const Quarter = 15 * time.Minute

var (
	errSpan = errors.New("span must be day, week or month")
	errZone = errors.New("time_zone must be an IANA name, such as America/Sao_Paulo")
)

// Periods cuts a span that ends with the present period: a day by the hour, a week by six hours, a month by the day, each by the clock of a
// zone; the day, and UTC, where they are empty. It returns where the periods begin, and where the last one ends. A span is shorter than 31
// days. An error names the field that a caller has to mend.
func Periods(now time.Time, span, place string) ([]time.Time, error) {
	zone, err := time.LoadLocation(place) // also the offsets that ParsePlace refuses: no time to come is computed by it
	if err != nil || place == "Local" {
		return nil, errZone
	}
	local := now.In(zone)
	year, month, day := local.Date()
	var edges []time.Time
	switch cmp.Or(span, "day") {
	case "day":
		begin := local.Add(-sinceMidnight(local) % time.Hour)
		for i := -23; i <= 1; i++ { // by the hour that passes, also where the clock is put back
			edges = append(edges, begin.Add(time.Duration(i)*time.Hour))
		}
	case "week":
		for i := -6 * 4; i <= 4; i++ {
			edges = append(edges, time.Date(year, month, day, i*6, 0, 0, 0, zone))
		}
	case "month":
		for i := -29; i <= 1; i++ {
			edges = append(edges, time.Date(year, month, day+i, 0, 0, 0, 0, zone))
		}
	default:
		return nil, errSpan
	}
	return edges, nil
}
