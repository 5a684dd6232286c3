package rules

import (
	"bytes"
	_ "embed" // the default configuration
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"paceline.internal/platform/hours"
)

// ErrConfig is wrapped by every problem of an engagement file.
var ErrConfig = errors.New("engagement file refused")

// TierCount is the number of tiers.
const TierCount = 3

// Config is an engagement file. ParseConfig and DefaultConfig make one, and it never changes.
type Config struct {
	Limits
	Calendar

	Version      string
	WeeklyWindow time.Duration
	Tiers        [TierCount][]string // the actions of each tier; one action may be in several
	Uncounted    []string            // actions that are known and complete nothing
	Recogniser   bool
}

//go:embed engagement.json
var defaultConfig []byte

// DefaultConfig is the configuration that is built in.
func DefaultConfig() Config {
	config, err := ParseConfig(defaultConfig)
	if err != nil {
		panic(err) // the embedded file is part of the program, and a test reads it
	}
	return config
}

// ParseConfig reads an engagement file and reports every problem at once, each wrapping ErrConfig. The form is that of
// engagement.json in this folder: every field is there, and no other.
func ParseConfig(file []byte) (Config, error) {
	f, err := fieldsOf(file)
	if err != nil {
		return Config{}, err
	}
	const day = 24 * time.Hour
	c := Config{
		Limits: Limits{
			Inactivity:     f.duration("inactivity_days", day, 365),
			GoodbyeTimeout: f.duration("goodbye_timeout_hours", time.Hour, 30*24),
			RemindLater:    f.duration("remind_later_days", day, 365),
		},
		Calendar:     f.calendar(),
		WeeklyWindow: f.duration("weekly_window_days", day, 31),
	}
	if f.read("version", &c.Version, "a text") && c.Version == "" {
		f.problemf("version", "is empty")
	}
	f.tiers(&c)
	f.read("recogniser", &c.Recogniser, "true or false")
	for _, name := range slices.Sorted(maps.Keys(f.raw)) {
		f.problemf(name, "is no field of this file")
	}
	if err := errors.Join(f.problems...); err != nil {
		return Config{}, err
	}
	return c, nil
}

// ParseCalendar reads the calendar of an engagement file, whatever else the file has.
func ParseCalendar(file []byte) (Calendar, error) {
	f, err := fieldsOf(file)
	if err != nil {
		return Calendar{}, err
	}
	calendar := f.calendar()
	return calendar, errors.Join(f.problems...)
}

// Actions are the actions that are known, in their order, each once.
func (c Config) Actions() []string {
	var all []string
	for _, action := range slices.Concat(slices.Concat(c.Tiers[:]...), c.Uncounted) {
		if !slices.Contains(all, action) {
			all = append(all, action)
		}
	}
	return all
}

// fields holds the fields of a file that were not read yet, and the problems of those that were.
type fields struct {
	raw      map[string]json.RawMessage
	problems []error
}

func fieldsOf(file []byte) (*fields, error) {
	f := &fields{}
	decoder := json.NewDecoder(bytes.NewReader(file))
	if err := decoder.Decode(&f.raw); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: something follows the object", ErrConfig)
	}
	return f, nil
}

func (f *fields) problemf(name, format string, args ...any) {
	f.problems = append(f.problems, fmt.Errorf("%w: %.40s %s", ErrConfig, name, fmt.Sprintf(format, args...)))
}

// read takes a field, and says whether it is there and of its kind.
func (f *fields) read(name string, to any, kind string) bool {
	raw, found := f.raw[name]
	delete(f.raw, name)
	if !found {
		f.problemf(name, "is missing")
		return false
	}
	if string(raw) == "null" || json.Unmarshal(raw, to) != nil {
		f.problemf(name, "%.60s must be %s", raw, kind)
		return false
	}
	return true
}

func (f *fields) duration(name string, unit time.Duration, most int) time.Duration {
	var n int
	if f.read(name, &n, "a whole number") && (n < 1 || n > most) {
		f.problemf(name, "%d must be 1 to %d", n, most)
	}
	return time.Duration(min(max(n, 0), most)) * unit
}

func (f *fields) calendar() Calendar {
	return Calendar{DailyAt: f.timeOfDay("daily_at"), WeeklyOn: f.weekday("weekly_on"), WeeklyAt: f.timeOfDay("weekly_at")}
}

func (f *fields) timeOfDay(name string) hours.TimeOfDay {
	var s string
	if !f.read(name, &s, "a time of day such as 06:00") {
		return 0
	}
	at, err := hours.ParseTimeOfDay(s)
	if err != nil {
		f.problemf(name, "%.20q must be a time of day from 00:00 to 23:59, in UTC", s)
	}
	return at
}

func (f *fields) weekday(name string) time.Weekday {
	var s string
	if !f.read(name, &s, "a day of the week such as monday") {
		return 0
	}
	for day := time.Sunday; day <= time.Saturday; day++ {
		if strings.ToLower(day.String()) == s {
			return day
		}
	}
	f.problemf(name, "%.20q must be monday, tuesday, wednesday, thursday, friday, saturday or sunday", s)
	return 0
}

func (f *fields) tiers(c *Config) {
	var tiers [][]string
	if f.read("tiers", &tiers, "three lists of actions") && len(tiers) != TierCount {
		f.problemf("tiers", "must be three lists of actions, not %d", len(tiers))
	}
	counted := map[string]bool{}
	for i, actions := range tiers {
		if i < TierCount {
			c.Tiers[i] = actions
		}
		name := fmt.Sprintf("tiers, tier %d", i+1)
		if len(actions) == 0 {
			f.problemf(name, "has no action")
		}
		f.actions(name, actions)
		for _, action := range actions {
			counted[action] = true
		}
	}
	if !f.read("uncounted_actions", &c.Uncounted, "a list of actions") {
		return
	}
	f.actions("uncounted_actions", c.Uncounted)
	for _, action := range c.Uncounted {
		if counted[action] {
			f.problemf("uncounted_actions", "%q is counted in a tier", action)
		}
	}
}

func (f *fields) actions(name string, actions []string) {
	for i, action := range actions {
		if len(action) == 0 || len(action) > 64 || strings.Trim(action, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" || action == completedAt {
			f.problemf(name, "%.70q must be 1 to 64 of a-z, 0-9 and _, and not %s", action, completedAt)
		}
		if slices.Contains(actions[:i], action) {
			f.problemf(name, "%.70q is there already", action)
		}
	}
}
