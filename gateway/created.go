package gateway

import (
	"context"
	"net/http"

	"google.golang.org/protobuf/proto"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// created returns the route of the row that a call has made, empty when the row has none, and whether the call made one: a repeat finds
// the row that is there.
func created(response proto.Message) (route string, made bool) {
	switch r := response.(type) {
	case *onboardingv1.CreateProfileResponse:
		return "/v1/profiles/" + r.GetProfile().GetProfileId(), r.GetCreated()
	case *onboardingv1.CreateGoalResponse:
		return "/v1/goals/" + r.GetGoal().GetGoalId(), !r.GetDuplicate()
	case *onboardingv1.EnqueueWebhookJobResponse:
		return "/v1/webhook-jobs/" + r.GetJobId(), !r.GetDuplicate()
	case *messagingv1.CreateSenderResponse:
		return "/v1/senders/" + r.GetSender().GetSenderId(), true
	case *messagingv1.EnqueueTextResponse:
		return "/v1/outbound/" + r.GetText().GetTextId(), !r.GetDuplicate()
	case *onboardingv1.CreateEventSubscriptionResponse:
		return "/v1/event-subscriptions/" + r.GetSubscription().GetSubscriptionId(), true
	case *onboardingv1.PublishFlowResponse:
		return "/v1/flows/" + r.GetVersion().GetFlow() + "/versions/" + r.GetVersion().GetVersion(), r.GetCreated()
	case *onboardingv1.OpenTicketResponse:
		return "/v1/tickets/" + r.GetTicket().GetTicketId(), r.GetCreated()
	case *onboardingv1.CreateOrganisationResponse:
		return "/v1/organisations/" + r.GetOrganisation().GetOrgId(), r.GetCreated()
	case *onboardingv1.SendAnswerResponse:
		return "", !r.GetDuplicate()
	case *onboardingv1.AddNoteResponse:
		return "", !r.GetDuplicate()
	case *onboardingv1.StartRunResponse:
		return "/v1/runs/" + r.GetRun().GetRunId(), r.GetRun() != nil && !r.GetDuplicate()
	case *onboardingv1.CreateSavedReplyResponse, *onboardingv1.RegisterDeviceResponse, *onboardingv1.CreateKeyResponse,
		*onboardingv1.CreateFirstKeyResponse:
		return "", true
	}
	return "", false
}

// sayCreated answers 201 for a new row, with its route.
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

// sayAttached has a browser save the export of a person, and no cache on the way keep it.
func sayAttached(_ context.Context, w http.ResponseWriter, response proto.Message) error {
	if _, ok := response.(*onboardingv1.ExportProfileResponse); ok {
		w.Header().Set("Content-Disposition", `attachment; filename="export.json"`)
		w.Header().Set("Cache-Control", "no-store")
	}
	return nil
}
