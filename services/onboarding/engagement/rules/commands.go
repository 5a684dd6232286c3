package rules

import (
	"strings"

	"paceline.internal/platform/letters"
	"paceline.internal/platform/reading/languages"
	"paceline.internal/services/onboarding/words"
)

// Destination is the place that a person wants to be written to.
type Destination string

// The destinations.
const (
	Individual Destination = "individual" // their own phone
	Group      Destination = "group"      // every phone of their household
)

// Destinations lists them all.
func Destinations() []Destination { return []Destination{Individual, Group} }

// Only courtesies may stand around a switch, and a wish before it.
const (
	courtesies = `(?:{courtesy} )*`
	canYou     = `{can-you}(?: {please})?`
	wish       = `(?:(?:` + canYou + `|{i-want}) )?`
)

func switches(to, mode string) languages.Pattern {
	return words.Together().Regexp(`^` + courtesies +
		`(?:` + wish + words.All().Alternatives(to) + `|` + words.All().Alternatives(mode) + `) ` + courtesies + `$`)
}

var (
	toGroup      = switches("to-group", "group-mode")
	toIndividual = switches("to-own", "own-mode")
	request      = words.Together().Regexp(`^` + courtesies + canYou + ` `)
)

// ParseDestination reads a switch of the destination, in every language at once. The whole message must be the switch: "the group meets on
// Monday" and "não mande para o grupo" are none.
func ParseDestination(message string) (Destination, bool) {
	said := strings.Join(letters.Words(message), " ") + " "
	switch {
	case strings.ContainsRune(message, '?') && !request.MatchString(said): // "use the group?" asks what we would do
		return "", false
	case toGroup.MatchString(said):
		return Group, true
	case toIndividual.MatchString(said):
		return Individual, true
	}
	return "", false
}

// Resolve returns the place that a person is written to, and reports whether they prefer another: without a group it is their own
// phone. It is asked when something is sent, so that the newest preference counts.
func Resolve(preferred Destination, hasGroup bool) (to Destination, instead bool) {
	if preferred == Group && hasGroup {
		return Group, false
	}
	return Individual, preferred == Group
}

// FirstDestination is the destination after a person's first message: the group that they wrote in, unless they have chosen.
func FirstDestination(current Destination, chosen, inGroup bool) Destination {
	if !chosen && inGroup {
		return Group
	}
	return current
}
