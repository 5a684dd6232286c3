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

// Statuses of an organisation that moves: a moving one still takes what Twilio posts, a moved one is not here, or not yet.
const (
	statusMoving = "moving"
	statusMoved  = "moved"
)

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

// status of an organisation. An onboarding of the release before does not know the question, and ends none.
func (t *tenants) status(ctx context.Context, orgID string) (string, error) {
	found, err := t.known.find(ctx, orgID, func(ctx context.Context) (string, error) {
		out, err := t.client.GetOrganisationStatus(ctx, &onboardingv1.GetOrganisationStatusRequest{OrgId: orgID})
		if status.Code(err) == codes.Unimplemented {
			return "", nil
		}
		return out.GetStatus(), err
	}, func(error) bool { return false })
	if last, ok := t.known.last(orgID, outageTrust); err != nil && ok {
		found, err = last, nil
	}
	return found, err
}

// moved reports whether an organisation is known to live elsewhere, or not yet here.
func (t *tenants) moved(ctx context.Context, orgID string) bool {
	found, err := t.status(ctx, orgID)
	return err == nil && found == statusMoved
}

// check refuses the callers of an organisation that has ended, and has those of one that moves come again.
func (t *tenants) check(ctx context.Context, p rpc.Principal) error {
	if p.Role == rpc.RolePlatform {
		return nil
	}
	found, err := t.status(ctx, p.OrgID)
	switch {
	case err != nil:
		route.EventFrom(ctx).Cause(err)
		return unchecked()
	case found == statusMoving, found == statusMoved:
		e := route.Refuse(codes.Unavailable, route.ReasonUnavailable,
			"the organisation moves to another deployment, or lives there: try again, and look up its name anew")
		e.RetryAfter = time.Second
		return e
	case found == statusEnded:
		return route.Refuse(codes.PermissionDenied, reasonEnded, "the organisation has ended; those who run this deployment can resume it")
	}
	return nil
}
