package people

import (
	"time"

	"paceline.internal/platform/hours"
	"paceline.internal/platform/phone"
	"paceline.internal/services/onboarding/session"
)

// SQLUsualZone selects the time zone of a person, p, who has none: the organisation's.
const SQLUsualZone = `coalesce((select o.time_zone from organisation_settings o where o.org_id = p.org_id), 'UTC')`

// SQLPaused begins the question whether scheduling of an organisation is paused, by its operators or because it is suspended, and its id
// ends it: a look into two primary keys.
const SQLPaused = `exists (select from paused_organisations z where z.org_id = `

// SQLEnded begins the question whether an organisation has ended, and its id ends it. Nothing of one that has ended leaves the deployment.
const SQLEnded = `exists (select from organisations e where e.wanted = 'ended' and e.org_id = `

// SQLUnattended is true for a ticket i that opened because nothing answered its person, as long as it has no answer and no note. It keeps
// no texts back. Who writes a note has read it, and means to answer.
const SQLUnattended = `(i.status = 'open' and i.reason = '` + string(session.Unclaimed) + `' and i.answers = 0 and i.notes = 0)`

// Zones returns the time zones that a person may be in: the stored one, or else all that their number allows, or else the usual one of the
// organisation. A stored one that is not known any more is reported, and counts as none.
func Zones(own, number, usual string) []*time.Location {
	if own != "" {
		if zone, known := hours.Stored(own); known {
			return []*time.Location{zone}
		}
	}
	if zones := phone.Zones(number); len(zones) > 0 {
		return zones
	}
	zone, _ := hours.Stored(usual)
	return []*time.Location{zone}
}
