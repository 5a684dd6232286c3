package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/onboarding/session"
)

// texter is somebody with a phone, on the machine's clock. All that they are going to do is drawn before it begins; when
// exactly depends on what they hear.
type texter struct {
	crowd  *crowd
	i      int
	phone  string
	name   string
	locale string
	errand errand

	profile string
	before  int             // texts that were heard before the session that is open
	said    map[string]bool // by session and turn: a question is answered once
	joined  time.Time

	// To be read once the crowd has waited.
	finished bool
	wish     consent.State // by the last STOP or START that was acknowledged; empty before the first
}

// errand is what a person is going to do.
type errand struct {
	join     time.Duration // from the beginning
	thinks   []time.Duration
	later    int           // the gate, from 1, at which they first say "later"; 0 never
	chatter  bool          // texts during the burst
	stop     time.Duration // after they joined; 0 never
	stopWord string
	start    time.Duration // after the STOP was acknowledged; 0 never
	rejoin   bool          // and is activated again
	regret   bool          // says STOP again soon after START
}

func newTexter(c *crowd, i int) *texter {
	r := c.site.dice.roll("texter", i)
	t := &texter{crowd: c, i: i, locale: pick(r, locales), name: "Zuleika", said: map[string]bool{}}
	t.phone = fmt.Sprintf("+1415555%04d", 2000+i)
	if t.locale == "pt-BR" {
		t.phone, t.name = fmt.Sprintf("+551198765%04d", 2000+i), "Iracema"
	}
	t.errand = drawErrand(r, c.site.cfg.Duration)
	return t
}

func drawErrand(r *rand.Rand, duration time.Duration) errand {
	longest := min(6*time.Second, max(grid, duration/10))
	e := errand{join: between(r, 0, duration*3/4), chatter: oneIn(r, 4)}
	for range 4 {
		e.thinks = append(e.thinks, between(r, 0, longest))
	}
	if oneIn(r, 6) {
		e.later = 1 + r.IntN(3)
	}
	if oneIn(r, 6) {
		e.stop, e.stopWord = between(r, grid, max(grid, min(duration/2, 25*time.Second))), pick(r, stopWords)
		if oneIn(r, 2) {
			e.start, e.rejoin = between(r, grid, longest), oneIn(r, 2)
			e.regret = !e.rejoin && oneIn(r, 2)
		}
	}
	return e
}

// live is the whole conversation, and reports whether it came to an end.
func (t *texter) live(ctx context.Context) bool {
	if !pause(ctx, t.errand.join) || !t.enrol(ctx) || !t.activate(ctx) {
		return false
	}
	t.joined = t.crowd.site.now()
	return t.converse(ctx)
}

// converse answers what is asked until the conversation is over.
func (t *texter) converse(ctx context.Context) bool {
	asked, since := "", time.Time{}
	for pause(ctx, grid) {
		now := t.crowd.site.now()
		if t.errand.stop > 0 && now.Sub(t.joined) >= t.errand.stop {
			return t.leave(ctx)
		}
		v := t.crowd.view(t.phone)
		if v.Session == "" {
			continue
		}
		if v.Status != string(session.Active) || v.Mode == string(session.Interviewing) {
			return true
		}
		question, gate := t.question(v)
		if question == "" {
			continue
		}
		if question != asked {
			asked, since = question, now
		}
		if now.Sub(since) >= t.errand.thinks[gate] && !t.answer(ctx, question, gate) {
			return false
		}
	}
	return false
}

// question names what the person is asked now and has not answered, and its gate; the burst is gate 0, in which one may chat.
func (t *texter) question(v view) (name string, gate int) {
	switch session.Token(v.Token) {
	case session.AwaitingOpeningResponse:
		if t.crowd.site.heard.of(t.phone) <= t.before { // nobody answers what they have not heard
			return "", 0
		}
		gate = 1
	case session.AwaitingExplanationResponse:
		gate = 2
	case session.AwaitingInterviewStart:
		gate = 3
	case session.AwaitingBurst:
		if !t.errand.chatter {
			return "", 0
		}
		name = v.Session + " burst"
	case session.InterviewActivity01: // the conversation is over
	}
	if gate > 0 {
		name = fmt.Sprintf("%s %d", v.Session, v.Turn)
		if v.Turn == 0 { // the opening is not written down yet; once it is, the turn is another, and the question the same
			name = v.Session + " 1"
		}
	}
	if t.said[name] {
		return "", 0
	}
	return name, gate
}

// answer says something to a question, once.
func (t *texter) answer(ctx context.Context, question string, gate int) bool {
	r := t.crowd.site.dice.roll("words", t.i, gate, len(t.said))
	words := pick(r, goOn[t.locale])
	switch {
	case gate == 0:
		words = pick(r, smallTalk[t.locale])
	case gate == t.errand.later:
		t.errand.later = 0
		words = pick(r, notNow[t.locale])
	}
	t.said[question] = true
	return t.crowd.text(ctx, t.phone, words)
}

// leave says STOP, and for some START again.
func (t *texter) leave(ctx context.Context) bool {
	e := t.errand
	t.errand.stop = 0
	if !t.sayStop(ctx) {
		return false
	}
	if e.start == 0 {
		return t.ends(ctx)
	}
	if !pause(ctx, e.start) {
		return false
	}
	t.crowd.site.witness.Restarts(t.phone, t.crowd.site.now())
	t.wish = ""
	if !t.crowd.text(ctx, t.phone, "START") {
		return false
	}
	t.wish = consent.OptedIn
	if e.regret && !t.sayStop(ctx) {
		return false
	}
	if !e.rejoin {
		return t.ends(ctx)
	}
	if !t.ends(ctx) { // an activation would only find the session that is about to be stopped
		return false
	}
	t.before = t.crowd.site.heard.of(t.phone)
	old := t.crowd.view(t.phone).Session
	if !t.activate(ctx) {
		return false
	}
	for t.crowd.view(t.phone).Session == old { // what was read may be older than the activation
		if !pause(ctx, grid) {
			return false
		}
	}
	return t.converse(ctx)
}

// sayStop says STOP until it is acknowledged.
func (t *texter) sayStop(ctx context.Context) bool {
	t.wish = ""
	if !t.crowd.text(ctx, t.phone, t.errand.stopWord) {
		return false
	}
	t.wish = consent.OptedOut
	t.crowd.site.witness.Stopped(t.phone, t.crowd.site.now())
	return true
}

// over reports whether a session is at its end: neither active nor parked, which a STOP ends as well.
func over(status string) bool {
	return status != string(session.Active) && !session.Status(status).Parked()
}

// ends waits until the session is over for the service too: it follows the STOP by a job of its own.
func (t *texter) ends(ctx context.Context) bool {
	for !over(t.crowd.view(t.phone).Status) {
		if !pause(ctx, grid) {
			return false
		}
	}
	return true
}

func (t *texter) enrol(ctx context.Context) bool {
	var answer struct {
		Profile struct {
			ProfileID string `json:"profile_id"`
		}
	}
	err := t.crowd.call(ctx, "/v1/profiles", map[string]string{"phone": t.phone, "first_name": t.name, "locale": t.locale}, &answer)
	if err != nil && ctx.Err() == nil {
		t.crowd.problemf("person %d could not be enrolled: %v", t.i, err)
	}
	t.profile = answer.Profile.ProfileID
	return err == nil
}

func (t *texter) activate(ctx context.Context) bool {
	var answer struct {
		Session struct {
			SessionID string `json:"session_id"`
		}
	}
	err := t.crowd.call(ctx, "/v1/profiles/"+t.profile+":activate", struct{}{}, &answer)
	if err != nil && ctx.Err() == nil {
		t.crowd.problemf("person %d could not be activated: %v", t.i, err)
	}
	return err == nil
}
