package operations

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// numberTypes are the costly kinds of numbers, as the API names them.
var numberTypes = []string{"premium", "shared_cost", "personal", "pager", "company", "voicemail", "international"}

// errCap refuses a cap of another form.
var errCap = status.Error(codes.InvalidArgument,
	"a cap is messages:segments, such as 30:90; 0 is no cap, and an empty one is this installation's")

// errNoCountries refuses to replace the countries of the deployment by all.
var errNoCountries = status.Error(codes.InvalidArgument,
	"name the countries that your organisation texts, such as US, BR, or untick that it decides them")

// errNotOurs refuses countries or kinds of numbers that would not count.
var errNotOurs = status.Error(codes.InvalidArgument,
	"tick that your organisation decides which numbers are texted, or leave the countries and kinds of numbers as they were")

// box is one tick of a form.
type box struct {
	Name string
	On   bool
}

// OwnNumbers reports whether the organisation has decided which numbers are texted.
func (p settingsPage) OwnNumbers() bool { return p.GetSending().GetRecipients() != nil }

// Countries returns the countries that are texted, as a form has them.
func (p settingsPage) Countries() string {
	return strings.Join(p.GetSending().GetRecipients().GetCountries(), ", ")
}

// NumberTypes returns the costly kinds of numbers, and which of them are texted. A later release may have stored other ones, which a save
// keeps.
func (p settingsPage) NumberTypes() []box {
	texted := p.GetSending().GetRecipients().GetNumberTypes()
	var all []box
	for _, name := range numberTypes {
		all = append(all, box{name, slices.Contains(texted, name)})
	}
	for _, name := range texted {
		if !slices.Contains(numberTypes, name) {
			all = append(all, box{name, true})
		}
	}
	return all
}

// Caps returns the caps, as a form has them.
func (p settingsPage) Caps() []typedCap {
	caps := p.GetSending().GetCaps()
	return []typedCap{
		{"phone_hour", writeCap(caps.GetPhoneHour())}, {"phone_day", writeCap(caps.GetPhoneDay())}, {"org_hour", writeCap(caps.GetOrgHour())},
	}
}

// typedCap is a cap as a form has it: messages:segments.
type typedCap struct{ Name, Value string }

func writeCap(c *messagingv1.Cap) string {
	switch {
	case c == nil:
		return ""
	case c.GetMessages() == 0 && c.GetSegments() == 0:
		return "0"
	}
	return fmt.Sprintf("%d:%d", c.GetMessages(), c.GetSegments())
}

// readCap reads a cap; nil of an empty one.
func readCap(text string) (*messagingv1.Cap, error) {
	switch text = strings.TrimSpace(text); text {
	case "":
		return nil, nil //nolint:nilnil // the deployment's
	case "0":
		return &messagingv1.Cap{}, nil
	}
	messages, segments, _ := strings.Cut(text, ":")
	m, mErr := strconv.ParseInt(strings.TrimSpace(messages), 10, 32)
	s, sErr := strconv.ParseInt(strings.TrimSpace(segments), 10, 32)
	if mErr != nil || sErr != nil || m < 1 || s < 1 {
		return nil, errCap
	}
	return &messagingv1.Cap{Messages: int32(m), Segments: int32(s)}, nil
}

// wantedSending reads how texts are to be sent; nil where the form changes nothing.
func wantedSending(r *http.Request, now settingsPage) (*messagingv1.Sending, error) {
	wanted := &messagingv1.Sending{
		Brand: strings.TrimSpace(r.Form.Get("brand")), HelpContact: strings.TrimSpace(r.Form.Get("help_contact")),
	}
	caps := &messagingv1.Caps{}
	for name, into := range map[string]**messagingv1.Cap{
		"phone_hour": &caps.PhoneHour, "phone_day": &caps.PhoneDay, "org_hour": &caps.OrgHour,
	} {
		c, err := readCap(r.Form.Get(name))
		if err != nil {
			return nil, err
		}
		*into = c
	}
	if !proto.Equal(caps, &messagingv1.Caps{}) {
		wanted.Caps = caps
	}
	was := now.GetSending()
	if was == nil {
		was = &messagingv1.Sending{}
	}
	var err error
	if wanted.Recipients, err = wantedRecipients(r, was.GetRecipients()); err != nil {
		return nil, err
	}
	if proto.Equal(was, wanted) {
		return nil, nil //nolint:nilnil // nothing is decided anew
	}
	return wanted, nil
}

// wantedRecipients reads which numbers are to be texted; nil for those of the deployment. All countries are decided by the API alone, for
// an empty field may be an oversight. To untick the box alone takes back what is stored; what is filled in anew needs it.
func wantedRecipients(r *http.Request, was *messagingv1.Recipients) (*messagingv1.Recipients, error) {
	wanted := &messagingv1.Recipients{Countries: typesOf(r.Form.Get("countries")), NumberTypes: r.Form["number_type"]}
	if r.Form.Get("own_numbers") == "" {
		if adds(wanted.GetCountries(), was.GetCountries()) || adds(wanted.GetNumberTypes(), was.GetNumberTypes()) {
			return nil, errNotOurs
		}
		return nil, nil //nolint:nilnil // the deployment's
	}
	all := was != nil && len(was.GetCountries()) == 0
	if len(wanted.GetCountries()) == 0 && !all {
		return nil, errNoCountries
	}
	return wanted, nil
}

// adds reports whether a list names what the other one does not.
func adds(list, other []string) bool {
	return slices.ContainsFunc(list, func(one string) bool { return !slices.Contains(other, one) })
}

// version is one change of the settings, with the names of what it changed.
type version struct {
	*onboardingv1.Settings

	Changed []string
}

// unchanging are the fields of settings that no operator decides.
var unchanging = map[protoreflect.Name]bool{
	"updated_at": true, "updated_by": true, "version": true, "sending_pending": true, "quiet_hours_by_default": true,
	"usual_distress_words": true,
}

// versionsShown bounds the changes that the page lists.
const versionsShown = 10

// history compares each version with the one before. Of the oldest that is read nothing is known to compare it with.
func history(versions []*onboardingv1.Settings) []version {
	var all []version
	for i, v := range versions[:min(len(versions), versionsShown)] {
		of := version{Settings: v}
		if i+1 < len(versions) {
			of.Changed = changed(v, versions[i+1])
		}
		all = append(all, of)
	}
	return all
}

// changed returns the names of the fields that differ. None, as of words of distress, is another decision than no decision.
func changed(now, before *onboardingv1.Settings) (names []string) {
	is, was := now.ProtoReflect(), before.ProtoReflect()
	for i := range is.Descriptor().Fields().Len() {
		f := is.Descriptor().Fields().Get(i)
		if !unchanging[f.Name()] && (is.Has(f) != was.Has(f) || !is.Get(f).Equal(was.Get(f))) {
			names = append(names, string(f.Name()))
		}
	}
	return names
}
