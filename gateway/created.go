package gateway

import (
	"context"
	"net/http"

	"google.golang.org/protobuf/proto"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// created is what a call has made, by its route, which is empty of what has none; and whether it made anything: a repeat finds what is there.
func created(response proto.Message) (route string, made bool) {
	switch r := response.(type) {
	case *onboardingv1.CreateProfileResponse:
		return "/v1/profiles/" + r.GetProfile().GetProfileId(), r.GetCreated()
	case *onboardingv1.CreateGoalResponse:
		return "/v1/goals/" + r.GetGoal().GetGoalId(), !r.GetDuplicate()
	case *onboardingv1.EnqueueWebhookJobResponse:
		return "/v1/webhook-jobs/" + r.GetJobId(), !r.GetDuplicate()
	case *messagingv1.EnqueueTextResponse:
		return "/v1/outbound/" + r.GetText().GetTextId(), !r.GetDuplicate()
	case *onboardingv1.CreateEventSubscriptionResponse:
		return "/v1/event-subscriptions/" + r.GetSubscription().GetSubscriptionId(), true
	case *onboardingv1.RegisterDeviceResponse:
		return "", true
	}
	return "", false
}

// sayCreated answers 201 for what is new, and where it is to be read.
func sayCreated(_ context.Context, w http.ResponseWriter, response proto.Message) error {
	route, made := created(response)
	if !made {
		return nil
	}
	if route != "" {
		w.Header().Set("Location", route)
	}
	w.WriteHeader(http.StatusCreated)
	return nil
}
