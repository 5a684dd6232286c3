package inbound

import "time"

// Late reports whether a text was found in Twilio's record of it because its webhook never came.
func (m Message) Late() bool { return !m.ReceivedAt.IsZero() }

// String is the effect's name in lower case, for logs and metrics.
func (e Effect) String() string {
	switch e {
	case EffectNone:
		return "none"
	case EffectOptOut:
		return "opt_out"
	case EffectOptIn:
		return "opt_in"
	case EffectHelp:
		return "help"
	case EffectOvertaken:
		return "overtaken"
	case EffectDoubtful:
		return "doubtful"
	}
	return "unknown"
}

// told is a detail of the timeline, with how late the text is that it is about.
func (r Recorded) told(detail string) string {
	if r.LateBy == 0 {
		return detail
	}
	late := "late by " + r.LateBy.Round(time.Second).String()
	if detail == "" {
		return late
	}
	return detail + "; " + late
}
