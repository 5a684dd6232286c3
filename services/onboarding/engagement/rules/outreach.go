package rules

import (
	"fmt"
	"time"

	"paceline.internal/platform/hours"
)

// MessageType is a type of outreach.
type MessageType string

// The types.
const (
	HelpRestart  MessageType = "help_restart"
	Welcome      MessageType = "welcome"
	TierUnlock   MessageType = "tier_unlock"
	Goodbye      MessageType = "goodbye"
	Reminder     MessageType = "reminder"
	WeeklyReview MessageType = "weekly_review"
)

// MessageTypes lists them all, the most urgent first.
func MessageTypes() []MessageType {
	return []MessageType{HelpRestart, Welcome, TierUnlock, Goodbye, Reminder, WeeklyReview}
}

// Nudges reports whether it comes without anything that the person has just done. The cap and "reminders off" are about these.
func (t MessageType) Nudges() bool { return t == Goodbye || t == Reminder || t == WeeklyReview }

// Outreach is a message that there is to be.
type Outreach struct {
	Type MessageType
	Tier int // of tier_unlock
	// At is the nominal instant of the run that it comes from, or that of what caused it.
	At   time.Time
	Zone *time.Location // of the person; nil is UTC
}

// Key is the idempotency key: {profile_id}:{event}:{day}, with the person's day; of a weekly review {profile_id}:weekly_review:{week},
// with the run's week. The event names its subtype, so that two tiers of one day are two.
func (o Outreach) Key(profileID string) string {
	event, when := string(o.Type), LocalDay(o.At, o.Zone)
	switch o.Type {
	case Goodbye:
		event = string(GoodbyeSent)
	case TierUnlock:
		event = fmt.Sprintf("%s_%d", o.Type, o.Tier)
	case WeeklyReview:
		when = isoWeek(o.At)
	case HelpRestart, Welcome, Reminder:
	}
	return profileID + ":" + event + ":" + when
}

// Expires returns the instant at which it is of no use any more: a goodbye and a reminder after 7 days, a weekly review at the end of the
// Tuesday after a Monday's run by the clock of the person, the others after 48 hours.
func (o Outreach) Expires() time.Time {
	switch o.Type {
	case Goodbye, Reminder:
		return o.At.Add(7 * 24 * time.Hour)
	case WeeklyReview:
		year, month, day := o.At.UTC().Date()
		return midnight(time.Date(year, month, day, 12, 0, 0, 0, orUTC(o.Zone)), 2).UTC()
	case HelpRestart, Welcome, TierUnlock:
	}
	return o.At.Add(48 * time.Hour)
}

// SendAt is the first instant, not before now, that is between 08:00 and 21:00 by the clock of the person; the skip is expired when
// that is too late.
func (o Outreach) SendAt(now time.Time) (time.Time, Skip) {
	at := Daytime(now, o.Zone)
	if !at.Before(o.Expires()) {
		return time.Time{}, SkipExpired
	}
	return at, ""
}

// Daytime is the first instant, not before now, that is between 08:00 and 21:00 by the clocks of all zones; none, and nil, is UTC.
// These are engagement's quiet hours; no setting changes them.
func Daytime(now time.Time, zones ...*time.Location) time.Time {
	var known []*time.Location
	for _, zone := range zones {
		known = append(known, orUTC(zone))
	}
	window, zone := hours.DefaultWindow().Common(known)
	return hours.Quiet{Window: window, Zone: zone}.Next(now)
}

// WeeklyCap bounds the messages of Nudges that a person gets on any seven days of their calendar.
const WeeklyCap = 2

// Capped returns the reason why it may not be sent at an instant, empty if it may, given when others that Nudges were sent to the person:
// at most one on a day of their calendar, and two on any seven.
func (o Outreach) Capped(at time.Time, sent []time.Time) Skip {
	if !o.Type.Nudges() {
		return ""
	}
	today, week := civil(at, o.Zone), 0
	for _, other := range sent {
		switch ago := today.Sub(civil(other, o.Zone)); {
		case ago == 0:
			return SkipCapped
		case ago > 0 && ago < 7*24*time.Hour:
			week++
		}
	}
	if week >= WeeklyCap {
		return SkipCapped
	}
	return ""
}
