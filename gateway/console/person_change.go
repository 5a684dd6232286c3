package console

import (
	"context"
	"net/url"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// changePerson changes what the form names, and leaves the rest.
func (c *Console) changePerson(ctx context.Context, id string, form url.Values) error {
	named := func(field string) *string {
		if form.Get(field) == "" {
			return nil
		}
		return new(form.Get(field))
	}
	_, err := c.services.Onboarding.UpdateProfile(ctx, &onboardingv1.UpdateProfileRequest{
		ProfileId: id, Phone: named("phone"), FirstName: named("first_name"), Locale: named("locale"), TimeZone: named("time_zone"),
	})
	return err
}
