package gateway

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// oneTimeCode is the purpose of texts that are sent in quiet hours too.
const oneTimeCode = "otp"

// withOpenHours is the connection to messaging on which a text of the outbound queue takes along when it may be sent, and whether that
// takes a consent record. Onboarding knows what the organisation has decided and the person's clock, messaging sends, and neither calls the
// other for it.
type withOpenHours struct {
	grpc.ClientConnInterface

	onboarding onboardingv1.OnboardingServiceClient
}

// Invoke implements grpc.ClientConnInterface. Where onboarding cannot be asked, no text is taken: one sent at night cannot be taken back.
func (c withOpenHours) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	text, ok := args.(*messagingv1.EnqueueTextRequest)
	if !ok {
		return c.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
	}
	if text.GetOpenHours() != nil {
		return refuse(codes.InvalidArgument, reasonInvalid,
			"open_hours must be left out: they are what the organisation has decided, see PUT /v1/settings")
	}
	if text.GetRequiresConsentRecord() {
		return refuse(codes.InvalidArgument, reasonInvalid,
			"requires_consent_record must be left out: it is what the organisation has decided, see PUT /v1/settings")
	}
	if text.GetPurpose() != oneTimeCode {
		caller, _ := rpc.PrincipalFrom(ctx)
		if err := c.decide(ctx, caller.OrgID, text); err != nil {
			return err
		}
	}
	return c.ClientConnInterface.Invoke(ctx, method, text, reply, opts...)
}

// decide adds to a text what its organisation has decided: nothing, as an onboarding of the release before has it.
func (c withOpenHours) decide(ctx context.Context, orgID string, text *messagingv1.EnqueueTextRequest) error {
	found, err := c.onboarding.GetQuietHours(rpc.WithPrincipal(ctx, service), &onboardingv1.GetQuietHoursRequest{
		OrgId: orgID, Phone: text.GetTo(),
	})
	if status.Code(err) == codes.Unimplemented {
		return nil
	}
	text.RequiresConsentRecord = found.GetRequireConsentRecord()
	if hours := found.GetQuietHours(); err == nil && hours.GetEnabled() {
		text.OpenHours = &messagingv1.OpenHours{Open: hours.GetOpen(), Close: hours.GetClose(), TimeZone: found.GetTimeZone()}
	}
	return err
}
