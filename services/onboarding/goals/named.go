package goals

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"paceline.internal/platform/letters"
	"paceline.internal/platform/reading/languages"
	"paceline.internal/services/onboarding/goals/timeparse"
	"paceline.internal/services/onboarding/words"
)

// takesOne matches a message that takes back one of several goals. Its groups have the name of the goal.
var takesOne = func() languages.Pattern {
	of := func(keys ...string) string {
		var lines []string
		for _, key := range keys {
			lines = append(lines, languages.Together().Lines("take-"+key)...)
		}
		return `(?:` + strings.Join(lines, "|") + `)`
	}
	polite := of("lead", "courtesy")
	return words.Together().Regexp(fmt.Sprintf(`^(?:%s )*%s (?:%s (.+?)|{goal-which})(?: %s)*$`, polite, of("verb"), of("named"), polite))
}()

// maxNaming bounds a message that names a goal, in bytes: reading the times of a long one takes long.
const maxNaming = 240

var (
	small    = words.Together().Regexp(`^{goal-small}$`)
	nameless = words.Together().Regexp(`^{goal-nameless}$`)
)

// whichOf returns the name of the goal that a message takes back, as it was written: "5pm" of "cancel the 5pm one". It is empty where a
// message names none.
func whichOf(message string) string {
	if len(message) > maxNaming {
		return ""
	}
	all, ends := wordsOf(message)
	for group, name := range takesOne.FindStringSubmatch(strings.Join(all, " ")) {
		said := strings.Fields(name)
		for i := 1; group > 0 && name != "" && i+len(said) <= len(all); i++ { // the first word is of the verb
			if slices.Equal(all[i:i+len(said)], said) {
				return strings.TrimLeftFunc(message[ends[i-1]:ends[i+len(said)-1]], func(r rune) bool { return !letters.InWord(r) })
			}
		}
	}
	return ""
}

// named is the one goal that a message names; nil where it names none or several, because another than the meant one must not be cancelled.
func (t *Texts) named(ctx context.Context, h heard) (*Goal, error) {
	p, err := t.Goals.Store.Prepare(ctx, New{OrgID: h.OrgID, ProfileID: h.person.Session.ProfileID})
	if err != nil {
		return nil, err
	}
	found, err := t.Goals.Store.ByText(ctx, h.person.Session.ProfileID, h.At.Add(-undoWindow))
	if err != nil {
		return nil, err
	}
	return only(found, whichOf(h.Body), p.Owner, h.At), nil
}

// only returns the goal that has a name, if no other has it. A goal that has begun since the message counts: the message may mean it.
func only(found []Goal, name string, owner Owner, at time.Time) (one *Goal) {
	naming, understood := timeparse.Naming{}, false
	for rest := name; !understood && rest != ""; rest = withoutSmall(rest) {
		naming, understood = timeparse.ReadNaming(rest, owner.Locale, owner.Zone, at)
	}
	whole, rest := telling(name), telling(naming.Rest)
	if !understood || slices.ContainsFunc(whole, nameless.MatchString) {
		return nil
	}
	for i, g := range found {
		byTime := naming.Timed() && naming.Fits(g.ScheduledFor) && has(g.Goal, rest)
		if g.Status != Scheduled && !g.StartedAt.After(at) || !byTime && !(len(whole) > 0 && has(g.Goal, whole)) {
			continue
		}
		if one != nil {
			return nil
		}
		one = &found[i]
	}
	return one
}

// withoutSmall returns a name without its first word where that says nothing, and nothing otherwise.
func withoutSmall(name string) string {
	if words, ends := wordsOf(name); len(words) > 1 && small.MatchString(words[0]) {
		return strings.TrimSpace(name[ends[0]:])
	}
	return ""
}

// telling returns the words of a name that tell one goal from another.
func telling(name string) []string {
	all, _ := wordsOf(name)
	return slices.DeleteFunc(all, small.MatchString)
}

// has reports whether a goal has all words of a name.
func has(goal string, name []string) bool {
	all, _ := wordsOf(goal)
	return !slices.ContainsFunc(name, func(word string) bool { return !slices.Contains(all, word) })
}
