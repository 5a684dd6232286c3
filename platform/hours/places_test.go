package hours_test

import (
	"archive/zip"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"paceline.internal/platform/hours"
)

// allZones are the names of the tz database that comes with Go.
func allZones(t *testing.T) []string {
	t.Helper()
	archive, err := zip.OpenReader(filepath.Join(runtime.GOROOT(), "lib", "time", "zoneinfo.zip")) //nolint:staticcheck // of the go that runs the test
	if err != nil {
		t.Skip("this Go has no zoneinfo.zip: ", err)
	}
	defer func() { require.NoError(t, archive.Close()) }()
	var names []string
	for _, file := range archive.File {
		if !strings.HasSuffix(file.Name, "/") {
			names = append(names, file.Name)
		}
	}
	return names
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	noPlaces := map[string]bool{}
	for name := range strings.FieldsSeq("CET CST6CDT EET EST EST5EDT Factory GMT GMT+0 GMT-0 GMT0 Greenwich HST MET MST MST7MDT PST8PDT UCT UTC " +
		"Universal WET Zulu") {
		noPlaces[name] = true
	}
	known := 0
	for _, name := range allZones(t) {
		got, zone, err := hours.ParsePlace(name)
		if noPlaces[name] || strings.HasPrefix(name, "Etc/") {
			require.ErrorIs(t, err, hours.ErrPlace, name)
			continue
		}
		known++
		require.NoError(t, err, "%s is new: add it to places.txt", name)
		require.Equal(t, name, got)
		require.Equal(t, name, zone.String())
		got, _, err = hours.ParsePlace(" " + strings.ToUpper(name))
		require.NoError(t, err)
		require.Equal(t, name, got, "the spelling does not depend on the machine's files")
	}
	require.Greater(t, known, 500)
	for _, name := range []string{
		"", "Local", "localtime", "posixrules", "posix/America/New_York", "right/America/New_York", "US/Pacific-New", "Mars/Olympus", "../etc/passwd",
		"America", "America/", "America/../Zulu", "UTC+3", "GMT-3", "-03:00", "Brasília", "America/New York", "BRT", "PST",
	} {
		_, _, err := hours.ParsePlace(name)
		require.ErrorIs(t, err, hours.ErrPlace, "%q", name)
	}
}

func TestStored(t *testing.T) { //nolint:paralleltest // what is told is the process's
	var told []string
	hours.OnUnreadable(func(name string) { told = append(told, name) })
	t.Cleanup(func() { hours.OnUnreadable(func(string) {}) })
	for _, name := range []string{"", "UTC", "America/New_York", "EST"} { // EST was taken by a release before
		_, known := hours.Stored(name)
		require.True(t, known, name)
	}
	require.Empty(t, told)
	zone, known := hours.Stored("US/Pacific-New")
	require.False(t, known)
	require.Equal(t, time.UTC, zone)
	require.Equal(t, []string{"US/Pacific-New"}, told)
}

// TestCommon checks, for any zones and any window, that what is open is open in every zone, whenever there is such a time of day.
func TestCommon(t *testing.T) {
	t.Parallel()
	var names []string
	for _, name := range allZones(t) {
		if _, _, err := hours.ParsePlace(name); err == nil {
			names = append(names, name)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		var zones []*time.Location
		for _, name := range rapid.SliceOfN(rapid.SampledFrom(names), 1, 5).Draw(t, "zones") {
			_, zone, err := hours.ParsePlace(name)
			require.NoError(t, err)
			zones = append(zones, zone)
		}
		window := hours.DefaultWindow()
		common, zone := window.Common(zones)
		at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(rapid.IntRange(0, 365*24*60).Draw(t, "minute")) * time.Minute)
		open := func(at time.Time) (n int) {
			for _, zone := range zones {
				if (hours.Quiet{Window: window, Zone: zone}).Next(at).Equal(at) {
					n++
				}
			}
			return n
		}
		least, most := 24, -24
		for _, zone := range zones {
			for _, month := range []time.Month{time.January, time.July} {
				_, offset := time.Date(2026, month, 17, 12, 0, 0, 0, time.UTC).In(zone).Zone()
				least, most = min(least, offset/3600), max(most, offset/3600)
			}
		}
		next := hours.Quiet{Window: common, Zone: zone}.Next(at)
		require.False(t, next.Before(at))
		if most-least < 11 { // all of them have hours of day in common
			require.Equal(t, len(zones), open(next), "%v at %s", zones, next)
		}
	})
}
