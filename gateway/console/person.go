package console

import (
	"fmt"
	"net/http"
	"slices"

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
	Profile  *onboardingv1.Profile
	Session  *onboardingv1.Session // nil before the first activation
	Timeline []*onboardingv1.TimelineEntry
	Bubbles  []bubble // oldest first
	Earlier  bool     // there are texts before them
	Deeds    []string
}

// bubble is a text as a handset shows it.
type bubble struct {
	*messagingv1.Message

	Gap string // seconds since the text before; empty when that was long ago
}

// person is a person's whole story.
func (c *Console) person(r *http.Request) (page, error) {
	id := r.PathValue("id")
	got, err := c.services.Onboarding.GetProfile(r.Context(), &onboardingv1.GetProfileRequest{ProfileId: id})
	if err != nil {
		return page{}, err
	}
	shown := personPage{Profile: got.GetProfile()}
	group, ctx := errgroup.WithContext(r.Context())
	group.Go(func() error {
		if shown.Profile.GetState().GetSessionId() == "" {
			return nil
		}
		story, err := c.services.Onboarding.GetSession(ctx, &onboardingv1.GetSessionRequest{SessionId: shown.Profile.GetState().GetSessionId()})
		if status.Code(err) == codes.NotFound { // it was deleted meanwhile
			return nil
		}
		shown.Session, shown.Timeline = story.GetSession(), story.GetTimeline()
		return err
	})
	group.Go(func() error {
		texts, err := c.services.Messaging.ListMessages(ctx, &messagingv1.ListMessagesRequest{ProfileId: id, PageSize: textsShown})
		shown.Bubbles, shown.Earlier = bubbles(texts.GetMessages()), texts.GetNextPageToken() != ""
		return err
	})
	if err := group.Wait(); err != nil {
		return page{}, err
	}
	slices.Reverse(shown.Timeline)
	shown.Deeds = deedsFor(shown)
	return page{Name: "person", Title: "person.title", Topic: id, Body: shown}, nil
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
		all = append(all, b)
	}
	return all
}

// deedsFor are what may be done with a person as they stand. The services decide once more.
func deedsFor(p personPage) (deeds []string) {
	switch p.Session.GetStatus() {
	case "active":
	case "stuck", "undeliverable":
		deeds = append(deeds, "resume")
	default:
		deeds = append(deeds, "activate")
	}
	if p.Profile.GetHold() {
		deeds = append(deeds, "release")
	} else {
		deeds = append(deeds, "hold")
	}
	if p.Session != nil {
		deeds = append(deeds, "reset")
	}
	return deeds
}
