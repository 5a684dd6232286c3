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

	locales "paceline.internal/platform/reading/languages"
	explainv1 "paceline.internal/proto/gen/paceline/explain/v1"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// textsShown bounds the texts of a conversation that are shown, the newest.
const textsShown = 100

// personPage is the data of pages/person.html.
type personPage struct {
	Profile    *onboardingv1.Profile
	Locales    []string
	Session    *onboardingv1.Session // nil before the first activation
	Late       bool                  // the step that is due has not come in its time
	Kept       *explainv1.Gate       // the gate, other than its time, that keeps the due step back; nil for none
	Chosen     string                // the session with the timeline that is shown; empty for the newest
	Sessions   []*onboardingv1.Session
	Timeline   []entry         // newest first
	Bubbles    []bubble        // oldest first
	Earlier    bool            // there are texts before them
	Lost       *explainv1.Gate // why the newest text did not reach the person; nil where it did, or may
	LostID     string          // of that text
	Consent    consentHead
	Stop       *stopLine            // what went after the person opted out; nil where they have not
	Words      *messagingv1.Message // of the person that may be an opt-out; nil for none
	Judge      bool                 // the session waits until an operator has judged them
	HeldBy     string               // who held the person; empty where that is not known
	Goals      personGoals
	Engagement personEngagement
	Deeds      []string
	Unread     map[string]string // why a part of the page cannot be read, by the part
	Theirs     bool              // times are in the person's zone
}

// State returns the key of the person's state: with_team while their ticket is open.
func (p personPage) State() string {
	if withTeam(p.Session) {
		return "with_team"
	}
	return p.Profile.GetState().GetStatus()
}

// Silent reports whether the person has never written, as far as the page knows.
func (p personPage) Silent() bool {
	return p.Unread["conversation"] == "" && !p.Earlier &&
		!slices.ContainsFunc(p.Bubbles, func(b bubble) bool { return b.GetDirection() == "inbound" })
}

// bubble is a text as a handset shows it.
type bubble struct {
	*messagingv1.Message

	Gap      string // seconds since the text before; empty when that was long ago
	Evidence string // where a text in doubt is resolved; empty for another one
	Again    bool   // it is not sent, and goes once its session is resumed
	Starts   bool   // a new day, by the reader's clock
}

// At returns the time at which Twilio took our text, or had the person's; of a text that Twilio has not taken, that of its first record.
func (b bubble) At() time.Time {
	if b.GetAcceptedAt() != nil {
		return b.GetAcceptedAt().AsTime()
	}
	return b.GetCreatedAt().AsTime()
}

// Timed is the key of what At is.
func (b bubble) Timed() string {
	switch {
	case b.GetDirection() == "inbound":
		return "bubble.came"
	case b.GetAcceptedAt() == nil:
		return "bubble.made"
	}
	return "bubble.went"
}

// Fated returns the word for the outcome of the text.
func (b bubble) Fated() string {
	switch {
	case b.Again:
		return "again"
	case b.GetStatus() == "throttled" && b.GetNeedsPerson():
		return "needs_person"
	}
	return b.GetStatus()
}

// Fate returns lost or doubtful for a text that did not reach the person; empty for one that did, or is on its usual way.
func (b bubble) Fate() string {
	if b.GetNeedsPerson() {
		return "lost"
	}
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
	shown := personPage{Profile: got.GetProfile(), Locales: locales.Written(), Chosen: r.Form.Get("session")}
	c.readParts(r.Context(), &shown, c.personParts())
	c.askedWords(r.Context(), &shown, r.Form.Get("words"))
	shown.Judge = shown.Judge || r.Form.Get("judge") != ""
	shown.Late = shown.Session.GetNextDueAt() != nil && shown.Session.GetNextDueAt().AsTime().Before(c.now())
	shown.Deeds, shown.Stop = deedsFor(shown.Profile), stopped(shown)
	if hasTicket(shown.Session) { // which closing the ticket does
		shown.Deeds = slices.DeleteFunc(shown.Deeds, func(d string) bool { return d == "resume" })
	}
	drawn := page{Name: "person", Title: "person.title", Topic: id}
	if r.Form.Get("times") == "theirs" {
		if drawn.Place, err = time.LoadLocation(shown.Profile.GetTimeZone()); err != nil {
			return page{}, status.Error(codes.FailedPrecondition, "this machine does not know the person's time zone")
		}
		shown.Theirs = true
	}
	place := drawn.Place
	if place == nil {
		place = c.zoneOf(r)
	}
	markDays(shown.Bubbles, place)
	drawn.Body = shown
	return drawn, nil
}

// part reads one part of the page into fields that no other part touches.
type part func(ctx context.Context, p *personPage) error

func (c *Console) personParts() map[string]part {
	return map[string]part{
		"timeline": c.story, "conversation": c.conversation, "consent": c.consentOf, "hold": c.heldBy, "goals": c.goalsOf,
		"engagement": c.engagementOf, "sessions": c.sessionsOf,
	}
}

// readParts reads parts at once. What a part says that cannot be read stands in its place.
func (c *Console) readParts(ctx context.Context, p *personPage, parts map[string]part) {
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

// texts reads the newest texts of both directions.
func (c *Console) texts(ctx context.Context, p *personPage) error {
	_, err := c.newestTexts(ctx, p)
	return err
}

// newestTexts reads them, and returns them newest first.
func (c *Console) newestTexts(ctx context.Context, p *personPage) ([]*messagingv1.Message, error) {
	texts, err := c.services.Messaging.ListMessages(ctx, &messagingv1.ListMessagesRequest{
		ProfileId: p.Profile.GetProfileId(), PageSize: textsShown,
	})
	p.Bubbles, p.Earlier = bubbles(texts.GetMessages(), parked(p.Profile)), texts.GetNextPageToken() != ""
	return texts.GetMessages(), err
}

// conversation reads the newest texts, and why the last of them did not reach the person.
func (c *Console) conversation(ctx context.Context, p *personPage) error {
	texts, err := c.newestTexts(ctx, p)
	if err != nil || len(texts) == 0 || !undelivered(texts[0]) && !texts[0].GetNeedsPerson() {
		return err
	}
	p.LostID = texts[0].GetMessageId()
	p.Lost, err = c.lost(ctx, p.LostID)
	return err
}

// undelivered reports whether Twilio took a text that did not reach the person.
func undelivered(m *messagingv1.Message) bool {
	return m.GetStatus() == "undelivered" || m.GetStatus() == "failed"
}

// lost says why a text did not reach the person, or is refused until an operator acts, and what to do; nil where messaging says nothing.
func (c *Console) lost(ctx context.Context, messageID string) (*explainv1.Gate, error) {
	e, err := c.services.Messaging.ExplainMessage(ctx, &messagingv1.ExplainMessageRequest{MessageId: messageID})
	for _, g := range e.GetExplanation().GetGates() {
		switch {
		case g.GetName() == "delivered" && !g.GetPassed():
			return g, err
		case g.GetName() == "backoff" && e.GetExplanation().GetNeedsPerson():
			return &explainv1.Gate{Name: g.GetName(), Fact: g.GetFact(), Change: e.GetExplanation().GetAdvice()}, err
		}
	}
	return nil, err
}

// parked reports whether a person's session waits for an operator.
func parked(p *onboardingv1.Profile) bool {
	return p.GetState().GetStatus() == "stuck" || p.GetState().GetStatus() == "undeliverable"
}

// bubbles turns texts, newest first, into a conversation in the order of their times: a text that an operator had sent again went later
// than its row was made.
func bubbles(texts []*messagingv1.Message, parked bool) (all []bubble) {
	for _, m := range slices.Backward(texts) {
		b := bubble{Message: m, Again: parked && m.GetStatus() == "throttled"}
		if m.GetStatus() == "unknown" || m.GetStatus() == "parked" {
			b.Evidence = root + "/needs/messages/" + m.GetMessageId()
		}
		all = append(all, b)
	}
	slices.SortStableFunc(all, func(a, b bubble) int { return a.At().Compare(b.At()) })
	for i := 1; i < len(all); i++ {
		if gap := all[i].At().Sub(all[i-1].At()).Seconds(); gap < 120 {
			all[i].Gap = fmt.Sprintf("%.1f", gap)
		}
	}
	return all
}

// markDays marks the first text of each day, by the clocks of a place.
func markDays(all []bubble, place *time.Location) {
	last := ""
	for i, b := range all {
		on := b.At().In(place).Format(time.DateOnly)
		all[i].Starts, last = on != last, on
	}
}

// deedsFor returns the deeds about a person in their present state. The services decide once more.
func deedsFor(p *onboardingv1.Profile) (deeds []string) {
	switch at := p.GetState(); {
	case at.GetStatus() == "active":
	case parked(p):
		deeds = append(deeds, "resume")
	case at.GetOptedOutAt() == nil: // an activation of one who opted out is refused
		deeds = append(deeds, "activate")
	}
	if p.GetHold() {
		deeds = append(deeds, "release")
	} else {
		deeds = append(deeds, "hold")
	}
	if p.GetState().GetSessionId() != "" && p.GetState().GetStatus() != "closed" {
		deeds = append(deeds, "reset")
	}
	return deeds
}
