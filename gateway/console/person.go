package console

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// textsShown is how much of a conversation is shown, the newest.
const textsShown = 100

// personPage is what pages/person.html shows.
type personPage struct {
	Profile    *onboardingv1.Profile
	Session    *onboardingv1.Session // nil before the first activation
	Late       bool                  // the step that is due has not come in its time
	Timeline   []entry               // newest first
	Bubbles    []bubble              // oldest first
	Earlier    bool                  // there are texts before them
	Consent    consentHead
	HeldBy     string // who held the person; empty where that is not known
	Goals      personGoals
	Engagement personEngagement
	Deeds      []string
	Unread     map[string]string // why a part of the page cannot be read, by the part
	Theirs     bool              // times are in the person's zone
}

// bubble is a text as a handset shows it.
type bubble struct {
	*messagingv1.Message

	Gap      string // seconds since the text before; empty when that was long ago
	Evidence string // where a text in doubt is resolved; empty for another one
}

// Fate is whether a text of ours reached the person: lost or doubtful; empty for one that did, or is on its usual way.
func (b bubble) Fate() string {
	switch b.GetStatus() {
	case "rejected", "failed", "undelivered", "given_up":
		return "lost"
	case "unknown", "parked", "throttled":
		return "doubtful"
	}
	return ""
}

// person is a person's whole story. Only without the person there is no page: each part of it may fail alone.
func (c *Console) person(r *http.Request) (page, error) {
	id := r.PathValue("id")
	got, err := c.services.Onboarding.GetProfile(r.Context(), &onboardingv1.GetProfileRequest{ProfileId: id})
	if err != nil {
		return page{}, err
	}
	shown := personPage{Profile: got.GetProfile()}
	c.readParts(r.Context(), &shown)
	shown.Late = shown.Session.GetNextDueAt() != nil && shown.Session.GetNextDueAt().AsTime().Before(c.now())
	shown.Deeds = deedsFor(shown.Profile)
	drawn := page{Name: "person", Title: "person.title", Topic: id}
	if r.Form.Get("times") == "theirs" {
		if drawn.Place, err = time.LoadLocation(shown.Profile.GetTimeZone()); err != nil {
			return page{}, status.Error(codes.FailedPrecondition, "this machine does not know the person's time zone")
		}
		shown.Theirs = true
	}
	drawn.Body = shown
	return drawn, nil
}

// part reads one part of the page into fields that no other part touches.
type part func(ctx context.Context, p *personPage) error

func (c *Console) personParts() map[string]part {
	return map[string]part{
		"timeline": c.story, "conversation": c.conversation, "consent": c.consentOf, "hold": c.heldBy, "goals": c.goalsOf,
		"engagement": c.engagementOf,
	}
}

// readParts reads all parts at once. What a part says that cannot be read stands in its place.
func (c *Console) readParts(ctx context.Context, p *personPage) {
	parts := c.personParts()
	names := slices.Sorted(maps.Keys(parts))
	failed := make([]error, len(names))
	var group errgroup.Group
	for i, name := range names {
		group.Go(func() error {
			failed[i] = parts[name](ctx, p)
			return nil
		})
	}
	_ = group.Wait() // each has said in its place what failed
	p.Unread = map[string]string{}
	for i, err := range failed {
		if err == nil {
			continue
		}
		p.Unread[names[i]] = saidBy(err)
		if ctx.Err() == nil {
			c.log.WarnContext(ctx, "console.part_failed", "part", names[i], "error", err)
		}
	}
}

// conversation reads the newest texts of both directions.
func (c *Console) conversation(ctx context.Context, p *personPage) error {
	texts, err := c.services.Messaging.ListMessages(ctx, &messagingv1.ListMessagesRequest{
		ProfileId: p.Profile.GetProfileId(), PageSize: textsShown,
	})
	p.Bubbles, p.Earlier = bubbles(texts.GetMessages()), texts.GetNextPageToken() != ""
	return err
}

// bubbles turns texts, newest first, into a conversation.
func bubbles(texts []*messagingv1.Message) (all []bubble) {
	for i, m := range slices.Backward(texts) {
		b := bubble{Message: m}
		if i+1 < len(texts) {
			if gap := m.GetCreatedAt().AsTime().Sub(texts[i+1].GetCreatedAt().AsTime()).Seconds(); gap < 120 {
				b.Gap = fmt.Sprintf("%.1f", gap)
			}
		}
		if m.GetStatus() == "unknown" || m.GetStatus() == "parked" {
			b.Evidence = root + "/needs/messages/" + m.GetMessageId()
		}
		all = append(all, b)
	}
	return all
}

// deedsFor are what may be done with a person as they stand. The services decide once more.
func deedsFor(p *onboardingv1.Profile) (deeds []string) {
	switch p.GetState().GetStatus() {
	case "active":
	case "stuck", "undeliverable":
		deeds = append(deeds, "resume")
	default:
		deeds = append(deeds, "activate")
	}
	if p.GetHold() {
		deeds = append(deeds, "release")
	} else {
		deeds = append(deeds, "hold")
	}
	if p.GetState().GetSessionId() != "" {
		deeds = append(deeds, "reset")
	}
	return deeds
}
