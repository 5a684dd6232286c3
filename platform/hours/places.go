package hours

import (
	_ "embed"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// placesFile has the names of the tz database that are places, links such as US/Pacific among them: all but Etc/*, abbreviations and
// names of whole zones such as EST, CET or GMT, which know no summer time or not that of a place, and names of files such as posixrules.
// It is made from the zoneinfo.zip of Go; TestPlaces says what is missing.
//
//go:embed places.txt
var placesFile string

// ErrPlace is a name that is no place of the tz database.
var ErrPlace = errors.New("time_zone must be the IANA name of a place, such as America/Sao_Paulo: " +
	"abbreviations and offsets such as EST, GMT or Etc/GMT+3 are none, for they do not follow the clocks of a place")

// places are the names by how they are spelled in lower case.
var places = sync.OnceValue(func() map[string]string {
	known := map[string]string{}
	for name := range strings.Lines(placesFile) {
		name = strings.TrimSpace(name)
		known[strings.ToLower(name)] = name
	}
	return known
})

// ParsePlace reads the name of a place as a caller spells it, in capitals or not, and returns the name as the tz database has it, and its
// zone; ErrPlace.
func ParsePlace(raw string) (name string, zone *time.Location, err error) {
	name, known := places()[strings.ToLower(strings.TrimSpace(raw))]
	if !known {
		return "", nil, ErrPlace
	}
	if zone, err = time.LoadLocation(name); err != nil {
		return "", nil, ErrPlace
	}
	return name, zone, nil
}

var unreadable atomic.Pointer[func(name string)]

// OnUnreadable has a function told of each stored zone that is not known any more, at each use of it. A process calls it once, before it
// serves.
func OnUnreadable(tell func(name string)) { unreadable.Store(&tell) }

// zones has a *time.Location for each name that Stored has read: at most those of the tz database, as it was when the process began.
var zones sync.Map

// Stored returns the zone of a name that was stored, a place or UTC; false for one that is not known any more, which is reported.
func Stored(name string) (*time.Location, bool) {
	if name == "" || name == "UTC" {
		return time.UTC, true
	}
	if read, found := zones.Load(name); found {
		zone, _ := read.(*time.Location)
		return zone, true
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		if tell := unreadable.Load(); tell != nil {
			(*tell)(name)
		}
		return time.UTC, false
	}
	zones.Store(name, zone)
	return zone, true
}
