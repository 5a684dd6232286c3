package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	locales "paceline.internal/platform/reading/languages"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

const peopleShown = 50

// peoplePage is the data of pages/people.html.
type peoplePage struct {
	Query, State, Locale string
	Held, Stopped        bool
	States, Locales      []string
	People               []*onboardingv1.Profile
	Next                 string      // the address of the next page; empty on the last
	Texts                []foundText // of people, with the words of the search
	Problem              string      // what is wrong with the search; empty for nothing
}

// people finds and lists them.
func (c *Console) people(r *http.Request) (page, error) {
	q := strings.TrimSpace(r.Form.Get("q"))
	shown := peoplePage{
		Query: q, State: r.Form.Get("state"), Locale: r.Form.Get("locale"), Held: r.Form.Get("held") != "", Stopped: r.Form.Get("stopped") != "",
		States: []string{"active", "stopped", "closed", "stuck", "undeliverable", "none", "parked"}, Locales: locales.Written(),
	}
	in := &onboardingv1.ListProfilesRequest{
		State: shown.State, Locale: shown.Locale, Held: shown.Held, OptedOut: shown.Stopped,
		Query: q, PageSize: peopleShown, PageToken: r.Form.Get("page"),
	}
	found, token, err := c.found(r.Context(), q, in)
	switch status.Code(err) {
	case codes.OK, codes.NotFound:
	case codes.InvalidArgument:
		shown.Problem = saidBy(err)
	default:
		return page{}, err
	}
	if r.Form.Get("page") == "" {
		shown.Texts = c.textsWith(r.Context(), q)
	}
	if shown.People = found; token != "" {
		next := url.Values{}
		for _, field := range []string{"q", "state", "locale", "held", "stopped"} {
			if value := r.Form.Get(field); value != "" {
				next.Set(field, value)
			}
		}
		next.Set("page", token)
		shown.Next = root + "/people?" + next.Encode()
	}
	return page{Name: "people", Title: "people.title", Body: shown}, nil
}

// found is the one with this id, or a page of those that the filter wants.
func (c *Console) found(
	ctx context.Context, q string, in *onboardingv1.ListProfilesRequest,
) (people []*onboardingv1.Profile, next string, err error) {
	if uuid.Validate(q) == nil {
		got, err := c.services.Onboarding.GetProfile(ctx, &onboardingv1.GetProfileRequest{ProfileId: q})
		if err != nil {
			return nil, "", err
		}
		return []*onboardingv1.Profile{got.GetProfile()}, "", nil
	}
	got, err := c.services.Onboarding.ListProfiles(ctx, in)
	return got.GetProfiles(), got.GetNextPageToken(), err
}

// withPhone is the person who has a number, in any international spelling; nil when it is no person's.
func (c *Console) withPhone(ctx context.Context, phone string) (*onboardingv1.Profile, error) {
	got, err := c.services.Onboarding.ListProfiles(ctx, &onboardingv1.ListProfilesRequest{Phone: phone, PageSize: 1})
	if err != nil || len(got.GetProfiles()) == 0 {
		return nil, err
	}
	return got.GetProfiles()[0], nil
}

// enrol creates a person, and goes on to them; also to the person who has the number already.
func (c *Console) enrol(r *http.Request) (notice, error) {
	got, err := c.services.Onboarding.CreateProfile(r.Context(), &onboardingv1.CreateProfileRequest{
		Phone: r.Form.Get("phone"), FirstName: r.Form.Get("first_name"), Locale: r.Form.Get("locale"), TimeZone: r.Form.Get("time_zone"),
	})
	if err != nil {
		return notice{Typed: typed(r, "phone", "first_name", "locale", "time_zone")}, err
	}
	n := said("people.enrolled")
	if !got.GetCreated() {
		n = said("people.enrolled.already", got.GetProfile().GetFirstName())
	}
	n.To = root + "/people/" + got.GetProfile().GetProfileId()
	return n, nil
}

// personDeed does one thing with a person.
func (c *Console) personDeed(r *http.Request) (notice, error) {
	do, ok := c.personDeeds()[r.PathValue("deed")]
	if !ok {
		return notice{}, errBadForm
	}
	if deed := (deed{Verb: r.PathValue("deed") + "-session", ID: r.Form.Get("session")}); deed.ID != "" {
		if err := c.confirmed(r.Context(), r.Form, deed); errors.Is(err, errUnjudged) {
			return said("person.judged.missing").bad(), nil
		} else if err != nil {
			return notice{}, err
		}
	}
	done, err := c.doneWord(r.Context(), r.PathValue("deed"), r.PathValue("id"))
	if err != nil {
		return notice{}, err
	}
	err = do(r.Context(), r.PathValue("id"), r.Form)
	if reason, _ := rpc.Reason(err); reason == onboardingv1.Reason_REASON_AWAITS_OPERATOR.String() && r.PathValue("deed") == "release" {
		n := said("person.judged.missing").bad()
		n.To = root + "/people/" + url.PathEscape(r.PathValue("id")) + "?judge=yes#release" // with the box to tick
		return n, nil
	}
	if err != nil {
		return notice{}, err
	}
	if r.PathValue("deed") == "resume" {
		return c.resumed(r.Context(), r.Form.Get("session"))
	}
	return said("person." + r.PathValue("deed") + "." + done), nil
}

// doneWord returns the key for a deed that has been done. To hold a person who is held, and to release one who is not, succeed and change
// nothing: the first reason of a hold stays.
func (c *Console) doneWord(ctx context.Context, deed, id string) (string, error) {
	if deed != "hold" && deed != "release" {
		return "done", nil
	}
	got, err := c.services.Onboarding.GetProfile(ctx, &onboardingv1.GetProfileRequest{ProfileId: id})
	if err == nil && got.GetProfile().GetHold() == (deed == "hold") {
		return "already", nil
	}
	return "done", err
}

// personDeeds are the deeds about a person, each by one call.
func (c *Console) personDeeds() map[string]func(ctx context.Context, id string, form url.Values) error {
	s := c.services.Onboarding
	return map[string]func(ctx context.Context, id string, form url.Values) error{
		"activate": func(ctx context.Context, id string, _ url.Values) error {
			_, err := s.ActivateProfile(ctx, &onboardingv1.ActivateProfileRequest{ProfileId: id})
			return err
		},
		"hold": func(ctx context.Context, id string, form url.Values) error {
			_, err := s.HoldProfile(ctx, &onboardingv1.HoldProfileRequest{ProfileId: id, Reason: form.Get("reason")})
			return err
		},
		"release": func(ctx context.Context, id string, form url.Values) error {
			_, err := s.ReleaseProfile(ctx, &onboardingv1.ReleaseProfileRequest{ProfileId: id, LeaveUnjudged: form.Get("judged") == ""})
			return err
		},
		"resume": func(ctx context.Context, _ string, form url.Values) error {
			_, err := s.ResumeSession(ctx, &onboardingv1.ResumeSessionRequest{SessionId: form.Get("session")})
			return err
		},
		"reset": func(ctx context.Context, _ string, form url.Values) error {
			_, err := s.ResetSession(ctx, &onboardingv1.ResetSessionRequest{SessionId: form.Get("session")})
			return err
		},
		"preferences": c.setPreferences,
		"change":      c.changePerson,
	}
}
