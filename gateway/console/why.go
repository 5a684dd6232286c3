package console

import (
	"context"
	"net/http"
	"slices"

	"golang.org/x/sync/errgroup"

	"paceline.internal/gateway/console/signin"
	"paceline.internal/platform/rpc"
	explainv1 "paceline.internal/proto/gen/paceline/explain/v1"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// whyPage is the data of pages/why.html.
type whyPage struct {
	Kind, ID    string
	Summary     string // where a goal stands; empty of another kind
	Explanation *explainv1.Explanation
	Person      *onboardingv1.Profile // nil when it is not known
	Message     *messagingv1.Message  // of a text
	Unread      string                // why the person cannot be told
}

// why makes the page that explains what would happen now, gate by gate.
func (c *Console) why(r *http.Request) (page, error) {
	shown := whyPage{Kind: r.PathValue("kind"), ID: r.PathValue("id")}
	group, ctx := errgroup.WithContext(r.Context())
	group.Go(func() (err error) {
		shown.Explanation, shown.Summary, err = c.explain(ctx, shown.Kind, shown.ID)
		return err
	})
	if signin.SessionFrom(r.Context()).Role == rpc.RoleOperator { // a person knows that the goals are theirs
		group.Go(func() (err error) {
			if shown.Person, shown.Message, err = c.about(ctx, shown.Kind, shown.ID); err != nil && ctx.Err() == nil {
				shown.Unread = saidBy(err)
				c.log.WarnContext(ctx, "console.part_failed", "part", "person", "error", err)
			}
			return nil
		})
	}
	err := group.Wait()
	return page{Name: "why", Title: "why.title", Body: shown}, err
}

// explain asks the service that decides.
func (c *Console) explain(ctx context.Context, kind, id string) (e *explainv1.Explanation, summary string, err error) {
	switch kind {
	case "profiles":
		got, err := c.services.Onboarding.ExplainProfile(ctx, &onboardingv1.ExplainProfileRequest{ProfileId: id})
		return got.GetExplanation(), "", err
	case "sessions":
		got, err := c.services.Onboarding.ExplainSession(ctx, &onboardingv1.ExplainSessionRequest{SessionId: id})
		return got.GetExplanation(), "", err
	case "messages":
		got, err := c.services.Messaging.ExplainMessage(ctx, &messagingv1.ExplainMessageRequest{MessageId: id})
		return got.GetExplanation(), "", err
	case "goals":
		got, err := c.services.Goals.ExplainGoal(ctx, &onboardingv1.ExplainGoalRequest{GoalId: id})
		return &explainv1.Explanation{
			Outcome: got.GetOutcome(), Gates: got.GetGates(), Next: got.GetNext(), Advice: got.GetAdvice(),
		}, got.GetSummary(), err
	}
	return nil, "", errBadForm
}

// about is the person of a row, and the text if it is one; nil where the row has none.
func (c *Console) about(ctx context.Context, kind, id string) (person *onboardingv1.Profile, m *messagingv1.Message, err error) {
	switch kind {
	case "sessions":
		got, err := c.services.Onboarding.GetSession(ctx, &onboardingv1.GetSessionRequest{SessionId: id})
		if id = got.GetSession().GetProfileId(); err != nil {
			return nil, nil, err
		}
	case "messages":
		got, err := c.services.Messaging.GetMessage(ctx, &messagingv1.GetMessageRequest{MessageId: id})
		if m, id = got.GetMessage(), got.GetMessage().GetProfileId(); err != nil {
			return nil, nil, err
		}
	case "goals":
		got, err := c.services.Goals.GetGoal(ctx, &onboardingv1.GetGoalRequest{GoalId: id})
		if id = got.GetGoal().GetProfileId(); err != nil {
			return nil, nil, err
		}
	}
	if id == "" {
		return nil, m, nil
	}
	got, err := c.services.Onboarding.GetProfile(ctx, &onboardingv1.GetProfileRequest{ProfileId: id})
	return got.GetProfile(), m, err
}

// usual are the outcomes of what goes on by itself, or waits for the person: nothing is wrong where one of them decides.
// docs/api.md, Explain, lists all outcomes.
var usual = []string{
	"sent", "opened", "started", "stale", "paused", "not_due", "quiet_hours", "awaiting_delivery", "already_sent", "already_accepted",
	"in_flight", "early", "received",
}

// usualGates lists the gates that do not pass in the usual course of things.
var usualGates = []string{"step", "pause", "due", "quiet_hours", "delivery", "not_accepted", "send.not_accepted"}

// whyGate is a gate as the page shows it.
type whyGate struct {
	*explainv1.Gate

	State string // passed, waits, stopped, gone: Twilio has the text; or later: it decides about later texts alone
}

// Gates are all, each with its state.
func (p whyPage) Gates() (all []whyGate) {
	undecided := true // as long as all have passed
	says := !p.Undelivered() || slices.ContainsFunc(p.Explanation.GetGates(), isDelivered)
	taken := false // by Twilio: what follows keeps no text back that went
	for _, g := range p.Explanation.GetGates() {
		shown := whyGate{Gate: g, State: "stopped"}
		switch {
		case g.GetPassed():
			shown.State = "passed"
		case taken && !isDelivered(g):
			shown.State = "later"
		case isTaken(g) && (says || undecided && p.Usual()):
			shown.State = "gone"
		case undecided && p.Usual(), says && slices.Contains(usualGates, g.GetName()):
			shown.State = "waits"
		}
		undecided = undecided && g.GetPassed()
		taken = taken || !g.GetPassed() && isTaken(g)
		all = append(all, shown)
	}
	return all
}

// isTaken reports whether a gate asks whether Twilio has the text already.
func isTaken(g *explainv1.Gate) bool {
	return g.GetName() == "not_accepted" || g.GetName() == "send.not_accepted"
}

// isDelivered reports whether a gate asks whether a text that Twilio took reached the person. Messaging of the release before has none.
func isDelivered(g *explainv1.Gate) bool {
	return g.GetName() == "delivered" || g.GetName() == "send.delivered"
}

// Usual reports whether what decides is the usual course of things.
func (p whyPage) Usual() bool {
	return slices.Contains(usual, p.Explanation.GetOutcome()) && !p.Undelivered() && !p.Barred()
}

// Barred reports whether Twilio refuses the text until somebody has acted, where nothing else keeps it back.
func (p whyPage) Barred() bool {
	return p.Explanation.GetNeedsPerson() && slices.Contains([]string{"sent", "throttled", "stale"}, p.Explanation.GetOutcome())
}

// Undelivered reports whether Twilio has the text and it did not reach the person, which no gate asks.
func (p whyPage) Undelivered() bool {
	return slices.Contains([]string{"failed", "undelivered"}, p.Message.GetStatus())
}

// Decides is the gate that needs a reader: the one that decides, or else one behind a wait for the person or for a time, such as a hold;
// nil when all pass.
func (p whyPage) Decides() (decides *whyGate) {
	waiting := slices.Contains([]string{"stale", "paused", "not_due", "quiet_hours", "awaiting_delivery"}, p.Explanation.GetOutcome())
	for _, g := range p.Gates() {
		if p.Undelivered() && isDelivered(g.Gate) {
			return &g
		}
	}
	for _, g := range p.Gates() {
		if decides == nil && g.State != "passed" || waiting && g.State == "stopped" {
			decides = &g
		}
		if decides != nil && (decides.State == "stopped" || !waiting) {
			break
		}
	}
	return decides
}
