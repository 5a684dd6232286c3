package inbound

import (
	"context"
	"errors"
	"fmt"
	"time"

	"paceline.internal/platform/phone"
	"paceline.internal/platform/queue"
	"paceline.internal/platform/roster"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/erasure"
	"paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// published finds the flow that a word enters, and the one that a session follows; flows.Store implements it.
type published interface {
	ByKeyword(ctx context.Context, orgID, text string) (flow.Flow, bool, error)
	Version(ctx context.Context, orgID, name, version string) (flow.Flow, error)
}

// EntrySource names in the ledger the consent of a person who has written a keyword of a flow.
const EntrySource = "keyword"

// strangersReach bounds how late the keyword of an unknown phone may reach us and still enrol it.
const strangersReach = time.Hour

// enroller makes a profile of a phone that has none; people.Service implements it.
type enroller interface {
	EnrolStranger(ctx context.Context, orgID, phone string, languages []string) (people.Profile, error)
}

// takeKeyword begins a published flow for a person who writes one of its keywords while they have no open conversation. The text is the
// evidence of consent. A phone without a profile is enrolled.
func (in *Service) takeKeyword(ctx context.Context, t text) (bool, error) {
	if !t.own || t.Phone == "" {
		return false, nil
	}
	who, err := in.person(ctx, t)
	if err != nil || who.Session.Status == session.Active && who.Session.Mode == session.Onboarding {
		return false, err
	}
	f, found, err := in.Flows.ByKeyword(ctx, t.OrgID, t.Body)
	if errors.Is(err, flow.ErrUnreadable) { // the failed job says so; it is retried once the flow is published again
		return true, &queue.Permanent{Cause: err}
	}
	if err != nil || !found {
		return false, err
	}
	view, err := in.Store.Conversation(ctx, t.OrgID, t.Phone)
	if err != nil {
		return false, err
	}
	s := view.Session
	inOne := s.Status == session.Active && s.Mode == session.Onboarding || s.Status.Parked()
	if inOne || !s.CreatedAt.Before(t.message.until()) {
		return false, nil // it is a word in a conversation, or has begun one already
	}
	if s.ProfileID == "" && t.message.lateBy > strangersReach {
		return false, nil // whoever wrote it may have been erased since
	}
	err = in.enter(ctx, t, s.ProfileID, f)
	_, limited := errors.AsType[*conversation.TooManyActivations](err)
	switch {
	case err == nil:
		return true, conversation.ErrNothingToDo
	case errors.Is(err, people.ErrSuspended): // the text waits for the end of that
		return false, &conversation.Pending{Outcome: conversation.Capped, RetryAfter: time.Minute}
	case limited, errors.Is(err, people.ErrOptedOut), errors.Is(err, people.ErrOnHold), errors.Is(err, people.ErrNoSender),
		errors.Is(err, people.ErrAwaitsOperator), errors.Is(err, phone.ErrRefused), errors.Is(err, conversation.ErrOtherOpen),
		errors.Is(err, conversation.ErrTicketOpen),
		errors.Is(err, conversation.ErrFlowSendsNothing), errors.Is(err, people.ErrConsent),
		errors.Is(err, roster.ErrInvalid), errors.Is(err, erasure.ErrBegun):
		in.Log.WarnContext(ctx, "onboarding.keyword_refused", "flow", f.Name, "error", err) // it stays a text
		return false, nil
	}
	return false, err
}

// enter begins a flow for a person, who is enrolled before if they have no profile.
func (in *Service) enter(ctx context.Context, t text, profileID string, f flow.Flow) error {
	consent, err := people.ConsentRecord{
		Source: EntrySource, WordsShown: t.Body, CollectedAt: t.At.Truncate(time.Second),
	}.Normalise(in.Now())
	if err != nil {
		return err // before anybody is enrolled
	}
	if profileID == "" {
		p, err := in.People.EnrolStranger(ctx, t.OrgID, t.Phone, f.Languages)
		if err != nil {
			return err
		}
		profileID = p.ID
		joined := conversation.View{Locale: t.view.Locale, Session: session.Record{ProfileID: p.ID}}
		if _, err := in.Carrier.Record(ctx, t.message.Message, joined, t.At); err != nil {
			return fmt.Errorf("record whose message it is: %w", err) // the next try records it before it looks for a keyword
		}
	}
	_, err = in.Conversations.Begin(ctx, t.OrgID, conversation.Start{ProfileID: profileID, Flow: f.Name, Consent: &consent})
	return err
}
