package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"paceline.internal/deploy/operator"
	"paceline.internal/services/onboarding/session"
	"paceline.internal/services/onboarding/words"
)

// conversation is one run.
type conversation struct {
	h       Harness
	flow    session.Flow
	api     *operator.Client
	vendors *vendors

	profileID string
	before    map[string]bool // the messages that there were, by id
	last      time.Time       // when the last text was accepted
	run       Run
}

// play goes through the conversation from a clean baseline to the interview. What cannot be waited for ends it.
func (c *conversation) play(ctx context.Context) error {
	for _, part := range []func(context.Context) error{c.reset, c.begin, c.explain, c.burst, c.replay, c.interview} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// reset brings the person to a clean baseline: nothing open, no hold, no opt-out. Messages and consent of earlier runs stay; they are
// records, and keys of a new session are new.
func (c *conversation) reset(ctx context.Context) error {
	profile, err := c.api.Enrol(ctx, operator.Person{Phone: c.h.Config.Phone, FirstName: "Ana", Locale: c.h.Config.Locale})
	if err != nil {
		return fmt.Errorf("make the profile: %w", err)
	}
	c.profileID = profile.ProfileID
	if err := c.free(ctx, profile); err != nil {
		return err
	}
	sessions, err := c.api.Sessions(ctx, c.profileID)
	if err != nil {
		return fmt.Errorf("read the sessions: %w", err)
	}
	for _, s := range sessions {
		if s.Status == string(session.Closed) || s.Status == string(session.Stopped) {
			continue
		}
		if err := c.api.Reset(ctx, s.SessionID); err != nil {
			return fmt.Errorf("reset a session: %w", err)
		}
	}
	messages, err := c.api.Messages(ctx, c.profileID)
	if err != nil {
		return fmt.Errorf("read the messages: %w", err)
	}
	c.before = map[string]bool{}
	for _, m := range messages {
		c.before[m.MessageID] = true
	}
	c.h.Tell("baseline: no session open, no hold, no opt-out")
	return nil
}

// free takes an opt-out and a hold off the phone, which may be a person's who meant them: not unless it was said twice.
func (c *conversation) free(ctx context.Context, profile operator.Profile) error {
	consent, err := c.api.Consent(ctx, c.h.Config.Phone)
	if err != nil {
		return fmt.Errorf("read the consent: %w", err)
	}
	out := consent == "opted_out"
	if (out || profile.Hold) && c.h.Config.Lift != c.h.Config.Phone {
		return errors.New("the phone of HARNESS_PHONE has opted out or is on hold. If it is yours and this is a test, " +
			"set HARNESS_LIFT to the same number: the harness then takes that off")
	}
	if profile.Hold {
		if err := c.api.Release(ctx, c.profileID); err != nil {
			return fmt.Errorf("release the hold: %w", err)
		}
	}
	if out {
		if err := c.vendors.says(ctx, "START"); err != nil { // only the person lifts their own opt-out
			return fmt.Errorf("opt in again: %w", err)
		}
	}
	return nil
}

// begin activates the person, which is the only way in, and waits for the opening.
func (c *conversation) begin(ctx context.Context) error {
	opened, err := c.api.Activate(ctx, c.profileID)
	if err != nil {
		return fmt.Errorf("activate: %w", err)
	}
	c.run.SessionID = opened.SessionID
	if err := c.sent(ctx, "opening", session.OpeningKey(c.profileID, opened.SessionID), 0); err != nil {
		return err
	}
	return c.waitsFor(ctx, "after the opening", session.AwaitingOpeningResponse, "")
}

// explain answers the opening and waits for the explanation. Only onboarding knows its key.
func (c *conversation) explain(ctx context.Context) error {
	if err := c.says(ctx); err != nil {
		return err
	}
	if err := c.waitsFor(ctx, "after the reply to the opening", session.AwaitingExplanationResponse, ""); err != nil {
		return err
	}
	prefix := session.Key(c.profileID, c.run.SessionID, "explanation")
	texts, err := c.mine(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(texts, func(m operator.Message) bool { return strings.HasPrefix(m.IdempotencyKey, prefix) })
	if i < 0 {
		c.check("the explanation was sent", false, "no message has a key that begins with that of the explanation")
		return nil
	}
	return c.sent(ctx, "explanation", texts[i].IdempotencyKey, 0)
}

// burst answers the explanation and follows the steps, one after the other.
func (c *conversation) burst(ctx context.Context) error {
	if err := c.says(ctx); err != nil {
		return err
	}
	places := placesOf(c.flow)
	if err := c.reaches(ctx, "after the reply to the explanation", places, 0); err != nil {
		return err
	}
	for n, s := range c.flow.Steps() {
		if err := c.step(ctx, s); err != nil {
			return err
		}
		if err := c.reaches(ctx, "after "+string(s.ID), places, n+1); err != nil {
			return err
		}
	}
	c.ordered()
	queued, err := c.api.QueuedTexts(ctx, c.profileID)
	if err != nil {
		return fmt.Errorf("read the outbound queue: %w", err)
	}
	c.check("no row in sms_outbound_jobs", queued == 0, fmt.Sprintf("%d rows", queued))
	return nil
}

// step has one step sent: by our alarm, or by QStash's when it is due.
func (c *conversation) step(ctx context.Context, s session.Step) error {
	if c.h.Config.Mode == Stub {
		if err := c.ring(ctx, s.ID); err != nil {
			return err
		}
	} else {
		c.h.Tell(fmt.Sprintf("waiting for %s, due %s after the text before", s.ID, s.Delay))
	}
	before := c.last
	if err := c.sent(ctx, string(s.ID), session.Key(c.profileID, c.run.SessionID, s.ID), s.Delay+s.AfterDelivery); err != nil {
		return err
	}
	if least := s.Delay - tolerance; c.h.Config.Mode == Real && s.Delay > 0 && s.ID != c.flow.First().ID {
		gap := c.last.Sub(before)
		c.check(fmt.Sprintf("%s: at least %s after the text before", s.ID, least), gap >= least, gap.String())
	}
	return nil
}

// ring rings the alarm of a step until it is answered 200: another ring of it, by QStash, may be at work at the same time, and then the
// answer asks for patience.
func (c *conversation) ring(ctx context.Context, step session.StepID) error {
	var code int
	var answer string
	err := c.wait(ctx, func() (bool, error) {
		var err error
		code, answer, err = c.vendors.rings(ctx, c.payload(step))
		return code != http.StatusServiceUnavailable, err
	})
	c.check(string(step)+": the alarm is answered 200", code == http.StatusOK, fmt.Sprintf("%d: %s", code, answer))
	if err != nil {
		return fmt.Errorf("ring the alarm of %s: %w", step, err)
	}
	return nil
}

// ordered checks that the texts were accepted in the order of the flow.
func (c *conversation) ordered() {
	inOrder := slices.IsSortedFunc(c.run.Texts, func(a, b Text) int { return a.AcceptedAt.Compare(b.AcceptedAt) })
	var order []string
	for _, t := range c.run.Texts {
		order = append(order, t.Step+" at "+t.AcceptedAt.Format(time.TimeOnly+".000"))
	}
	c.check("the texts came in their order", inOrder, strings.Join(order, ", "))
}

// replay rings every alarm twice more: each step stays at one message, and the person gets nothing. With ALARMS=postgres alone there is no
// route that takes an alarm.
func (c *conversation) replay(ctx context.Context) error {
	if c.h.Config.SigningKey.IsZero() {
		c.h.Tell("without QSTASH_CURRENT_SIGNING_KEY no alarm is replayed: the database rings them")
		return nil
	}
	for _, s := range c.flow.Steps() {
		for range 2 {
			if err := c.ring(ctx, s.ID); err != nil {
				return err
			}
		}
		stored, err := c.api.MessagesOfKey(ctx, session.Key(c.profileID, c.run.SessionID, s.ID))
		if err != nil {
			return fmt.Errorf("read the message of %s: %w", s.ID, err)
		}
		c.check(string(s.ID)+": one message after two replays", len(stored) == 1, fmt.Sprintf("%d messages", len(stored)))
	}
	texts, err := c.mine(ctx)
	if err != nil {
		return err
	}
	c.check("nothing was sent by the replays", len(texts) == len(c.run.Texts),
		fmt.Sprintf("%d texts, of which %d were known", len(texts), len(c.run.Texts)))
	return nil
}

// interview answers the last text, and onboarding is over.
func (c *conversation) interview(ctx context.Context) error {
	if err := c.says(ctx); err != nil {
		return err
	}
	mode, follows := "", false
	err := c.until(ctx, func(s operator.Session) bool {
		mode, follows = s.Mode, s.Status == string(session.Closed)
		return mode == string(session.Interviewing)
	})
	if err == nil && follows {
		err = c.first(ctx)
	}
	c.check("the interview begins", err == nil, "the mode is "+mode)
	return ctx.Err()
}

// first waits for the first question of the flow that is the interview: the next run is not to find it on its way.
func (c *conversation) first(ctx context.Context) error {
	return c.wait(ctx, func() (bool, error) {
		sessions, err := c.api.Sessions(ctx, c.profileID)
		if err != nil || len(sessions) == 0 || sessions[0].SessionID == c.run.SessionID {
			return false, err
		}
		_, timeline, err := c.api.Session(ctx, sessions[0].SessionID)
		return slices.ContainsFunc(timeline, func(e operator.Entry) bool { return e.Kind == "sent" }), err
	})
}

// says has the person agree.
func (c *conversation) says(ctx context.Context) error {
	text := words.All().Of(c.h.Config.Locale).Text("example-yes")
	c.h.Tell("the phone says: " + text)
	if err := c.vendors.says(ctx, text); err != nil {
		return fmt.Errorf("post a text of the phone: %w", err)
	}
	return nil
}

func (c *conversation) payload(step session.StepID) session.StepPayload {
	return session.NewStepPayload(c.profileID, c.run.SessionID, step)
}

// sent waits for the message of a key, for the time that its flow waits and more, and checks that it is one, that it has a key and a
// provider's id, and that it was accepted.
func (c *conversation) sent(ctx context.Context, step, key string, meant time.Duration) error {
	var stored []operator.Message
	err := c.waitFor(ctx, c.h.Patience+meant, func() (bool, error) {
		var err error
		stored, err = c.api.MessagesOfKey(ctx, key)
		return len(stored) > 0 && stored[0].TwilioSID != "" && stored[0].AcceptedAt != nil, err
	})
	if err != nil {
		c.check(step+": sent", false, fmt.Sprintf("%d messages with the key %s; %v", len(stored), c.anonymous(key), err))
		return fmt.Errorf("%s was not sent: %w", step, err)
	}
	m := stored[0]
	c.check(step+": one message, with its key and the provider's id", len(stored) == 1, fmt.Sprintf("%d messages", len(stored)))
	gap := int64(0)
	if !c.last.IsZero() {
		gap = m.AcceptedAt.Sub(c.last).Milliseconds()
	}
	c.last = *m.AcceptedAt
	c.run.Texts = append(c.run.Texts, Text{Step: step, SID: m.TwilioSID, Body: m.Body, AcceptedAt: *m.AcceptedAt, GapMS: gap})
	c.trace("sent " + c.anonymous(key) + ": " + m.Body)
	return nil
}

// waitsFor waits until the session has a state token and a next step, and checks it.
func (c *conversation) waitsFor(ctx context.Context, when string, token session.Token, next session.StepID) error {
	var saw operator.Session
	err := c.until(ctx, func(s operator.Session) bool {
		saw = s
		return s.StateToken == string(token) && s.NextStepID == string(next)
	})
	name := fmt.Sprintf("%s: the state is %s", when, token)
	if next != "" {
		name += ", next " + string(next)
	}
	c.check(name, err == nil, fmt.Sprintf("%s, next %q, %s %s", saw.StateToken, saw.NextStepID, saw.Status, saw.Reason))
	if err == nil {
		c.trace(name)
		return nil
	}
	return fmt.Errorf("%s: %w", when, err)
}

// reaches waits until the session is in a place of the burst, or past it: the deployment's own alarms may be quicker than ours.
func (c *conversation) reaches(ctx context.Context, when string, places []place, least int) error {
	var saw operator.Session
	err := c.until(ctx, func(s operator.Session) bool {
		saw = s
		return slices.Index(places, place{token: session.Token(s.StateToken), next: session.StepID(s.NextStepID)}) >= least
	})
	name := fmt.Sprintf("%s: the state is %s", when, places[least])
	c.check(name, err == nil, fmt.Sprintf("%s, next %q, %s %s", saw.StateToken, saw.NextStepID, saw.Status, saw.Reason))
	if err != nil {
		return fmt.Errorf("%s: %w", when, err)
	}
	c.trace(name)
	return nil
}

// until reads the session until it is as it should be, or is open no more.
func (c *conversation) until(ctx context.Context, ok func(operator.Session) bool) error {
	return c.wait(ctx, func() (bool, error) {
		s, _, err := c.api.Session(ctx, c.run.SessionID)
		if err != nil || ok(s) {
			return err == nil, err
		}
		if s.Status != string(session.Active) {
			return false, fmt.Errorf("the session is %s: %s", s.Status, s.Reason)
		}
		return false, nil
	})
}

// wait looks until it is so, for as long as the harness has patience.
func (c *conversation) wait(ctx context.Context, done func() (bool, error)) error {
	return c.waitFor(ctx, c.h.Patience, done)
}

func (c *conversation) waitFor(ctx context.Context, patience time.Duration, done func() (bool, error)) error {
	began := c.h.Now()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		if waited := c.h.Now().Sub(began); waited > patience {
			return fmt.Errorf("not within %s", patience)
		}
		if !c.h.Rest(ctx, look, nil) {
			return context.Cause(ctx)
		}
	}
}

// mine are our texts to the person since the baseline.
func (c *conversation) mine(ctx context.Context) ([]operator.Message, error) {
	all, err := c.api.Messages(ctx, c.profileID)
	if err != nil {
		return nil, fmt.Errorf("read the messages: %w", err)
	}
	return slices.DeleteFunc(all, func(m operator.Message) bool { return c.before[m.MessageID] || m.Direction != "outbound" }), nil
}

// anonymous leaves the ids out, which differ from run to run.
func (c *conversation) anonymous(key string) string {
	return strings.NewReplacer(c.profileID, "PROFILE", c.run.SessionID, "SESSION").Replace(key)
}

func (c *conversation) trace(line string) { c.run.Trace = append(c.run.Trace, line) }

func (c *conversation) check(name string, ok bool, saw string) {
	check := Check{Name: name, OK: ok}
	if !ok {
		check.Saw = saw
	}
	c.run.Checks = append(c.run.Checks, check)
	c.h.Told(check)
}
