package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// judged finds the text that an operator has to judge in the reason of a session or a job: it may be an opt-out.
var judged = regexp.MustCompile(`the person may want no more texts; read GET /v1/messages/(` + uuidLike + `)`)

// wordsIn returns the id of the text that a reason asks an operator to judge; empty when it asks for no judgement.
func wordsIn(reason string) string {
	if found := judged.FindStringSubmatch(reason); found != nil {
		return found[1]
	}
	return ""
}

// longestQuote bounds the words that the form copies into its reason, in characters: the rest stays in the text that it names.
const longestQuote = 300

// askedWords reads the text that may be an opt-out: the one that the session waits for, or the one that the page's address names.
func (c *Console) askedWords(ctx context.Context, p *personPage, named string) {
	id := wordsIn(p.Session.GetReason())
	if p.Judge = id != ""; !p.Judge {
		id = named
	}
	if id == "" {
		return
	}
	got, err := c.services.Messaging.GetMessage(ctx, &messagingv1.GetMessageRequest{MessageId: id})
	if err != nil {
		p.Unread["words"] = saidBy(err)
		return
	}
	if m := got.GetMessage(); m.GetProfileId() == p.Profile.GetProfileId() && m.GetDirection() == "inbound" {
		p.Words = m
	}
}

// Quote returns the reason that the form proposes for an opt-out: where the person wrote, and what, on one line.
func (p personPage) Quote() string {
	if p.Words == nil {
		return ""
	}
	body := []rune(strings.Join(strings.Fields(p.Words.GetBody()), " "))
	return "text " + p.Words.GetMessageId() + ": " + string(body[:min(len(body), longestQuote)])
}

// waitsForJudgement reports whether a deed would end the wait for a judgement of the person's words as if they were no opt-out.
func (c *Console) waitsForJudgement(ctx context.Context, d deed) (bool, error) {
	switch d.Verb {
	case "resume-session", "reset-session":
		got, err := c.services.Onboarding.GetSession(ctx, &onboardingv1.GetSessionRequest{SessionId: d.ID})
		return wordsIn(got.GetSession().GetReason()) != "", err
	case "cancel-job":
		got, err := c.services.Jobs.GetWebhookJob(ctx, &onboardingv1.GetWebhookJobRequest{JobId: d.ID})
		return wordsIn(got.GetJob().GetErrorMessage()) != "", err
	}
	return false, nil
}

// confirmed refuses such a deed, unless its form says that the words were read.
func (c *Console) confirmed(ctx context.Context, form url.Values, d deed) error {
	if form.Get("judged") != "" {
		return nil
	}
	waits, err := c.waitsForJudgement(ctx, d)
	if waits {
		return errUnjudged
	}
	return err
}

var (
	errUnjudged = status.Error(codes.FailedPrecondition, "the person's words may be an opt-out; confirm that you have read them")
	errStale    = status.Error(codes.Aborted, "the person's consent or number has changed since this page was shown; read it again")
)

// recordConsent writes an opt-out or an opt-in that the person gave, if the ledger is as the page showed it. A form that is sent twice
// or from an old page is refused: it could undo what the person said since.
func (c *Console) recordConsent(r *http.Request) (notice, error) {
	in := &messagingv1.SetConsentRequest{Phone: r.Form.Get("phone"), State: r.Form.Get("state"), Reason: r.Form.Get("reason")}
	n := notice{Typed: typed(r, "method", "reference", "collected_at")}
	switch in.GetState() {
	case "opted_out":
	case "opted_in":
		collected, err := time.ParseInLocation("2006-01-02T15:04", r.Form.Get("collected_at"), c.zoneOf(r))
		if err != nil {
			return said("person.opted_in.when").bad(), nil //nolint:nilerr // the notice says it
		}
		in.Evidence = &messagingv1.Evidence{
			Method: r.Form.Get("method"), Reference: r.Form.Get("reference"), CollectedAt: timestamppb.New(collected),
		}
	default:
		return notice{}, errBadForm
	}
	profile, err := c.asShown(r, in.GetPhone())
	if errors.Is(err, errStale) {
		return said("person.consent.stale").bad(), nil
	}
	if err != nil {
		return n, err
	}
	set, err := c.services.Messaging.SetConsent(r.Context(), in)
	if err != nil {
		return n, err
	}
	if in.GetState() == "opted_in" {
		return said("person.opted_in.done", set.GetWarning()), nil
	}
	return c.endJudged(r.Context(), profile)
}

// asShown returns the person if the number and the ledger are as the page showed them.
func (c *Console) asShown(r *http.Request, phone string) (*onboardingv1.Profile, error) {
	got, err := c.services.Onboarding.GetProfile(r.Context(), &onboardingv1.GetProfileRequest{ProfileId: r.PathValue("id")})
	if err != nil {
		return nil, err
	}
	if got.GetProfile().GetPhone() != phone {
		return nil, errStale
	}
	ledger, err := c.services.Messaging.GetConsent(r.Context(), &messagingv1.GetConsentRequest{Phone: phone, PageSize: 1})
	if err != nil && status.Code(err) != codes.NotFound {
		return nil, err
	}
	if ledger.GetChain().GetHead() != r.Form.Get("head") {
		return nil, errStale
	}
	return got.GetProfile(), nil
}

// endJudged resets the session that waited for this judgement: the words were an opt-out, so nothing of it may go on. The opt-out
// stays if the reset fails.
func (c *Console) endJudged(ctx context.Context, p *onboardingv1.Profile) (notice, error) {
	id := p.GetState().GetSessionId()
	if id == "" {
		return said("person.opted_out.done"), nil
	}
	got, err := c.services.Onboarding.GetSession(ctx, &onboardingv1.GetSessionRequest{SessionId: id})
	if err == nil && wordsIn(got.GetSession().GetReason()) == "" {
		return said("person.opted_out.done"), nil
	}
	if err == nil {
		_, err = c.services.Onboarding.ResetSession(ctx, &onboardingv1.ResetSessionRequest{SessionId: id})
	}
	if err != nil {
		return said("person.opted_out.open", saidBy(err)).bad(), nil
	}
	return said("person.opted_out.reset"), nil
}
