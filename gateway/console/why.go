package console

import (
	"net/http"

	explainv1 "paceline.internal/proto/gen/paceline/explain/v1"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// whyPage is what pages/why.html shows.
type whyPage struct {
	Kind, ID    string
	Summary     string // where a goal stands; empty of another kind
	Explanation *explainv1.Explanation
}

// why says what would happen now, gate by gate.
func (c *Console) why(r *http.Request) (page, error) {
	ctx, shown := r.Context(), whyPage{Kind: r.PathValue("kind"), ID: r.PathValue("id")}
	var err error
	switch shown.Kind {
	case "profiles":
		var got *onboardingv1.ExplainProfileResponse
		got, err = c.services.Onboarding.ExplainProfile(ctx, &onboardingv1.ExplainProfileRequest{ProfileId: shown.ID})
		shown.Explanation = got.GetExplanation()
	case "sessions":
		var got *onboardingv1.ExplainSessionResponse
		got, err = c.services.Onboarding.ExplainSession(ctx, &onboardingv1.ExplainSessionRequest{SessionId: shown.ID})
		shown.Explanation = got.GetExplanation()
	case "messages":
		var got *messagingv1.ExplainMessageResponse
		got, err = c.services.Messaging.ExplainMessage(ctx, &messagingv1.ExplainMessageRequest{MessageId: shown.ID})
		shown.Explanation = got.GetExplanation()
	case "goals":
		var got *onboardingv1.ExplainGoalResponse
		got, err = c.services.Goals.ExplainGoal(ctx, &onboardingv1.ExplainGoalRequest{GoalId: shown.ID})
		shown.Summary = got.GetSummary()
		shown.Explanation = &explainv1.Explanation{
			Outcome: got.GetOutcome(), Gates: got.GetGates(), Next: got.GetNext(), Advice: got.GetAdvice(),
		}
	default:
		err = errBadForm
	}
	return page{Name: "why", Title: "why.title", Body: shown}, err
}
