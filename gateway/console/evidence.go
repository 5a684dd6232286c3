package console

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// evidence is all that is known of a message in doubt, and the forms that resolve it.
func (c *Console) evidence(r *http.Request) (page, error) {
	out, err := c.services.Messaging.GetEvidence(r.Context(), &messagingv1.GetEvidenceRequest{MessageId: r.PathValue("id")})
	if err != nil {
		return page{}, err
	}
	shown := evidencePage{GetEvidenceResponse: out, Candidates: candidates(out)}
	shown.Open = inDoubt(out.GetMessage()) || slices.Contains([]string{"rejected", "given_up"}, out.GetMessage().GetStatus())
	if out.GetMessage().ErrorCode != nil {
		shown.Meaning = c.meaning(r.Context(), out.GetMessage().GetMessageId())
	}
	if id := out.GetMessage().GetProfileId(); id != "" {
		shown.Person = c.profilesOf(r.Context(), []string{id})[id]
	}
	shown.Again = parked(shown.Person) && out.GetMessage().GetStatus() == "throttled"
	return page{Title: "evidence.title", Name: "evidence", Body: shown}, nil
}

// evidencePage is the data of pages/evidence.html.
type evidencePage struct {
	*messagingv1.GetEvidenceResponse

	Candidates []*messagingv1.Candidate // of all listings, each once
	Person     *onboardingv1.Profile    // nil for one who cannot be told
	Meaning    string                   // of its code; empty where it has none, or that cannot be read
	Open       bool                     // it may be resolved
	Again      bool                     // it goes once its session is resumed
}

// meaning returns messaging's text about a code: why the message was refused, or not delivered.
func (c *Console) meaning(ctx context.Context, messageID string) string {
	e, err := c.services.Messaging.ExplainMessage(ctx, &messagingv1.ExplainMessageRequest{MessageId: messageID})
	if err != nil && ctx.Err() == nil {
		c.log.WarnContext(ctx, "console.part_failed", "part", "meaning", "error", err)
	}
	for _, g := range e.GetExplanation().GetGates() {
		says := !g.GetPassed() || e.GetExplanation().GetNeedsPerson() && g.GetName() == "backoff"
		if slices.Contains([]string{"attempt", "delivered", "backoff"}, g.GetName()) && says {
			return g.GetFact()
		}
	}
	return ""
}

func candidates(out *messagingv1.GetEvidenceResponse) (all []*messagingv1.Candidate) {
	seen := map[string]bool{}
	for _, look := range out.GetLooks() {
		for _, c := range look.GetCandidates() {
			if !seen[c.GetTwilioSid()] {
				seen[c.GetTwilioSid()], all = true, append(all, c)
			}
		}
	}
	return all
}

// resolve is an operator's word on the message, about the attempt that the page showed.
func (c *Console) resolve(r *http.Request) (notice, error) {
	resolution, known := map[string]messagingv1.Resolution{
		"sent":     messagingv1.Resolution_RESOLUTION_SENT,
		"not_sent": messagingv1.Resolution_RESOLUTION_NOT_SENT,
		"give_up":  messagingv1.Resolution_RESOLUTION_GIVE_UP,
	}[r.Form.Get("resolution")]
	attempt, err := strconv.ParseInt(r.Form.Get("attempt"), 10, 32)
	if err != nil || !known {
		return notice{}, errBadForm
	}
	in := &messagingv1.ResolveMessageRequest{
		MessageId: r.PathValue("id"), Resolution: resolution, Reason: r.Form.Get("reason"), Attempt: int32(attempt),
	}
	if resolution == messagingv1.Resolution_RESOLUTION_SENT {
		in.TwilioSid = r.Form.Get("twilio_sid")
	}
	resolved, err := c.services.Messaging.ResolveMessage(r.Context(), in)
	if err != nil {
		return notice{}, err
	}
	waits, err := c.parkedSession(r.Context(), resolved.GetMessage().GetProfileId())
	if err != nil { // the text is resolved all the same
		c.log.WarnContext(r.Context(), "console.part_failed", "part", "person", "error", err)
		return said("evidence.resolved"), nil
	}
	if waits == "" {
		return said("evidence.resolved.alone"), nil
	}
	return said("evidence.resolved.then", "/v1/sessions/"+waits+":resume"), nil
}
