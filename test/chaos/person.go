package chaos

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/session"
	"paceline.internal/test/stack"
)

// person lives one script in a world.
type person struct {
	script

	w       *world
	i       int
	phone   string
	name    string
	texts   map[string]string // what they may hear -> its key
	slot    time.Duration     // their instants are grid + slot, those of what is done to them a little later
	profile string

	mu       sync.Mutex
	session  string
	stopped  bool     // a STOP was acknowledged, and no START since
	heard    []string // for the digest: each text and when
	asked    map[string]int
	answered map[string]bool
	pending  int // of their plans that have not been carried out
}

// patienceOfPeople is how often somebody tries again whose text or click did not get through, and tryAgain is when.
const (
	patienceOfPeople = 40
	tryAgain         = 30 * time.Second
)

func newPerson(w *world, i int) (*person, error) {
	p := &person{
		script: writeScript(w.dice, i, w.flow), w: w, i: i, name: "Zuleika", phone: fmt.Sprintf("+1415555%04d", i+1),
		slot:  time.Duration(i+1) * (grid / 2) / time.Duration(w.people+2),
		texts: map[string]string{}, asked: map[string]int{}, answered: map[string]bool{},
	}
	if p.locale == "pt-BR" {
		p.name, p.phone = "Iracema", fmt.Sprintf("+551198765%04d", i+1)
	}
	texts := catalog.Default()
	keys := []string{asksFirst, asksSecond, saysLater}
	for _, step := range w.flow.Steps() {
		keys = append(keys, string(step.Text))
	}
	for _, key := range keys {
		body, err := texts.Render(texts.Current(), p.locale, key, p.name)
		if err != nil {
			return nil, err
		}
		p.texts[body] = key
	}
	return p, nil
}

// plan makes the script's appointments.
func (p *person) plan() {
	begin := p.start + p.slot
	p.after(begin, p.join)
	meddle := begin + grid/2 // on instants of their own, or the race between two events of one instant would decide
	if p.stop > 0 {
		p.after(meddle+p.stop, p.sayStop)
	}
	if p.hold > 0 {
		p.after(meddle+p.hold, p.putOnHold)
	}
	if p.reset > 0 {
		p.after(meddle+p.reset, func(ctx context.Context) {
			if p.insist(ctx, http.MethodPost, "/v1/sessions/"+p.current()+":reset") {
				p.after(grid, p.activate)
			}
		})
	}
	for _, r := range p.replays {
		p.after(meddle+r.at, func(ctx context.Context) { p.w.deliverByHand(ctx, p.profile, p.current(), r.step) })
	}
}

// after makes an appointment of the person's.
func (p *person) after(d time.Duration, do func(ctx context.Context)) {
	p.mu.Lock()
	p.pending++
	p.mu.Unlock()
	p.w.after(d, func(ctx context.Context) {
		defer func() {
			p.mu.Lock()
			p.pending--
			p.mu.Unlock()
		}()
		do(ctx)
	})
}

// join enrols the person and opens their first session.
func (p *person) join(ctx context.Context) {
	if p.profile == "" {
		profile, err := p.w.enrol(ctx, p.phone, p.name, p.locale)
		if err != nil {
			p.after(tryAgain, p.join)
			return
		}
		p.profile = profile
	}
	p.activate(ctx)
}

// activate opens a session, unless the person has stopped us.
func (p *person) activate(ctx context.Context) {
	if p.hasStopped() {
		return
	}
	opened, err := p.w.activate(ctx, p.profile)
	if err != nil {
		if !refused(err) { // parked, on hold, or opted out meanwhile: nobody insists
			p.after(tryAgain, p.activate)
		}
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.session = opened
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
	p.heard = append(p.heard, fmt.Sprintf("%s %s", p.w.elapsed(), key))
	p.asked[key]++
	n := p.asked[key]
	p.mu.Unlock()
	if words, ok := p.chatter[key]; ok && n == 1 {
		p.after(1300*time.Millisecond, func(ctx context.Context) { p.say(ctx, words, patienceOfPeople) })
	}
	answer, asks := p.replies[key]
	if !asks || p.silentAt == key {
		return
	}
	if p.laterAt == key && n == 1 {
		later := pick(p.w.dice.roll("later", p.i), notNow[p.locale])
		p.after(answer.after, func(ctx context.Context) {
			p.say(ctx, later, patienceOfPeople)
			p.after(p.comeBack, func(ctx context.Context) { p.reply(ctx, answer.words) })
		})
		return
	}
	p.after(answer.after, func(ctx context.Context) { p.reply(ctx, answer.words) })
}

// reply says something once, or twice at once.
func (p *person) reply(ctx context.Context, words string) {
	if p.doubled {
		p.w.spawn(func(ctx context.Context) { p.say(ctx, words, patienceOfPeople) })
	}
	p.say(ctx, words, patienceOfPeople)
}

// say sends a text, and types it again when Twilio could not hand it over: Twilio itself gives up after seconds.
func (p *person) say(ctx context.Context, words string, patience int) {
	if p.hasStopped() {
		return
	}
	delivery, err := p.w.vendors.Twilio.Receive(ctx, p.phone, stack.FromNumber, words)
	if err == nil && delivery.StatusCode != http.StatusOK && patience > 0 {
		p.after(tryAgain, func(ctx context.Context) { p.say(ctx, words, patience-1) })
	}
}

// sayStop sends the STOP until it is acknowledged. From then on nothing may be asked of Twilio.
func (p *person) sayStop(ctx context.Context) {
	delivery, err := p.w.vendors.Twilio.Receive(ctx, p.phone, stack.FromNumber, p.stopWord)
	if err != nil || delivery.StatusCode != http.StatusOK {
		p.after(tryAgain, p.sayStop)
		return
	}
	p.w.witness.Stopped(p.phone, p.w.clock.Now())
	p.mu.Lock()
	p.stopped = true
	p.mu.Unlock()
	if p.start2 > 0 {
		p.after(p.start2, p.sayStart)
	}
}

func (p *person) sayStart(ctx context.Context) {
	p.w.witness.Restarts(p.phone, p.w.clock.Now())
	delivery, err := p.w.vendors.Twilio.Receive(ctx, p.phone, stack.FromNumber, "START")
	if err != nil || delivery.StatusCode != http.StatusOK {
		p.after(tryAgain, p.sayStart)
		return
	}
	p.mu.Lock()
	p.stopped = false
	p.mu.Unlock()
	if p.rejoin > 0 {
		p.after(p.rejoin, p.activate)
	}
}

// during is called while Twilio is being asked to take a text for the person.
func (p *person) during(key string) {
	p.mu.Lock()
	now := p.stopDuring != "" && string(p.stopDuring) == key && !p.answered["stop"]
	if now {
		p.answered["stop"] = true
	}
	p.mu.Unlock()
	if now {
		p.w.spawn(p.sayStop)
	}
}

// putOnHold has an operator hold the person back, and release them later.
func (p *person) putOnHold(ctx context.Context) {
	switch err := p.w.call(ctx, http.MethodPost, "/v1/profiles/"+p.profile+":hold", struct{}{}, nil); {
	case err == nil:
		p.after(p.release, func(ctx context.Context) { p.insist(ctx, http.MethodPost, "/v1/profiles/"+p.profile+":release") })
	case !refused(err):
		p.after(tryAgain, p.putOnHold)
	}
}

// insist makes an operator's call until it is answered; it reports whether it was granted.
func (p *person) insist(ctx context.Context, method, path string) bool {
	err := p.w.call(ctx, method, path, struct{}{}, nil)
	if err != nil && !refused(err) {
		p.after(tryAgain, func(ctx context.Context) { p.insist(ctx, method, path) })
	}
	return err == nil
}

// races reports whether two events of one instant decide what the person hears; then only the end of it is the same in
// every run.
func (p *person) races() bool { return p.stopDuring != "" || p.doubled }

// busy reports whether the person or their operator still has plans.
func (p *person) busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pending > 0
}

// testimony is what the person heard, and when.
func (p *person) testimony() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.heard)
}

func stepPayload(profile, sessionID string, step session.StepID) ([]byte, error) {
	return session.NewStepPayload(profile, sessionID, step).Encode()
}
