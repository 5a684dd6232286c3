package gateway

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"paceline.internal/platform/rpc"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// rule says whether a principal may make this call over /v1, and may narrow the request to what they may see. A service
// enforces the same for its own rows; here is what the request alone can tell.
type rule func(p rpc.Principal, request proto.Message) error

// rulesOfV1 is who may call what. A method that is not in it cannot be called over /v1 at all.
func rulesOfV1() map[string]rule {
	return map[string]rule{
		onboardingv1.OnboardingService_CreateProfile_FullMethodName:     operators,
		onboardingv1.OnboardingService_GetProfile_FullMethodName:        operatorsAndSelf,
		onboardingv1.OnboardingService_ActivateProfile_FullMethodName:   operators,
		onboardingv1.OnboardingService_HoldProfile_FullMethodName:       operators,
		onboardingv1.OnboardingService_ReleaseProfile_FullMethodName:    operators,
		onboardingv1.OnboardingService_ListSessions_FullMethodName:      ownOnly,
		onboardingv1.OnboardingService_GetSession_FullMethodName:        everybody,
		onboardingv1.OnboardingService_ResetSession_FullMethodName:      operators,
		onboardingv1.OnboardingService_ResumeSession_FullMethodName:     operators,
		onboardingv1.OnboardingService_ResumeSessions_FullMethodName:    operators,
		onboardingv1.OnboardingService_ListDeadLetters_FullMethodName:   operators,
		onboardingv1.OnboardingService_ReplayDeadLetter_FullMethodName:  operators,
		onboardingv1.OnboardingService_GetSettings_FullMethodName:       operators,
		onboardingv1.OnboardingService_UpdateSettings_FullMethodName:    operators,
		onboardingv1.WebhookJobService_EnqueueWebhookJob_FullMethodName: operators,
		onboardingv1.WebhookJobService_ListWebhookJobs_FullMethodName:   operators,
		onboardingv1.WebhookJobService_GetWebhookJob_FullMethodName:     operators,
		onboardingv1.WebhookJobService_RetryWebhookJob_FullMethodName:   operators,
		onboardingv1.WebhookJobService_CancelWebhookJob_FullMethodName:  operators,
		messagingv1.MessagingService_GetMessage_FullMethodName:          everybody,
		messagingv1.MessagingService_GetEvidence_FullMethodName:         operators,
		messagingv1.MessagingService_ResolveMessage_FullMethodName:      operators,
		messagingv1.MessagingService_ListMessages_FullMethodName:        ownOnly,
		// The request names a phone, and only onboarding knows whose it is: a user cannot be let in here.
		messagingv1.MessagingService_GetConsent_FullMethodName: operators,
		messagingv1.MessagingService_SetConsent_FullMethodName: operators,
		// What the queue holds may be for anybody, such as a one-time code.
		messagingv1.OutboundService_EnqueueText_FullMethodName:      operators,
		messagingv1.OutboundService_GetQueuedText_FullMethodName:    operators,
		messagingv1.OutboundService_ListQueuedTexts_FullMethodName:  operators,
		messagingv1.OutboundService_CancelQueuedText_FullMethodName: operators,
	}
}

// everybody leaves it to the service, which knows whose row it is.
func everybody(rpc.Principal, proto.Message) error { return nil }

// operators keeps users out.
func operators(p rpc.Principal, _ proto.Message) error {
	if p.Role != rpc.RoleOperator {
		return denied("only an operator may do this")
	}
	return nil
}

// operatorsAndSelf lets a user touch their own profile.
func operatorsAndSelf(p rpc.Principal, request proto.Message) error {
	if named, ok := request.(interface{ GetProfileId() string }); p.Role == rpc.RoleUser && ok && named.GetProfileId() == p.Subject {
		return nil
	}
	return operators(p, request)
}

// ownOnly narrows a user's list to their own rows, and refuses the list of somebody else.
func ownOnly(p rpc.Principal, request proto.Message) error {
	if p.Role == rpc.RoleOperator {
		return nil
	}
	message := request.ProtoReflect()
	field := message.Descriptor().Fields().ByName("profile_id")
	if wanted := message.Get(field).String(); wanted != "" && wanted != p.Subject {
		return denied("a user sees only their own profile")
	}
	message.Set(field, protoreflect.ValueOfString(p.Subject))
	return nil
}

func denied(message string) error {
	return refuse(codes.PermissionDenied, reasonPermissionDenied, message)
}

// permit applies the table.
func permit(rules map[string]rule, p rpc.Principal, method string, request proto.Message) error {
	allowed, ok := rules[method]
	if !ok {
		return status.Error(codes.Internal, "no rule for "+method)
	}
	return allowed(p, request)
}
