package gateway

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// repeatable are the POSTs that keep no keys because a repeat of them changes nothing: it finds what the first one did.
func repeatable() []string {
	return []string{
		"createProfile", "activateProfile", "holdProfile", "releaseProfile",
		"resetSession", "resumeSession", "resumeSessions", "replayDeadLetter",
		"retryWebhookJob", "cancelWebhookJob", "resolveMessage", "cancelQueuedText",
		"cancelOutreach", "retryOutreach", "runEngagement", "stopGoal",
		"pauseEventSubscription", "resumeEventSubscription", "replayEventDelivery",
		"setLegalHold", "liftLegalHold",
		"pauseScheduling", "resumeScheduling", "checkFlow", "publishFlow", "publishFlowDraft",
		"openTicket", "assignTicket", "closeTicket", "createSavedReply",
		"moveSessions", "addRunPeople", "pauseRun", "resumeRun", "cancelRun",
		"suspendOrganisation", "resumeOrganisation", "endOrganisation",
	}
}

// TestIdempotencyKeys lists every POST and its use of the header: so a new one is listed too.
func TestIdempotencyKeys(t *testing.T) {
	t.Parallel()
	rules, err := rulesOf(append(onboardingServices, messagingServices...))
	require.NoError(t, err)
	var without []string
	for route, o := range routes(t) {
		operation := o.Operation.OperationID
		service, method, _ := strings.Cut(rpcOf(o), "/")
		full := protoreflect.FullName("paceline.onboarding.v1." + service)
		if _, err := protoregistry.GlobalFiles.FindDescriptorByName(full); err != nil {
			full = protoreflect.FullName("paceline.messaging.v1." + service)
		}
		found, err := protoregistry.GlobalFiles.FindDescriptorByName(full)
		require.NoError(t, err)
		described, ok := found.(protoreflect.ServiceDescriptor)
		require.True(t, ok)
		request := described.Methods().ByName(protoreflect.Name(method)).Input()
		keyed, again := request.Fields().ByName("idempotency_key") != nil, rules["/"+string(full)+"/"+method].ActsAgain
		switch {
		case !strings.HasPrefix(route, "POST "):
			require.False(t, again, "%s: the header of %s is not heeded", operation, route)
		case keyed:
			require.False(t, again, operation)
		case !again:
			without = append(without, operation)
		}
	}
	require.ElementsMatch(t, repeatable(), without,
		"a POST has an idempotency_key, or acts_again in its proto, or changes nothing when it is repeated")
}
