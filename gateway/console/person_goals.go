package console

import (
	"context"
	"crypto/rand"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

const (
	personGoalsShown   = 5
	personDevicesShown = 50
)

// personGoals are the newest goals of a person, and what the form of a new one needs.
type personGoals struct {
	Cards   []goalCard
	Devices []*onboardingv1.Device // next to their phone, the newest
	Key     string                 // of the goal that the form makes, so that a second press makes no second one
}

// goalCards reads the goals of a person.
func (c *Console) goalCards(ctx context.Context, p *personPage) error {
	out, err := c.services.Goals.ListGoals(ctx, &onboardingv1.ListGoalsRequest{
		ProfileId: p.Profile.GetProfileId(), PageSize: personGoalsShown,
	})
	for _, g := range out.GetGoals() {
		p.Goals.Cards = append(p.Goals.Cards, card(g, c.now(), false))
	}
	return err
}

func (c *Console) goalsOf(ctx context.Context, p *personPage) error {
	id := p.Profile.GetProfileId()
	p.Goals.Key = rand.Text()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.goalCards(ctx, p) })
	group.Go(func() error {
		out, err := c.services.Goals.ListDevices(ctx, &onboardingv1.ListDevicesRequest{ProfileId: id, PageSize: personDevicesShown})
		for _, d := range out.GetDevices() {
			if d.GetKind() != "phone" { // which every person has, and the form offers first
				p.Goals.Devices = append(p.Goals.Devices, d)
			}
		}
		return err
	})
	return group.Wait()
}

// scheduleGoal takes what is to happen with its time, in words, such as "water the plants tomorrow at nine".
func (c *Console) scheduleGoal(r *http.Request) (notice, error) {
	key := r.Form.Get("key")
	if key == "" {
		return notice{}, errBadForm
	}
	out, err := c.services.Goals.CreateGoal(r.Context(), &onboardingv1.CreateGoalRequest{
		ProfileId: r.PathValue("id"), DeviceId: r.Form.Get("device"), Goal: r.Form.Get("goal"), IdempotencyKey: "console:" + key,
	})
	switch {
	case err != nil:
		return notice{}, err
	case out.GetDuplicate():
		return said("person.goal.again"), nil
	case out.GetGoal().GetUnderstood() == "":
		return said("person.goal.now"), nil
	case out.GetGoal().GetScheduledFor() != nil: // in the reader's words: what was understood is in the person's language
		return said("person.goal.done", out.GetGoal().GetScheduledFor().AsTime().Format(time.RFC3339)), nil
	}
	return said("person.goal.done", out.GetGoal().GetUnderstood()), nil
}
