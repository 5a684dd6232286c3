package console

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	explainv1 "paceline.internal/proto/gen/paceline/explain/v1"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// entry is a line of the timeline, with what may be done about it.
type entry struct {
	*onboardingv1.TimelineEntry

	Replay   string // the deed that replays the alarm which was given up; empty once that was done
	Evidence string // where the message that the line names is resolved; empty when it names none

	Word string // the key of what happened, in the group of the timeline
	Note string // the detail, where the word has not said it
	By   string // which operator did it; empty where none did, or who is not known

	Unnamed bool // an operator did it, and it is not known which

	Unsent bool // the step that it names is not sent: it was due when the session ended
	Mended bool // what the detail says to do is done
}

// deedsOf are the kinds of lines that are an operator's deeds. A line of another kind may carry the actor of a call that happened to cause
// it, such as the activation that sent the opening which parked the session.
var deedsOf = []string{"activated", "closed", "released", "resumed", "replayed"}

// heldForDistress begins the reason of a safety hold that the person's own words began: no operator did it.
const heldForDistress = "words of distress"

// inWords fills in the fields that a line is shown by: its words, its note, its operator, and whether its step was left unsent.
func (e entry) inWords() entry {
	e.Word, e.Note = e.GetKind(), e.GetDetail()
	e.Unsent = e.GetKind() == "stopped" || e.GetKind() == "closed"
	if e.GetTrigger() == "operator" || slices.Contains(deedsOf, e.GetKind()) {
		e.By = e.GetActor().GetSubject()
	}
	byItself := e.GetKind() == "held" && strings.HasPrefix(e.GetDetail(), heldForDistress)
	e.Unnamed = e.GetTrigger() == "operator" && e.By == "" && !byItself
	if e.GetKind() == "replied" && e.GetDetail() == "again" { // it was held, and is answered now: it need not be the second
		e.Word, e.Note = "taken_up", ""
	}
	return e
}

// story reads the newest session, what happened in the one that is shown, and which of its alarms QStash gave up.
func (c *Console) story(ctx context.Context, p *personPage) error {
	newest := p.Profile.GetState().GetSessionId()
	if newest == "" {
		return nil
	}
	shown := cmp.Or(p.Chosen, newest)
	var told, now *onboardingv1.GetSessionResponse
	var letters *onboardingv1.ListDeadLettersResponse
	var group errgroup.Group // without another context: the session is shown also when its dead letters cannot be read
	group.Go(func() (err error) { told, err = c.session(ctx, shown); return err })
	if shown != newest {
		group.Go(func() (err error) { now, err = c.session(ctx, newest); return err })
	}
	group.Go(func() (err error) {
		letters, err = c.services.Onboarding.ListDeadLetters(ctx, &onboardingv1.ListDeadLettersRequest{
			SessionId: shown, Open: true, PageSize: mostOfOne,
		})
		return err
	})
	err := group.Wait()
	if p.Session = now.GetSession(); shown == newest {
		p.Session = told.GetSession()
	} else if err == nil && told.GetSession().GetProfileId() != p.Profile.GetProfileId() {
		return status.Error(codes.NotFound, "this person has no such session")
	}
	if err == nil && p.Session.GetNextDueAt() != nil {
		p.Kept, err = c.kept(ctx, newest)
	}
	p.Timeline = timeline(told.GetTimeline(), letters.GetDeadLetters(), told.GetSession())
	if err == nil {
		err = c.addResolutions(ctx, p)
	}
	return err
}

// standing reads the newest session, and the gate that keeps its due step back: no more of the story than the inbox shows.
func (c *Console) standing(ctx context.Context, p *personPage) error {
	newest := p.Profile.GetState().GetSessionId()
	if newest == "" {
		return nil
	}
	told, err := c.session(ctx, newest)
	if p.Session = told.GetSession(); err != nil || p.Session.GetNextDueAt() == nil {
		return err
	}
	p.Kept, err = c.kept(ctx, newest)
	return err
}

// session is a session with its timeline; nothing of one that was deleted meanwhile.
func (c *Console) session(ctx context.Context, id string) (*onboardingv1.GetSessionResponse, error) {
	told, err := c.services.Onboarding.GetSession(ctx, &onboardingv1.GetSessionRequest{SessionId: id})
	if status.Code(err) == codes.NotFound {
		return nil, nil //nolint:nilnil // an empty answer is read like none
	}
	return told, err
}

// kept returns the gate that keeps a step back, other than its time, such as a hold or a pause of scheduling; nil for none.
func (c *Console) kept(ctx context.Context, sessionID string) (*explainv1.Gate, error) {
	e, err := c.services.Onboarding.ExplainSession(ctx, &onboardingv1.ExplainSessionRequest{SessionId: sessionID})
	for _, g := range e.GetExplanation().GetGates() {
		if !g.GetPassed() && g.GetName() != "due" && g.GetName() != "send.not_accepted" {
			return g, err
		}
	}
	return nil, err
}

// timeline turns entries around, and finds what may be done about each: the detail of one names its dead letter, or its message. What an
// entry before the newest parking says to do is done, and so is that of a session which is not parked any more.
func timeline(entries []*onboardingv1.TimelineEntry, letters []*onboardingv1.DeadLetter, of *onboardingv1.Session) (all []entry) {
	mended := of.GetStatus() != "stuck" && of.GetStatus() != "undeliverable"
	for _, e := range slices.Backward(entries) {
		line := entry{TimelineEntry: e, Evidence: messageIn(e.GetDetail())}
		if e.GetKind() == "parked" {
			line.Mended, mended = mended, true
		}
		for _, l := range letters {
			if strings.Contains(e.GetDetail(), l.GetDeadLetterId()) {
				line.Replay = deed{Verb: "replay-letter", ID: l.GetDeadLetterId()}.String()
			}
		}
		all = append(all, line.inWords())
	}
	return all
}

// maxResolved bounds the texts of a timeline for which resolutions are read.
const maxResolved = 3

// addResolutions adds to the timeline when an operator resolved a text that parked the session, which the audit knows.
func (c *Console) addResolutions(ctx context.Context, p *personPage) error {
	var asked []string
	for _, e := range p.Timeline {
		id := strings.TrimPrefix(e.Evidence, root+"/needs/messages/")
		if id == "" || slices.Contains(asked, id) || len(asked) == maxResolved {
			continue
		}
		asked = append(asked, id)
	}
	for _, id := range asked {
		calls, err := c.services.Onboarding.ListAudit(ctx, &onboardingv1.ListAuditRequest{
			Method: strings.TrimPrefix(messagingv1.MessagingService_ResolveMessage_FullMethodName, "/"), TargetId: id, PageSize: mostOfEach,
		})
		if err != nil {
			return err
		}
		for _, call := range calls.GetEntries() {
			if call.GetOutcome() == codes.OK.String() {
				p.Timeline = append(p.Timeline, entry{
					TimelineEntry: &onboardingv1.TimelineEntry{At: call.GetAt()}, Word: "resolved", By: call.GetActor().GetSubject(),
				})
			}
		}
	}
	if len(asked) == 0 {
		return nil
	}
	slices.SortStableFunc(p.Timeline, func(a, b entry) int { return b.GetAt().AsTime().Compare(a.GetAt().AsTime()) })
	return nil
}

// sessionsShown are the newest sessions of a person that the page leads to.
const sessionsShown = 10

// sessionsOf reads them, where there is more than the newest.
func (c *Console) sessionsOf(ctx context.Context, p *personPage) error {
	if p.Profile.GetState().GetSessionId() == "" {
		return nil
	}
	out, err := c.services.Onboarding.ListSessions(ctx, &onboardingv1.ListSessionsRequest{
		ProfileId: p.Profile.GetProfileId(), PageSize: sessionsShown,
	})
	if len(out.GetSessions()) > 1 {
		p.Sessions = out.GetSessions()
	}
	return err
}
