package console

import (
	"net/http"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// pauseScheduling keeps the organisation from sending steps and from beginning goals.
func (c *Console) pauseScheduling(r *http.Request) (notice, error) {
	_, err := c.services.Onboarding.PauseScheduling(r.Context(), &onboardingv1.PauseSchedulingRequest{Reason: r.Form.Get("reason")})
	return said("scheduling.paused"), err
}

// resumeScheduling lifts the pause.
func (c *Console) resumeScheduling(r *http.Request) (notice, error) {
	_, err := c.services.Onboarding.ResumeScheduling(r.Context(), &onboardingv1.ResumeSchedulingRequest{})
	return said("scheduling.resumed"), err
}
