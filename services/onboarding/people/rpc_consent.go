package people

import (
	"time"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
	"paceline.internal/services/onboarding/request"
)

// ReadConsent reads a consent record of a request; nil for none. ErrConsent.
func ReadConsent(given *onboardingv1.ConsentRecord, now time.Time) (*ConsentRecord, error) {
	if given == nil {
		return nil, nil //nolint:nilnil // the caller does not say
	}
	record := ConsentRecord{Source: given.GetSource(), WordsShown: given.GetWordsShown()}
	if at := given.GetCollectedAt(); at != nil {
		if err := request.Time("consent.collected_at", at); err != nil {
			return nil, err
		}
		record.CollectedAt = at.AsTime()
	}
	record, err := record.Normalise(now)
	return &record, err
}
