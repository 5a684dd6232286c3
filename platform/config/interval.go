package config

import "time"

// Interval is the pause between two runs of work that an operator may switch off: a duration above zero, or 0 for never.
type Interval struct{ every time.Duration }

// Every is the time between two; 0 for never.
func (i Interval) Every() time.Duration { return i.every }

// Never reports whether it is not done at all.
func (i Interval) Never() bool { return i.every == 0 }

// String is the duration as text.
func (i Interval) String() string { return i.every.String() }

// MarshalText gives the duration as text.
func (i Interval) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

// UnmarshalText reads a duration that is not negative.
func (i *Interval) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	if err != nil || d < 0 {
		return malformed("must be a duration such as 30s or 5m, or 0 for never")
	}
	i.every = d
	return nil
}
