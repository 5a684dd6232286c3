package console

import (
	"context"
	"net/url"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

const personOutreachShown = 3

// personEngagement shows the engagement of a person: their state, their wishes, and the last messages that they got.
type personEngagement struct {
	*onboardingv1.Engagement

	Outreach []personOutreach
	Wishes   []preference
}

// personOutreach is a row of the queue, with what may be done about it.
type personOutreach struct {
	*onboardingv1.Outreach

	Deeds []deed
}

func (c *Console) engagementOf(ctx context.Context, p *personPage) error {
	id := p.Profile.GetProfileId()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		out, err := c.services.Engagement.GetEngagement(ctx, &onboardingv1.GetEngagementRequest{ProfileId: id})
		e := out.GetEngagement()
		p.Engagement.Engagement, p.Engagement.Wishes = e, preferencesOf(e.GetPreferences(), e.GetHouseholdId() != "")
		return err
	})
	group.Go(func() error {
		out, err := c.services.Engagement.ListOutreach(ctx, &onboardingv1.ListOutreachRequest{ProfileId: id, PageSize: personOutreachShown})
		for _, o := range out.GetOutreach() {
			p.Engagement.Outreach = append(p.Engagement.Outreach, outreachWithDeeds(o))
		}
		return err
	})
	return group.Wait()
}

func outreachWithDeeds(o *onboardingv1.Outreach) personOutreach {
	shown := personOutreach{Outreach: o}
	if o.GetStatus() == "failed" {
		shown.Deeds = append(shown.Deeds, deed{Verb: "retry-outreach", ID: o.GetOutreachId()})
	}
	if o.GetStatus() == "failed" || o.GetStatus() == "pending" {
		shown.Deeds = append(shown.Deeds, deed{Verb: "cancel-outreach", ID: o.GetOutreachId()})
	}
	return shown
}

// setPreferences changes what the form names, and leaves the rest.
func (c *Console) setPreferences(ctx context.Context, id string, form url.Values) error {
	in := &onboardingv1.SetPreferencesRequest{
		ProfileId: id, Reminders: form.Get("reminders"), Tips: form.Get("tips"), Destination: form.Get("destination"),
	}
	if in.GetReminders()+in.GetTips()+in.GetDestination() == "" {
		return status.Error(codes.InvalidArgument, "choose what is to change")
	}
	_, err := c.services.Engagement.SetPreferences(ctx, in)
	return err
}
