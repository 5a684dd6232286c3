package conversation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/flow"
	"paceline.internal/services/onboarding/people"
	"paceline.internal/services/onboarding/session"
)

// Judged does for a person who has answered whether the texts are to stop what an operator's judgement would: the job that waits for it is
// cancelled, and if they go on, the session that waits is resumed. Then a step that asks for an answer asks again; any other takes the
// text.
func (c *Service) Judged(ctx context.Context, m Reply) error {
	now := c.Now()
	if err := c.Store.JudgeJobs(ctx, m.OrgID, m.Phone, m.ReceivedAt, now); err != nil || !m.LiftsHold {
		return err
	}
	view, err := c.Store.Conversation(ctx, m.OrgID, m.Phone)
	if err != nil || !awaitsJudgement(view.Session) {
		return err
	}
	_, err = c.Store.Resume(ctx, m.OrgID, view.Session.ID, session.TriggerReply, false, now)
	if errors.Is(err, ErrEnded) || errors.Is(err, ErrOtherOpen) || errors.Is(err, ErrTicketOpen) { // moved meanwhile
		return nil
	}
	return err
}

// Answer has a session follow a message of its person, or note it in the timeline, and ends the message's job with that.
// people.ErrConflict when the session has moved since it was read.
func (c *Service) Answer(ctx context.Context, view View, m Reply) error {
	if view.Session.ID == "" { // of an unknown person, or of one without a session and not for the inbox: kept, and not answered
		return c.unattended(ctx, m)
	}
	ctx, end := c.Spans.Begin(ctx, "onboarding.reply", view.Session.ID)
	defer end()
	if m.Effect == EffectNone || m.LiftsHold {
		return c.follow(ctx, view, m)
	}
	return c.consent(ctx, view, m)
}

// follow does what an ordinary reply asks for, if it still answers something.
func (c *Service) follow(ctx context.Context, view View, m Reply) error {
	s, why := view.Session, ""
	switch early, err := c.isEarly(ctx, s, m); {
	case m.before(s.CreatedAt): // an answer to an episode that is over, or to nothing
		why = "before_session"
	case m.Place != AnyPlace && m.Place != s.Place(): // a later message has been answered meanwhile
		why = "overtaken"
	case err != nil:
		return err
	case early:
		why = "early"
	}
	if why != "" {
		return c.Store.Note(ctx, s, []session.Entry{c.replied(m, why)}, m.cause(), c.Now())
	}
	return c.decide(ctx, view, m)
}

// isEarly reports whether a reply reached us during the burst, and its job runs after it. A reply during the burst answers nothing, and
// that stays so. A message that was found late answers only if we have sent nothing since the person wrote it.
func (c *Service) isEarly(ctx context.Context, s session.Record, m Reply) (bool, error) {
	if m.LateBy > 0 && m.Job.EventType == EventMessage {
		asked, err := c.Store.LastMessageAt(ctx, s.ID)
		return m.before(asked), err
	}
	if !isFirstHand(m.Job) || s.Flow == "" && s.Token != session.AwaitingInterviewStart || !m.before(s.UpdatedAt) {
		return false, nil
	}
	asked, err := c.Store.LastStepAt(ctx, s.ID)
	return m.before(asked), err
}

// consent follows what messaging has already committed: a STOP ends the session, what may be one parks it, the rest only adds to the
// timeline.
func (c *Service) consent(ctx context.Context, view View, m Reply) error {
	now := c.Now()
	s := view.Session
	if m.Effect == EffectOptOut && (s.Status == session.Active || s.Status.Parked()) {
		stop := session.Stop(s, now, session.TriggerStop, m.MessageID)
		stop.Entries[0].Detail = m.dated(stop.Entries[0].Detail)
		return c.Store.Move(ctx, stop, m.cause())
	}
	if m.Effect == EffectAmbiguous && s.Status == session.Active {
		park := session.Park(s, now, session.Stuck, session.TriggerReply, m.MessageID, ambiguous(s, m))
		park.Settled = true // by the operator's decision: taken up again, it would park the session again
		park.Entries = append([]session.Entry{c.replied(m, "may be an opt-out")}, park.Entries...)
		return c.Store.Move(ctx, park, m.cause())
	}
	cause := m.cause()
	if !awaitsJudgement(s) { // else an operator is about to judge such words
		err := c.unattended(ctx, m)
		if _, asks := errors.AsType[*queue.Permanent](err); asks {
			cause.Failure = err.Error()
		} else if err != nil && !errors.Is(err, ErrNothingToDo) {
			return err
		}
	}
	detail := map[Effect]string{
		EffectOptOut: "STOP", EffectOptIn: "START", EffectHelp: "HELP", EffectOvertaken: "overtaken", EffectAmbiguous: "may be an opt-out",
	}[m.Effect]
	return c.Store.Note(ctx, s, []session.Entry{c.replied(m, detail)}, cause, now)
}

// ErrNothingToDo reports that a job's work is done although nothing was changed, so that the runner has to end it.
var ErrNothingToDo = errors.New("nothing to do")

// unattended ends a text that no session takes: there is nothing to do, unless it may be an opt-out. Then it fails the job, so that an
// operator finds it among the failed jobs: messages that belong to no conversation, such as those of the outbound queue, would go on. One
// job of a person is enough: else a person who writes such words a thousand times would bury those of others.
func (c *Service) unattended(ctx context.Context, m Reply) error {
	if m.Effect != EffectAmbiguous {
		return ErrNothingToDo
	}
	asked, err := c.Store.AwaitsOperator(ctx, m.Job.OrgID, m.Job.Subject)
	switch {
	case err != nil:
		return err
	case asked:
		return ErrNothingToDo
	}
	return ForOperator(AmbiguousReason+"; read GET /v1/messages/%s; "+
		"if they do, PUT /v1/consents/{their number} with opted_out; then, or if they do not, cancel this job; "+
		"their own STOP or YES settles it, too", m.MessageID)
}

// AmbiguousReason begins the reason of a session that is parked for such words.
const AmbiguousReason = "the person may want no more texts"

// awaitsJudgement reports whether a session is parked for such words.
func awaitsJudgement(s session.Record) bool {
	return s.Status.Parked() && strings.HasPrefix(s.Reason, AmbiguousReason)
}

// ambiguous is the reason that says what an operator has to judge, and what to do either way. Nothing is sent before.
func ambiguous(s session.Record, m Reply) string {
	return fmt.Sprintf(AmbiguousReason+"; read GET /v1/messages/%s; if they do, "+
		"PUT /v1/consents/{their number} with opted_out and "+
		"POST /v1/sessions/%s:reset; if not, POST /v1/sessions/%s:resume; their own STOP or YES settles it, too", m.MessageID, s.ID, s.ID)
}

// decide asks the pure core what a reply means here, and does it.
func (c *Service) decide(ctx context.Context, view View, m Reply) error {
	s, now := view.Session, c.Now()
	decision, intent, err := c.onReply(ctx, view, m)
	if err != nil {
		return err
	}
	replied := c.replied(m, "")
	if m.Place != AnyPlace { // its first entry was made when it was held, or when the session was parked
		replied.Detail = m.dated("again")
	}
	hold := func(why string) error {
		replied.Kind, replied.Detail = session.KindHeld, m.dated(why)
		return c.Store.DeferReply(ctx, s, *m.cause(), replied)
	}
	switch d := decision.(type) {
	case session.Follow:
		if text, sends := direct(d.Decision); sends {
			return c.sendAnswer(ctx, view, m, d.Decision, text, replied, intent)
		}
		return c.goOn(ctx, view, m, d.Decision, replied)
	case session.Defer:
		if s.Status.Parked() {
			return hold("parked")
		}
		return hold("burst")
	case session.Ignore:
		if d.Reason == session.SkipSafetyHold { // answered when the hold is lifted, if the session still waits for it
			return hold(string(d.Reason))
		}
		replied.Detail = m.dated(string(d.Reason))
		return c.Store.Note(ctx, s, []session.Entry{replied}, m.cause(), now)
	}
	return fmt.Errorf("conversation: decision %T is unknown", decision)
}

// onReply asks the flow of a session what a reply does, and returns how it was read.
func (c *Service) onReply(ctx context.Context, view View, m Reply) (session.Decision, session.Intent, error) {
	f, err := c.flowOf(ctx, view.Session)
	if err != nil {
		return nil, 0, err
	}
	intent := session.IntentAt(f, view.Session, m.Body)
	said := flow.Said{Text: m.Body, Locale: view.Locale, Zone: view.Zone, At: m.At, GoesOn: m.LiftsHold}
	decision, err := session.OnReply(f, view.Session, view.Hold, view.person(f), said, intent)
	return decision, intent, err
}

// direct returns the text that a decision sends at once, if it does.
func direct(d flow.Decision) (flow.SendText, bool) {
	text, is := d.Do.(flow.SendText)
	return text, is && text.Direct
}

// sendAnswer answers with a text at once. Its key names the place or the visit of the session, so that two replies handled at the same
// moment are answered by one message, and so is one that is taken up again after the session was parked.
func (c *Service) sendAnswer(
	ctx context.Context, view View, m Reply, d flow.Decision, text flow.SendText, replied session.Entry, intent session.Intent,
) error {
	s := view.Session
	f, err := c.flowOf(ctx, s)
	if err != nil {
		return err
	}
	_, move, err := c.deliver(ctx, order{
		View: view, Flow: f, Learnt: d.Save, Text: session.TextKey(text.Text), Key: session.ReplyKey(s, text),
		CorrelationID: m.Job.ID, Trigger: session.TriggerOf(intent), Cause: m.cause(), Before: []session.Entry{replied},
		Then: func(ctx context.Context, sent Sent) (session.Move, error) {
			move := session.AfterText(f, s, view.person(f), d, sent.AcceptedAt, c.Now())
			changed := move.Advanced(session.TriggerOf(intent))
			if move.Paused {
				changed.Kind = session.KindPaused
			}
			move.AnswerHeldSince = sent.AskedAt // replies that came while the session was parked
			move.Entries = []session.Entry{changed}
			return move, c.armed(ctx, view, &move)
		},
	})
	if err == nil {
		c.publish(ctx, view, move)
	}
	if wait := capped(err); wait != nil {
		return c.answerLater(ctx, view, m, max(wait.RetryAfter, holdPause), replied, string(session.SkipCapped))
	}
	if errors.Is(err, ErrHeld) {
		// By words that may come behind this reply; or by a safety hold, which the next read sees.
		if _, asked := c.Carrier.CheckSender(ctx, s.OrgID, view.Phone); errors.Is(asked, people.ErrAwaitsOperator) {
			return c.answerLater(ctx, view, m, holdPause, replied, AmbiguousReason)
		}
	}
	return err
}

// replySubject is the subject of replies that wait for long at a place of a session: what the person writes meanwhile does not wait
// behind them. In the end each becomes a job of the person again, so that no two are answered at the same moment.
func replySubject(sessionID string, place int) string {
	return fmt.Sprintf("reply:%s:%d", sessionID, place)
}

// WaitingReply returns the session and the place at which a reply waits for long; an empty session for every other job.
func WaitingReply(j queue.Job) (sessionID string, place int) {
	of, waits := strings.CutPrefix(j.Subject, "reply:")
	sessionID, at, _ := strings.Cut(of, ":")
	place, err := strconv.Atoi(at)
	if !waits || err != nil || j.EventType != EventResumedReply {
		return "", 0
	}
	return sessionID, place
}

// answerLater has a reply wait that cannot be answered for long, and ends its job. It answers only in its place: if the conversation goes
// on meanwhile, it is overtaken.
func (c *Service) answerLater(ctx context.Context, view View, m Reply, after time.Duration, replied session.Entry, why string) error {
	s, now := view.Session, c.Now()
	message := m.Job.Payload
	if m.Job.EventType == EventResumedReply {
		var wrapped struct {
			Message json.RawMessage `json:"message"`
		}
		if err := json.Unmarshal(m.Job.Payload, &wrapped); err != nil {
			return Unreadable(m.Job, err)
		}
		message = wrapped.Message
	}
	payload, err := json.Marshal(map[string]any{"place": s.Place(), "message": message, "received_at": m.ReceivedAt})
	if err != nil {
		return fmt.Errorf("encode a reply that waits: %w", err)
	}
	job := NewJob(s.OrgID, SourceInternal, EventResumedReply, "waits:"+m.Job.ID, replySubject(s.ID, s.Place()), payload, now)
	job.DueAt = now.Add(after)
	var entries []session.Entry
	if m.Place == AnyPlace { // else its first entry was made before
		replied.Kind, replied.Detail = session.KindHeld, m.dated(why)
		entries = append(entries, replied)
	}
	return c.Store.PutOff(ctx, s, job, entries, *m.cause())
}

// TakeTurn has a reply that has waited take its turn behind what its person wrote last.
func (c *Service) TakeTurn(ctx context.Context, j queue.Job) error {
	id, _ := WaitingReply(j)
	view, err := c.Store.LoadSession(ctx, id)
	switch {
	case errors.Is(err, ErrNoSession): // erased
		return nil
	case err != nil:
		return &queue.Snooze{After: holdPause, Cause: err}
	}
	return c.bringBack(ctx, view, j)
}

// goOn sends nothing now: the text that is due next is sent by its alarm, and not in quiet hours.
func (c *Service) goOn(ctx context.Context, view View, m Reply, d flow.Decision, replied session.Entry) error {
	f, err := c.flowOf(ctx, view.Session)
	if err != nil {
		return err
	}
	s, now := view.Session, c.Now()
	move := session.Proceed(f, s, d, now, now)
	move.Entries = []session.Entry{move.Advanced(session.TriggerReplyAdvance)}
	startsAnew(&move)
	move.Entries = append([]session.Entry{replied}, move.Entries...)
	if err := c.armed(ctx, view, &move); err != nil {
		return err
	}
	if err := c.Store.Move(ctx, move, m.cause()); err != nil {
		return err
	}
	c.publish(ctx, view, move)
	return nil
}

// publish publishes the alarm of a move that was made, unless its organisation is paused.
func (c *Service) publish(ctx context.Context, view View, move session.Move) {
	if move.Alarm != nil && !view.SchedulingPaused {
		c.Alarms.PublishOrLeave(ctx, *move.Alarm)
	}
}

func (c *Service) replied(m Reply, detail string) session.Entry {
	return session.Entry{
		At: c.Now(), Kind: session.KindReplied, Trigger: session.TriggerReply, MessageID: m.MessageID, Detail: m.dated(detail),
	}
}

// IsReply reports whether a job carries a message of a person.
func IsReply(j queue.Job) bool { return isFirstHand(j) || j.EventType == EventResumedReply }

// isFirstHand reports whether a job carries a message that comes as its vendor brought it.
func isFirstHand(j queue.Job) bool {
	return j.EventType == EventMessage || j.EventType == EventWhatsApp
}
