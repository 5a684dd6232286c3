package console

import (
	"context"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

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
}

// deedsOf are the kinds of lines that are an operator's deeds. A line of another kind may carry the actor of a call that happened to cause
// it, such as the activation whose opening parked the session.
var deedsOf = []string{"activated", "closed", "released", "resumed", "replayed"}

// inWords says how a line is read.
func (e entry) inWords() entry {
	e.Word, e.Note = e.GetKind(), e.GetDetail()
	if e.GetTrigger() == "operator" || slices.Contains(deedsOf, e.GetKind()) {
		e.By = e.GetActor().GetSubject()
	}
	if e.GetKind() == "replied" && e.GetDetail() == "again" { // it was held, and is answered now: it need not be the second
		e.Word, e.Note = "taken_up", ""
	}
	return e
}

// story reads the newest session, what happened in it, and which of its alarms QStash gave up.
func (c *Console) story(ctx context.Context, p *personPage) error {
	id := p.Profile.GetState().GetSessionId()
	if id == "" {
		return nil
	}
	var told *onboardingv1.GetSessionResponse
	var letters *onboardingv1.ListDeadLettersResponse
	var group errgroup.Group // without a context of its own: the session is shown also when its dead letters cannot be read
	group.Go(func() (err error) {
		told, err = c.services.Onboarding.GetSession(ctx, &onboardingv1.GetSessionRequest{SessionId: id})
		if status.Code(err) == codes.NotFound { // it was deleted meanwhile
			return nil
		}
		return err
	})
	group.Go(func() (err error) {
		letters, err = c.services.Onboarding.ListDeadLetters(ctx, &onboardingv1.ListDeadLettersRequest{
			SessionId: id, Open: true, PageSize: mostOfOne,
		})
		return err
	})
	err := group.Wait()
	p.Session, p.Timeline = told.GetSession(), timeline(told.GetTimeline(), letters.GetDeadLetters())
	return err
}

// timeline turns entries around, and finds what may be done about each: the detail of one names its dead letter, or its message.
func timeline(entries []*onboardingv1.TimelineEntry, letters []*onboardingv1.DeadLetter) (all []entry) {
	for _, e := range slices.Backward(entries) {
		line := entry{TimelineEntry: e, Evidence: messageIn(e.GetDetail())}
		for _, l := range letters {
			if strings.Contains(e.GetDetail(), l.GetDeadLetterId()) {
				line.Replay = deed{Verb: "replay-letter", ID: l.GetDeadLetterId()}.String()
			}
		}
		all = append(all, line.inWords())
	}
	return all
}
