package console

import (
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"paceline.internal/gateway/console/signin"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// preference is one setting of a person, as a page shows it.
type preference struct {
	Name  string // reminders, tips, destination
	Value string // what is in force
	Other string // what it may be changed to; empty where there is nothing to choose
}

// mePage is the data of pages/me.html.
type mePage struct {
	Preferences []preference
	Stopped     bool // the person has sent STOP, so nothing comes whatever they prefer
}

// errNotAPerson: an operator has no preferences.
var errNotAPerson = status.Error(codes.PermissionDenied, "only a person who signed in with their own token has preferences here")

// personOf returns the profile of the person who signed in.
func personOf(s signin.Session) (profileID string, err error) {
	if s.Role != rpc.RoleUser {
		return "", errNotAPerson
	}
	return s.Subject, nil
}

// me shows a person what they want to get. A preference that was never said has its default from the service.
func (c *Console) me(r *http.Request) (page, error) {
	id, err := personOf(signin.SessionFrom(r.Context()))
	if err != nil {
		return page{}, err
	}
	out, err := c.services.Engagement.GetEngagement(r.Context(), &onboardingv1.GetEngagementRequest{ProfileId: id})
	if err != nil {
		return page{}, err
	}
	e := out.GetEngagement()
	return page{Name: "me", Title: "me.title", Topic: id, Body: mePage{
		Preferences: preferencesOf(e.GetPreferences(), e.GetHouseholdId() != ""), Stopped: e.GetSkip() == "opted_out",
	}}, nil
}

// preferencesOf are the settings of a person. Only a member of a household may choose the group.
func preferencesOf(p *onboardingv1.Preferences, household bool) []preference {
	if p == nil {
		return nil
	}
	other := map[string]string{"on": "off", "off": "on", "group": "individual"}
	if household {
		other["individual"] = "group"
	}
	return []preference{
		{"reminders", p.GetReminders(), other[p.GetReminders()]},
		{"tips", p.GetTips(), other[p.GetTips()]},
		{"destination", p.GetDestination(), other[p.GetDestination()]},
	}
}

// prefer changes one preference, as the person. It says what is in force afterwards: of two words the later holds, and a text may be later.
func (c *Console) prefer(r *http.Request) (notice, error) {
	id, err := personOf(signin.SessionFrom(r.Context()))
	if err != nil {
		return notice{}, err
	}
	name, value := r.PathValue("preference"), r.Form.Get("value")
	in := &onboardingv1.SetPreferencesRequest{ProfileId: id}
	field, ok := map[string]*string{"reminders": &in.Reminders, "tips": &in.Tips, "destination": &in.Destination}[name]
	if !ok || value == "" {
		return notice{}, errBadForm
	}
	*field = value
	out, err := c.services.Engagement.SetPreferences(r.Context(), in)
	if key := whyNotPreferred(err); key != "" {
		return notice{Key: key, Bad: true}, nil
	}
	for _, p := range preferencesOf(out.GetPreferences(), false) {
		if p.Name == name {
			return said("me." + name + "." + p.Value), err
		}
	}
	return notice{}, err
}

// whyNotPreferred is the key of why a preference was not changed, of what a person may meet; empty for every other error.
func whyNotPreferred(err error) string {
	reason, _ := rpc.Reason(err)
	switch {
	case reason == onboardingv1.Reason_REASON_NO_HOUSEHOLD.String():
		return "me.no_household"
	case status.Code(err) == codes.Unavailable, status.Code(err) == codes.DeadlineExceeded:
		return "me.away"
	}
	return ""
}
