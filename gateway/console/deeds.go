package console

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// A deed is one thing to do to one row of a list, written "verb.id" in a form. It is shown before it is done: GET /console/do says for each
// what would happen, POST /console/do does it. So a list's buttons and its bulk form are the same, and none needs JavaScript.
type deed struct {
	Verb string // the key of its words
	ID   string
	Asks bool   // it waits until an operator has judged words that may be an opt-out
	Now  string // what would happen now, in the services' words; may be empty

	Person *onboardingv1.Profile // the person of the session that a deed is done to
}

// String formats a deed as a form sends it.
func (d deed) String() string { return d.Verb + "." + d.ID }

// maxDeeds bounds what one form does: each is a call.
const maxDeeds = 100

// verbs are the deeds, each by one call of the API.
func (c *Console) verbs() map[string]func(ctx context.Context, id string) error {
	s := c.services
	return map[string]func(ctx context.Context, id string) error{
		"resume-session": func(ctx context.Context, id string) error {
			_, err := s.Onboarding.ResumeSession(ctx, &onboardingv1.ResumeSessionRequest{SessionId: id})
			return err
		},
		"reset-session": func(ctx context.Context, id string) error {
			_, err := s.Onboarding.ResetSession(ctx, &onboardingv1.ResetSessionRequest{SessionId: id})
			return err
		},
		"replay-letter": func(ctx context.Context, id string) error {
			_, err := s.Onboarding.ReplayDeadLetter(ctx, &onboardingv1.ReplayDeadLetterRequest{DeadLetterId: id})
			return err
		},
		"retry-job": func(ctx context.Context, id string) error {
			_, err := s.Jobs.RetryWebhookJob(ctx, &onboardingv1.RetryWebhookJobRequest{JobId: id})
			return err
		},
		"cancel-job": func(ctx context.Context, id string) error {
			_, err := s.Jobs.CancelWebhookJob(ctx, &onboardingv1.CancelWebhookJobRequest{JobId: id})
			return err
		},
		"cancel-text": func(ctx context.Context, id string) error {
			_, err := s.Outbound.CancelQueuedText(ctx, &messagingv1.CancelQueuedTextRequest{TextId: id})
			return err
		},
		"retry-outreach": func(ctx context.Context, id string) error {
			_, err := s.Engagement.RetryOutreach(ctx, &onboardingv1.RetryOutreachRequest{OutreachId: id})
			return err
		},
		"cancel-outreach": func(ctx context.Context, id string) error {
			_, err := s.Engagement.CancelOutreach(ctx, &onboardingv1.CancelOutreachRequest{OutreachId: id})
			return err
		},
		"resume-subscription": func(ctx context.Context, id string) error {
			_, err := s.Events.ResumeEventSubscription(ctx, &onboardingv1.ResumeEventSubscriptionRequest{SubscriptionId: id})
			return err
		},
		"replay-delivery": func(ctx context.Context, id string) error {
			_, err := s.Events.ReplayEventDelivery(ctx, &onboardingv1.ReplayEventDeliveryRequest{DeliveryId: id})
			return err
		},
	}
}

// chosen are the deeds of a form, each once.
func (c *Console) chosen(r *http.Request) (chosen []deed, err error) {
	known := c.verbs()
	for _, text := range r.Form["deed"] {
		verb, id, _ := strings.Cut(text, ".")
		if known[verb] == nil || id == "" || len(id) > 100 {
			return nil, errBadForm
		}
		if d := (deed{Verb: verb, ID: id}); !slices.Contains(chosen, d) {
			chosen = append(chosen, d)
		}
	}
	if len(chosen) == 0 || len(chosen) > maxDeeds {
		return nil, errBadForm
	}
	return chosen, nil
}

// deedsPage is the data of pages/deeds.html.
type deedsPage struct {
	Deeds []deed
	Back  string
	Asks  bool // one of them does
}

// review shows what deeds would do.
func (c *Console) review(r *http.Request) (page, error) {
	chosen, err := c.chosen(r)
	if err != nil {
		return page{}, err
	}
	asks := len(chosen) > maxForeseen // of the rest it is not known
	for i, d := range chosen {
		if i == maxForeseen {
			break
		}
		if chosen[i].Now, err = c.foresee(r.Context(), d); err != nil {
			return page{}, err
		}
		if chosen[i].Asks, err = c.waitsForJudgement(r.Context(), d); err != nil {
			return page{}, err
		}
		asks = asks || chosen[i].Asks
	}
	c.nameDeeds(r.Context(), chosen)
	return page{Title: "deeds.title", Name: "deeds", Body: deedsPage{chosen, backTo(r), asks}}, nil
}

// nameDeeds finds the people of the sessions that the deeds are done to.
func (c *Console) nameDeeds(ctx context.Context, deeds []deed) {
	ofSession := func(d deed) bool { return d.Verb == "resume-session" || d.Verb == "reset-session" }
	var sessions []string
	for _, d := range deeds {
		if ofSession(d) {
			sessions = append(sessions, d.ID)
		}
	}
	people := c.peopleOfSessions(ctx, sessions)
	for i, d := range deeds {
		if ofSession(d) {
			deeds[i].Person = people[d.ID]
		}
	}
}

// maxForeseen bounds the rows of a bulk for which the services are asked what would happen.
const maxForeseen = 20

// foresee asks what would happen to the row now, where the API can tell.
func (c *Console) foresee(ctx context.Context, d deed) (string, error) {
	if d.Verb != "resume-session" {
		return "", nil
	}
	said, err := c.services.Onboarding.ExplainSession(ctx, &onboardingv1.ExplainSessionRequest{SessionId: d.ID})
	return strings.TrimSpace(said.GetExplanation().GetNext() + " " + said.GetExplanation().GetAdvice()), err
}

// do does the deeds, one after the other, and reports their outcomes.
func (c *Console) do(r *http.Request) (notice, error) {
	chosen, err := c.chosen(r)
	if err != nil {
		return notice{}, err
	}
	var refused []error
	for _, d := range chosen {
		err := c.confirmed(r.Context(), r.Form, d)
		if err == nil {
			err = c.verbs()[d.Verb](r.Context(), d.ID)
		}
		if err != nil {
			refused = append(refused, err)
		}
	}
	done := strconv.Itoa(len(chosen) - len(refused))
	if len(refused) == 0 && len(chosen) == 1 && chosen[0].Verb == "resume-session" {
		return c.resumed(r.Context(), chosen[0].ID)
	}
	if len(refused) == 0 {
		return said("deeds.done", done), nil
	}
	n := said("deeds.some", done, strconv.Itoa(len(refused)), saidBy(refused[0]))
	n.Bad = true
	return n, nil
}
