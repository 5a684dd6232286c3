package inbound

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/burst"
	"paceline.internal/services/onboarding/dispatch"
	"paceline.internal/services/onboarding/enrolment"
	"paceline.internal/services/onboarding/jobs"
	"paceline.internal/services/onboarding/session"
)

// maxDecisions bounds how often a text is decided anew because the session moved meanwhile. Then the job is tried later.
const maxDecisions = 3

// answer does what a recorded text asks for. Each text takes effect once: the change completes the job it came in.
func (r *Router) answer(ctx context.Context, j jobs.Job, m Resumed, recorded Recorded) error {
	err := r.answerOnce(ctx, j, m, recorded)
	for n := 1; n < maxDecisions && errors.Is(err, dispatch.ErrConflict); n++ {
		err = r.answerOnce(ctx, j, m, recorded)
	}
	return dispatch.Soften(err, r.Now().Sub(j.CreatedAt))
}

func (r *Router) answerOnce(ctx context.Context, j jobs.Job, m Resumed, recorded Recorded) error {
	view, err := r.concerned(ctx, j, m, recorded)
	if errors.Is(err, dispatch.ErrNoSession) {
		return r.unattended(ctx, j, recorded) // nobody we know, or not activated: kept as a message, answers nothing
	}
	if err != nil {
		return err
	}
	ctx, end := r.Threads.Begin(ctx, "onboarding.reply", view.Session.ID)
	defer end()
	cause := dispatch.Cause{Job: j}
	if recorded.Effect != EffectNone {
		return r.consent(ctx, view, cause, recorded)
	}
	if m.before(j, view.Session.CreatedAt) { // an answer to an episode that is over, or to nothing
		return r.Sessions.Note(ctx, view.Session.ID, []session.Entry{r.replied(recorded, "before_session")}, &cause, r.Now())
	}
	if m.Place != anyPlace && m.Place != view.Session.Place() { // a later text has been answered meanwhile
		return r.Sessions.Note(ctx, view.Session.ID, []session.Entry{r.replied(recorded, "overtaken")}, &cause, r.Now())
	}
	early, err := r.isEarly(ctx, view.Session, j, m)
	if err != nil {
		return err
	}
	if early {
		return r.Sessions.Note(ctx, view.Session.ID, []session.Entry{r.replied(recorded, "early")}, &cause, r.Now())
	}
	return r.decide(ctx, view, cause, m, recorded)
}

// concerned is the conversation that a text is about. A reply is about the open one. A word about consent, however late it is worked, is
// about the one that stood when it was said, and not about one that was opened since; but an opt-out that is in force stops whatever
// there is.
func (r *Router) concerned(ctx context.Context, j jobs.Job, m Resumed, recorded Recorded) (dispatch.View, error) {
	view, err := r.Sessions.LoadConversation(ctx, recorded.OrgID, m.Message.From)
	if err != nil || recorded.Effect == EffectNone || !view.Session.CreatedAt.After(m.until(j)) {
		return view, err
	}
	if recorded.Effect == EffectOptOut { // asked again after the session was read: a START and an activation may have come since
		now, err := r.Messaging.Record(ctx, m.Message, view.Session.ProfileID, m.received(j))
		if err != nil || now.InForce {
			return view, err
		}
	}
	return r.History.ConversationAt(ctx, recorded.OrgID, m.Message.From, m.until(j))
}

// isEarly reports whether a reply reached us during the burst, before it could answer its last message, and only its job came
// to be done after it. Had it been done in time, it would have been held and answered nothing; it answers nothing now. A late
// text has not waited its turn either: it answers only if we have said nothing since it was said.
func (r *Router) isEarly(ctx context.Context, s session.Record, j jobs.Job, m Resumed) (bool, error) {
	if m.Message.Late() && j.EventType == EventMessage {
		asked, err := r.History.LastTextAt(ctx, s.ID)
		return m.before(j, asked), err
	}
	if !isFirstHand(j) || s.Token != session.AwaitingInterviewStart || !m.before(j, s.UpdatedAt) {
		return false, nil
	}
	asked, err := r.History.LastStepAt(ctx, s.ID)
	return m.before(j, asked), err
}

// consent follows what messaging has already committed: a STOP ends the session, what may be one parks it, the rest is only told.
func (r *Router) consent(ctx context.Context, view dispatch.View, cause dispatch.Cause, recorded Recorded) error {
	now := r.Now()
	s := view.Session
	if recorded.Effect == EffectOptOut && (s.Status == session.Active || s.Status.Parked()) {
		stop := session.Stop(s, now, session.TriggerStop, recorded.MessageID)
		stop.Entries[0].Detail = recorded.told(stop.Entries[0].Detail)
		return r.Sessions.Move(ctx, stop, &cause)
	}
	if recorded.Effect == EffectDoubtful && s.Status == session.Active {
		doubt := session.Park(s, now, session.Stuck, session.TriggerReply, recorded.MessageID, doubted(s, recorded))
		doubt.Settled = true // by the operator's word: taken up again, it would park the session again
		doubt.Entries = append([]session.Entry{r.replied(recorded, "may be an opt-out")}, doubt.Entries...)
		return r.Sessions.Move(ctx, doubt, &cause)
	}
	if waits := s.Status.Parked() && strings.HasPrefix(s.Reason, doubtedReason); !waits { // else an operator is about to judge such words
		err := r.unattended(ctx, cause.Job, recorded)
		if _, asks := errors.AsType[*jobs.Permanent](err); asks {
			cause.Failure = err.Error()
		} else if err != nil {
			return err
		}
	}
	detail := map[Effect]string{
		EffectOptOut: "STOP", EffectOptIn: "START", EffectHelp: "HELP", EffectOvertaken: "overtaken", EffectDoubtful: "may be an opt-out",
	}[recorded.Effect]
	return r.Sessions.Note(ctx, s.ID, []session.Entry{r.replied(recorded, detail)}, &cause, now)
}

// unattended fails the job of words that may be an opt-out where no session can wait for an operator, so that they are found among
// the failed jobs: texts that belong to no conversation, such as those of the outbound queue, would go on. One job of a person is
// enough: else whoever writes such words a thousand times would bury everybody else's.
func (r *Router) unattended(ctx context.Context, j jobs.Job, recorded Recorded) error {
	if recorded.Effect != EffectDoubtful {
		return nil
	}
	asked, err := r.History.AwaitsOperator(ctx, j.OrgID, j.Subject)
	if err != nil || asked {
		return err
	}
	return jobs.ForOperator("the person may want no more texts; read GET /v1/messages/%s; "+
		"if they do, PUT /v1/consents/{their number} with opted_out; then, or if they do not, cancel this job", recorded.MessageID)
}

// doubtedReason begins the reason of a session that is parked for such words.
const doubtedReason = "the person may want no more texts"

// doubted tells an operator what to judge, and what to do either way. Nothing is sent before.
func doubted(s session.Record, recorded Recorded) string {
	return fmt.Sprintf(doubtedReason+"; read GET /v1/messages/%s; if they do, "+
		"PUT /v1/consents/{their number} with opted_out and "+
		"POST /v1/sessions/%s:reset; if not, POST /v1/sessions/%s:resume", recorded.MessageID, s.ID, s.ID)
}

// decide asks the pure core what a reply means here, and does it.
func (r *Router) decide(ctx context.Context, view dispatch.View, cause dispatch.Cause, m Resumed, recorded Recorded) error {
	s, intent := view.Session, session.IntentOf(m.Message.Body)
	decision, err := session.OnReply(r.Flow, view.Snapshot(), intent)
	if err != nil {
		return err
	}
	replied := r.replied(recorded, "")
	if m.Place != anyPlace { // it was told when it was held, or when the session was parked
		replied.Detail = recorded.told("again")
	}
	switch d := decision.(type) {
	case session.SendAndMove:
		return r.send(ctx, view, cause, d, replied, intent)
	case session.StartBurst:
		return r.startBurst(ctx, s, cause, d, replied)
	case session.BeginInterview:
		move := session.Stay(s, r.Now())
		move.Token, move.Mode, move.Paused = d.To, d.Mode, false
		move.Entries = []session.Entry{replied, r.advanced(s, d.To, intent)}
		return r.Sessions.Move(ctx, move, &cause)
	case session.Hold:
		if s.Status.Parked() {
			return r.hold(ctx, s, cause, replied, recorded.told("parked"))
		}
		return r.hold(ctx, s, cause, replied, recorded.told("burst"))
	case session.Ignore:
		if d.Reason == session.SkipSafetyHold { // answered when the hold is lifted, if the session still waits for it
			return r.hold(ctx, s, cause, replied, recorded.told(string(d.Reason)))
		}
		replied.Detail = recorded.told(string(d.Reason))
		return r.Sessions.Note(ctx, s.ID, []session.Entry{replied}, &cause, r.Now())
	}
	return fmt.Errorf("inbound: decision %T is unknown", decision)
}

func (r *Router) hold(ctx context.Context, s session.Record, cause dispatch.Cause, replied session.Entry, why string) error {
	replied.Kind, replied.Detail = session.KindHeld, why
	return r.Sessions.Hold(ctx, s, cause, replied)
}

// send answers with a text at once. Its key names the session's place, so that two replies handled at the same moment are
// answered by one text, and so is one that is taken up again after the session was parked.
func (r *Router) send(
	ctx context.Context, view dispatch.View, cause dispatch.Cause, d session.SendAndMove, replied session.Entry, intent session.Intent,
) error {
	s := view.Session
	_, err := r.Delivery.Deliver(ctx, dispatch.Order{
		View: view, Text: d.Text, Key: session.DirectKey(s.ProfileID, s.ID, d.Text, s.Place()),
		CorrelationID: cause.Job.ID, Trigger: session.TriggerOf(intent), Cause: &cause, Told: []session.Entry{replied},
		Then: func(sent dispatch.Sent) session.Move {
			changed := r.advanced(s, d.To, intent)
			if d.Pause {
				changed.Kind = session.KindPaused
			}
			move := session.Stay(s, r.Now())
			move.Token, move.Paused = d.To, d.Pause
			move.AnswerHeldSince = sent.AskedAt // replies that came while the session was parked
			move.Entries = []session.Entry{changed}
			return move
		},
	})
	return err
}

// startBurst sends nothing: the first step does, as soon as its alarm rings.
func (r *Router) startBurst(
	ctx context.Context, s session.Record, cause dispatch.Cause, d session.StartBurst, replied session.Entry,
) error {
	now := r.Now()
	move := session.Stay(s, now)
	move.Token, move.NextStep, move.Paused = d.To, d.Step.ID, false
	due := s.BurstDue(d.Step, now)
	move.Alarm = burst.NewAlarm(s, d.Step.ID, 1, due)
	move.Entries = []session.Entry{replied, r.advanced(s, d.To, session.Advance)}
	if due.After(now.Add(d.Step.Delay)) {
		move.Entries = append(move.Entries, session.QuietEntry(now, due, session.TriggerReplyAdvance, d.Step.ID))
	}
	if err := r.Sessions.Move(ctx, move, &cause); err != nil {
		return err
	}
	// An alarm that cannot be published now is in the outbox, and the relay publishes it.
	if err := r.Alarms.Publish(ctx, *move.Alarm); err != nil && !errors.Is(err, burst.ErrDisabled) {
		r.Log.WarnContext(ctx, "onboarding.alarm_left_to_relay", "step_id", string(d.Step.ID), "session_id", s.ID, "error", err)
	}
	return nil
}

func (r *Router) replied(recorded Recorded, detail string) session.Entry {
	return session.Entry{
		At: r.Now(), Kind: session.KindReplied, Trigger: session.TriggerReply, MessageID: recorded.MessageID, Detail: recorded.told(detail),
	}
}

func (r *Router) advanced(s session.Record, to session.Token, intent session.Intent) session.Entry {
	return session.Entry{At: r.Now(), Kind: session.KindAdvanced, From: s.Token, To: to, Trigger: session.TriggerOf(intent)}
}

// GiveUp parks the conversation that waits for a job that failed for good, so that somebody looks, and ends the job as failed in the
// same transaction: a job whose last attempt took effect after all, and only its answer was lost, parks nobody. It is the conversation
// that there was when the job was stored, if that is still open: one that was opened since has nothing to do with it. A text
// that belongs to no conversation of ours is left to the list of failed jobs.
func (r *Router) GiveUp(ctx context.Context, j jobs.Job, cause error) error {
	if errors.Is(cause, ErrUnknownSender) || errors.Is(cause, ErrInvalid) {
		return nil
	}
	_, err := r.park(ctx, dispatch.Cause{Job: j, Failure: cause.Error()},
		fmt.Sprintf("job %s (%s) failed for good: %v; see the job and the log, mend that", j.ID, j.EventType, cause))
	if errors.Is(err, jobs.ErrFenced) {
		return nil
	}
	return err
}

// Cancel ends a pending or a failed job by an operator's word. The conversation that waits for a pending one is parked in the same
// transaction: it would wait for ever, and be found in no list. Errors: queue.ErrNoJob, a *queue.StatusError.
func (r *Router) Cancel(ctx context.Context, orgID, id string) (queue.Row, error) {
	found, err := r.Queue.Job(ctx, orgID, id)
	if err != nil {
		return queue.Row{}, err
	}
	j := jobs.Job{
		ID: found.ID, OrgID: found.OrgID, EventType: found.EventType, Subject: found.Subject, Payload: found.Payload, CreatedAt: found.CreatedAt,
	}
	if found.Status == jobs.StatusPending && (isReply(j) || enrolment.SessionOf(j) != "") {
		parked, err := r.park(ctx, dispatch.Cause{Job: j, Cancelled: true},
			fmt.Sprintf("an operator has cancelled job %s (%s), which it waited for; to have that done after all", j.ID, j.EventType))
		if err != nil {
			return queue.Row{}, err
		}
		if parked {
			return r.Queue.Job(ctx, orgID, id)
		}
	}
	return r.Queue.CancelJob(ctx, orgID, id, r.Now())
}

// park parks the conversation that waits for a job which comes to an end without having done its work, and ends it. It reports whether
// there was one.
func (r *Router) park(ctx context.Context, cause dispatch.Cause, why string) (parked bool, err error) {
	parked, err = r.parkOnce(ctx, cause, why)
	for n := 1; n < maxDecisions && errors.Is(err, dispatch.ErrConflict); n++ {
		parked, err = r.parkOnce(ctx, cause, why)
	}
	return parked, err
}

func (r *Router) parkOnce(ctx context.Context, cause dispatch.Cause, why string) (parked bool, err error) {
	j := cause.Job
	var view dispatch.View
	opened := enrolment.SessionOf(j)
	if opened != "" { // an opening is its session's, and waits under a subject that is no phone while hours are quiet
		view, err = r.People.LoadSession(ctx, opened)
	} else {
		view, err = r.History.ConversationAt(ctx, j.OrgID, j.Subject, j.CreatedAt)
	}
	if errors.Is(err, dispatch.ErrNoSession) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	s := view.Session
	switch {
	case opened != "" && s.Place() > 0: // it was sent, or the conversation has gone on without it
		return false, nil
	case s.Status.Parked() && s.Mode == session.Onboarding && isReply(j) && !cause.Cancelled: // considered when the session is resumed
		return true, r.Sessions.Hold(ctx, s, cause, session.Entry{
			At: r.Now(), Kind: session.KindHeld, Trigger: session.TriggerReply, Detail: fmt.Sprintf("parked; job %s failed for good", j.ID),
		})
	case s.Status != session.Active:
		return false, nil
	}
	reason, trigger := why+", "+session.ThenResume(s.ID), session.TriggerReply
	if opened != "" {
		trigger = session.TriggerActivation
	}
	if cause.Cancelled {
		reason = why + " POST /v1/sessions/" + s.ID + ":resume; if not, POST /v1/sessions/" + s.ID + ":reset"
		trigger = session.TriggerOperator
	}
	return true, r.Sessions.Move(ctx, session.Park(s, r.Now(), session.Stuck, trigger, "", reason), &cause)
}

func isReply(j jobs.Job) bool {
	return isFirstHand(j) || slices.Contains([]string{jobs.EventHeldReply, jobs.EventResumedReply}, j.EventType)
}

// isFirstHand reports whether a job is of a text that comes as its vendor brought it.
func isFirstHand(j jobs.Job) bool { return j.EventType == EventMessage || j.EventType == EventWhatsApp }
