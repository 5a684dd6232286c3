package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"paceline.internal/deploy/operator"
	"paceline.internal/deploy/stack"
	"paceline.internal/platform/rpc"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/onboarding/catalog"
)

// person lives one script.
type person struct {
	script

	c     *population
	i     int
	phone string
	name  string
	texts map[string]string // what they may hear -> its key
	slot  time.Duration     // their instants are grid + slot, those of what is done to them a little later

	mu             sync.Mutex
	profile        string         // empty until they are enrolled
	wantsReminders consent.Switch // by what was acknowledged last; unsaid while something is on its way
	dones          []done         // of their life, in the order of their acknowledgements
	crossed        int            // goodbyes that they may have written while they were sent
	session        string
	wish           consent.State // by the last STOP or START that was acknowledged; empty before the first, and while one is on its way
	stopped        bool          // a STOP was acknowledged, and no START since
	heard          []string      // for the digest: each text and when
	asked          map[string]int
	left           bool // said the STOP of stopDuring
	turns          int  // what they said and heard, counted
	spoke          int  // the turn of their last ordinary text that was acknowledged
	listened       int  // the turn of the last text that they heard
	pending        int  // of their plans that have not been carried out
}

// newPerson is the i-th of so many people.
func newPerson(c *population, i, people int) (*person, error) {
	p := &person{
		script: writeScript(c.dice, i, c.flow, c.tempo), c: c, i: i, name: "Zuleika", phone: fmt.Sprintf("+1415555%04d", i+1),
		slot: time.Duration(i+1) * (grid / 2) / time.Duration(people+2), texts: map[string]string{}, asked: map[string]int{},
	}
	if p.locale == "pt-BR" {
		p.name, p.phone = "Iracema", fmt.Sprintf("+551198765%04d", i+1)
	}
	texts := catalog.Default()
	keys := []string{asksFirst, asksSecond, saysLater}
	for _, step := range c.flow.Steps() {
		keys = append(keys, string(step.Text))
	}
	for _, key := range keys {
		body, err := texts.Render(texts.Current(), p.locale, key, p.name)
		if err != nil {
			return nil, err
		}
		p.texts[body] = key
	}
	goodbye, err := catalog.DefaultEngagement().Render(p.locale, catalog.Goodbye, p.name, catalog.Params{})
	p.texts[goodbye] = catalog.Goodbye
	return p, err
}

// plan makes the script's appointments.
func (p *person) plan() {
	begin := p.start + p.slot
	if p.life != nil {
		p.planLife()
	}
	if p.life == nil || p.life.invited {
		p.after(begin, func(ctx context.Context) { p.enrol(ctx, p.activate) })
	}
	meddle := begin + grid/2 // on their own instants, or the race between two events of one instant would decide
	if p.stop > 0 {
		p.after(meddle+p.stop, p.sayStop)
	}
	if p.hold > 0 {
		p.after(meddle+p.hold, p.putOnHold)
	}
	if p.reset > 0 {
		p.after(meddle+p.reset, p.startOver)
	}
	for _, r := range p.replays {
		p.after(meddle+r.at, func(ctx context.Context) { p.c.deliverByHand(ctx, p.profileID(), p.current(), r.step) })
	}
}

// after makes an appointment of the person's.
func (p *person) after(d time.Duration, do func(ctx context.Context)) {
	p.mu.Lock()
	p.pending++
	p.mu.Unlock()
	p.c.after(d, func(ctx context.Context) {
		defer func() {
			p.mu.Lock()
			p.pending--
			p.mu.Unlock()
		}()
		do(ctx)
	})
}

// enrol makes the person known, with those who live with them.
func (p *person) enrol(ctx context.Context, then func(ctx context.Context)) {
	profile, err := p.c.api.Enrol(ctx, operator.Person{Phone: p.phone, FirstName: p.name, Locale: p.locale, TimeZone: p.zone})
	switch {
	case err == nil:
		p.mu.Lock()
		p.profile = profile.ProfileID
		p.mu.Unlock()
		if p.life != nil && p.life.home != "" {
			p.calls(ctx, rpc.RoleApp, http.MethodPut, "/household", map[string]string{"household_id": p.life.home}, func() {})
		}
		then(ctx)
	case refused(err):
		p.c.problemf("person %d could not be enrolled: %v", p.i, err)
	default:
		p.after(p.c.tempo.again, func(ctx context.Context) { p.enrol(ctx, then) })
	}
}

// activate opens a session, unless the person has stopped us.
func (p *person) activate(ctx context.Context) {
	if p.hasStopped() {
		return
	}
	opened, err := p.c.api.Activate(ctx, p.profileID())
	p.c.know(opened.SessionID, p)
	switch {
	case err == nil:
		p.mu.Lock()
		defer p.mu.Unlock()
		p.session = opened.SessionID
	case !refused(err):
		p.after(p.c.tempo.again, p.activate)
	case !p.interferes(): // else they are parked, on hold, or opted out meanwhile, and do not insist
		p.c.problemf("person %d could not be activated: %v", p.i, err)
	}
}

// refused reports whether an error is an answer that asking again does not change.
func refused(err error) bool {
	answer, ok := errors.AsType[*operator.StatusError](err)
	return ok && !answer.Transient()
}

func (p *person) profileID() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.profile
}

func (p *person) current() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.session
}

func (p *person) hasStopped() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stopped
}

// hear is called for every text that Twilio takes for the person.
func (p *person) hear(body string) {
	key := p.texts[body]
	p.mu.Lock()
	p.heard = append(p.heard, fmt.Sprintf("%s %s", p.c.elapsed(), key))
	p.asked[key]++
	n := p.asked[key]
	p.turns++
	p.listened = p.turns
	p.mu.Unlock()
	if words, ok := p.chatter[key]; ok && n == 1 {
		p.after(1300*time.Millisecond, func(ctx context.Context) { p.say(ctx, words, p.c.tempo.patience) })
	}
	if key == catalog.Goodbye && p.life != nil {
		p.considersGoodbye(n)
	}
	answer, asks := p.replies[key]
	if !asks || p.silentAt == key {
		return
	}
	if p.laterAt == key && n == 1 {
		later := pick(p.c.dice.roll("later", p.i), notNow[p.locale])
		p.after(answer.after, func(ctx context.Context) {
			p.say(ctx, later, p.c.tempo.patience)
			p.after(p.comeBack, func(ctx context.Context) { p.reply(ctx, answer.words) })
		})
		return
	}
	p.after(answer.after, func(ctx context.Context) { p.reply(ctx, answer.words) })
}

// reply says something once, or twice at once.
func (p *person) reply(ctx context.Context, words string) {
	if p.doubled {
		p.c.spawn(func(ctx context.Context) { p.say(ctx, words, p.c.tempo.patience) })
	}
	p.say(ctx, words, p.c.tempo.patience)
}

// say sends a text, and types it again when Twilio could not hand it over: Twilio itself gives up after seconds.
func (p *person) say(ctx context.Context, words string, patience int) {
	p.mu.Lock()
	p.turns++
	turn, stopped := p.turns, p.stopped
	p.mu.Unlock()
	if stopped {
		return
	}
	from, reminders := p.c.clock.Now(), consent.PreferencesOf(words).Reminders
	if patience < p.c.tempo.patience { // what was not acknowledged may have been taken
		from = from.Add(-time.Duration(p.c.tempo.patience) * p.c.tempo.again)
	}
	p.prefers(reminders, false)
	if p.text(ctx, words) {
		p.prefers(reminders, true)
		p.did(from, doing{words: words})
		p.mu.Lock()
		defer p.mu.Unlock()
		p.spoke = max(p.spoke, turn)
		return
	}
	if patience > 0 {
		p.after(p.c.tempo.again, func(ctx context.Context) { p.say(ctx, words, patience-1) })
	}
}

// text hands a text to Twilio, and reports whether Twilio got rid of it.
func (p *person) text(ctx context.Context, words string) bool {
	delivery, err := p.c.vendors.Twilio.Receive(ctx, p.phone, stack.FromNumber, words)
	return err == nil && delivery.StatusCode == http.StatusOK
}

// wishes notes what the person wants from now on: they have said so, and it was acknowledged. Empty: they are about to say something else.
func (p *person) wishes(state consent.State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wish = state
	if state != "" {
		p.stopped = state == consent.OptedOut
	}
}

// sayStop sends the STOP until it is acknowledged. From then on nothing may be asked of Twilio.
func (p *person) sayStop(ctx context.Context) {
	p.wishes("")
	if !p.text(ctx, p.stopWord) {
		p.after(p.c.tempo.again, p.sayStop)
		return
	}
	p.did(p.c.clock.Now(), doing{words: p.stopWord})
	p.c.recorder.stopped(p.phone, p.c.clock.Now())
	p.wishes(consent.OptedOut)
	if p.start2 > 0 {
		p.after(p.start2, p.sayStart)
	}
}

func (p *person) sayStart(ctx context.Context) {
	p.wishes("")
	p.c.recorder.restarts(p.phone, p.c.clock.Now())
	if !p.text(ctx, "START") {
		p.after(p.c.tempo.again, p.sayStart)
		return
	}
	p.did(p.c.clock.Now(), doing{words: "START"})
	p.wishes(consent.OptedIn)
	switch {
	case p.regrets:
		p.start2 = 0
		p.sayStop(ctx)
	case p.rejoin > 0:
		p.after(p.rejoin, p.activate)
	}
}

// during is called while Twilio is being asked to take a text for the person.
func (p *person) during(key string) {
	if key == catalog.Goodbye && p.life != nil {
		p.crosses()
	}
	p.mu.Lock()
	now := p.stopDuring != "" && string(p.stopDuring) == key && !p.left
	p.left = p.left || now
	p.mu.Unlock()
	if now {
		p.c.spawn(p.sayStop)
	}
}

// putOnHold has an operator hold the person back, and release them later.
func (p *person) putOnHold(ctx context.Context) {
	switch err := p.c.api.Hold(ctx, p.profileID()); {
	case err == nil:
		p.after(p.release, func(ctx context.Context) { p.insist(ctx, p.c.api.Release, p.profileID()) })
	case !refused(err):
		p.after(p.c.tempo.again, p.putOnHold)
	}
}

// startOver has an operator reset the session, and opens another.
func (p *person) startOver(ctx context.Context) {
	if p.insist(ctx, p.c.api.Reset, p.current()) {
		p.after(grid, p.activate)
	}
}

// insist makes an operator's call until it is answered; it reports whether it was granted at once.
func (p *person) insist(ctx context.Context, call func(ctx context.Context, id string) error, id string) bool {
	err := call(ctx, id)
	if err != nil && !refused(err) {
		p.after(p.c.tempo.again, func(ctx context.Context) { p.insist(ctx, call, id) })
	}
	return err == nil
}

// races reports whether two events of one instant decide what the person hears; then only the end of it is the same in
// every run.
func (p *person) races() bool { return p.stopDuring != "" || p.doubled }

// interferes reports whether something comes from outside the conversation that may end it or keep it back.
func (p *person) interferes() bool {
	return p.stopWord != "" || p.hold > 0 || p.reset > 0
}

// busy reports whether the person or their operator still has plans.
func (p *person) busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pending > 0
}

// story returns what the person heard of their conversation, and when. The workers of outreach take turns, and which comes first is up to
// the machine.
func (p *person) story() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.heard), func(line string) bool { return !strings.Contains(line, " ONBOARDING_") })
}

// tell prints what the person was going to do and what they heard, for the developer who looks into a failing seed.
func (p *person) tell(to io.Writer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = fmt.Fprintf(to, "person %d (%s, races %t) profile %s session %s\n  script %+v\n",
		p.i, p.phone, p.races(), p.profile, p.session, p.script)
	for _, line := range p.heard {
		_, _ = fmt.Fprintln(to, "  heard", line)
	}
}
