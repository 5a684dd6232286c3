package gateway

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"paceline.internal/gateway/route"
	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

const (
	// oneTimeCode is the purpose of texts that are sent in quiet hours too.
	oneTimeCode = "otp"
	// askForCode bounds how long a one-time code waits for onboarding, which it does not need.
	askForCode = time.Second
)

// withOpenHours is the connection to messaging on which a text of the outbound queue takes along when it may be sent, and whether that
// takes a consent record. Onboarding knows what the organisation has decided and the person's clock, messaging sends, and neither calls the
// other for it.
type withOpenHours struct {
	grpc.ClientConnInterface

	onboarding onboardingv1.OnboardingServiceClient
}

// Invoke implements grpc.ClientConnInterface. Where onboarding cannot be asked, no text is taken: one sent at night cannot be taken back.
// A one-time code is: the erasure that onboarding would name deletes it again. Onboarding refuses a text to a person who is being erased,
// and one in the name of a profile that has another phone: the person would read it, export it, and erase it with what is theirs.
func (c withOpenHours) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	text, ok := args.(*messagingv1.EnqueueTextRequest)
	if !ok {
		return c.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
	}
	if text.GetOpenHours() != nil {
		return route.Refuse(codes.InvalidArgument, route.ReasonInvalid,
			"open_hours must be left out: they are what the organisation has decided, see PUT /v1/settings")
	}
	if text.GetRequiresConsentRecord() {
		return route.Refuse(codes.InvalidArgument, route.ReasonInvalid,
			"requires_consent_record must be left out: it is what the organisation has decided, see PUT /v1/settings")
	}
	caller, _ := rpc.PrincipalFrom(ctx)
	if text.GetPurpose() == oneTimeCode {
		asking, cancel := context.WithTimeout(ctx, askForCode)
		defer cancel()
		if _, err := c.decided(asking, caller.OrgID, text); refusesText(err) {
			return err
		}
		return c.ClientConnInterface.Invoke(ctx, method, text, reply, opts...)
	}
	found, err := c.decided(ctx, caller.OrgID, text)
	if err != nil {
		return err
	}
	text.RequiresConsentRecord = found.GetRequireConsentRecord()
	if hours := found.GetQuietHours(); hours.GetEnabled() {
		text.OpenHours = &messagingv1.OpenHours{Open: hours.GetOpen(), Close: hours.GetClose(), TimeZone: found.GetTimeZone()}
	}
	return c.ClientConnInterface.Invoke(ctx, method, text, reply, opts...)
}

// refusesText tells that onboarding was asked, and refuses the text: a person who is being erased, or a phone that is not the profile's.
func refusesText(err error) bool {
	return status.Code(err) == codes.FailedPrecondition || status.Code(err) == codes.InvalidArgument
}

// decided returns the decisions of the organisation about a text.
func (c withOpenHours) decided(
	ctx context.Context, orgID string, text *messagingv1.EnqueueTextRequest,
) (*onboardingv1.GetQuietHoursResponse, error) {
	return c.onboarding.GetQuietHours(rpc.WithPrincipal(ctx, service),
		&onboardingv1.GetQuietHoursRequest{OrgId: orgID, Phone: text.GetTo(), ProfileId: text.GetProfileId()})
}
