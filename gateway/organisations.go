package gateway

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"paceline.internal/gateway/route"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// reasonEnded is the reason of a refusal of the callers of an organisation that has ended.
const reasonEnded = "REASON_ORGANISATION_ENDED"

// statusEnded is the status of an organisation, all callers of which are refused.
const statusEnded = "ended"

// tenants know which organisations have ended.
type tenants struct {
	client onboardingv1.OrganisationServiceClient
	known  *lookups[string]
}

func newTenants(client onboardingv1.OrganisationServiceClient, machine func() time.Time) (*tenants, error) {
	known, err := newLookups[string](machine)
	return &tenants{client: client, known: known}, err
}

// outageTrust is the time for which the last answer about an organisation counts while onboarding cannot be asked: what messaging answers
// alone goes on through a restart.
const outageTrust = 10 * time.Minute

// check refuses the callers of an organisation that has ended. An onboarding of the release before does not know the question, and ends
// none.
func (t *tenants) check(ctx context.Context, p rpc.Principal) error {
	if p.Role == rpc.RolePlatform {
		return nil
	}
	found, err := t.known.find(ctx, p.OrgID, func(ctx context.Context) (string, error) {
		out, err := t.client.GetOrganisationStatus(ctx, &onboardingv1.GetOrganisationStatusRequest{OrgId: p.OrgID})
		if status.Code(err) == codes.Unimplemented {
			return "", nil
		}
		return out.GetStatus(), err
	}, func(error) bool { return false })
	if last, ok := t.known.last(p.OrgID, outageTrust); err != nil && ok {
		found, err = last, nil
	}
	switch {
	case err != nil:
		route.EventFrom(ctx).Cause(err)
		return unchecked()
	case found == statusEnded:
		return route.Refuse(codes.PermissionDenied, reasonEnded, "the organisation has ended; those who run this deployment can resume it")
	}
	return nil
}
