package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"paceline.internal/deploy/operator"
	"paceline.internal/emulators/clock"
	"paceline.internal/emulators/qstash"
	"paceline.internal/emulators/twilio"
	api "paceline.internal/platform/qstash"
	"paceline.internal/services/onboarding/session"
)

// population is all who take part: people with phones, the operator, and in a soak Kapso. They live by their scripts, on a world's
// clock or the machine's.
type population struct {
	product

	dice     dice
	clock    clock.Clock
	began    time.Time
	tempo    tempo
	flow     session.Flow
	recorder *recorder
	api      operator.Client
	kapso    *sender                            // nil outside a soak
	run      func(do func(ctx context.Context)) // with a context that lasts as long as they live

	cast    []*person
	byPhone map[string]*person

	mu       sync.Mutex
	over     bool // no person begins anything any more
	inflight int  // of their doings
	changed  chan struct{}
	sessions map[string]*person // by id
	byHand   map[string][]session.StepID
	visited  int            // how often the operator has looked in
	achieved map[string]int // by the operator
	problems []string       // calls that were refused and must not be
}

func newPopulation(ctx context.Context, d dice, c clock.Clock, t tempo) *population {
	return &population{
		dice: d, clock: c, began: c.Now(), tempo: t, recorder: new(recorder), byPhone: map[string]*person{}, changed: make(chan struct{}),
		run:      func(do func(ctx context.Context)) { do(ctx) },
		sessions: map[string]*person{}, byHand: map[string][]session.StepID{}, achieved: map[string]int{},
		api: operator.Client{HTTP: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: callBound}},
	}
}

// callBound bounds the wait of an operator's program for an answer.
const callBound = time.Minute

// gather makes the people.
func (c *population) gather(people int) error {
	for i := range people {
		p, err := newPerson(c, i, people)
		if err != nil {
			return err
		}
		c.cast = append(c.cast, p)
		c.byPhone[p.phone] = p
	}
	return nil
}

// begin makes the appointments of all people.
func (c *population) begin() {
	for _, p := range c.cast {
		p.plan()
	}
	if c.kapso != nil {
		c.spawn(c.kapso.send)
	}
	if c.tempo.visits > 0 {
		c.after(c.tempo.visitEvery+visitPhase, c.visit)
	}
}

// elapsed returns how long they have lived.
func (c *population) elapsed() time.Duration { return c.clock.Now().Sub(c.began) }

// after does something d later on their clock.
func (c *population) after(d time.Duration, do func(ctx context.Context)) {
	c.clock.AfterFunc(d, func() { c.spawn(do) })
}

// spawn does something now, at the same time as everything else; still waits for its end.
func (c *population) spawn(do func(ctx context.Context)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	c.inflight++
	go func() {
		defer func() {
			c.mu.Lock()
			c.inflight--
			close(c.changed)
			c.changed = make(chan struct{})
			c.mu.Unlock()
		}()
		c.run(do)
	}()
}

// still waits until no person does anything.
func (c *population) still(ctx context.Context) error {
	for {
		c.mu.Lock()
		inflight, changed := c.inflight, c.changed
		c.mu.Unlock()
		if inflight == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// doings counts what is being done for people now.
func (c *population) doings() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inflight
}

// end has no person begin anything any more.
func (c *population) end() {
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	c.api.HTTP.CloseIdleConnections()
	if c.kapso != nil {
		c.kapso.client.CloseIdleConnections()
	}
}

// busy reports whether a person does something, or still has plans.
func (c *population) busy() bool {
	if c.doings() > 0 {
		return true
	}
	for _, p := range c.cast {
		if p.busy() {
			return true
		}
	}
	return false
}

func (c *population) problemf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

// observe hears everything at Twilio: for the record, and for the people.
func (c *population) observe(e twilio.Event) {
	c.recorder.observe(e)
	if e.Kind != twilio.EventCreated || e.Message.Direction != twilio.DirectionAPI {
		return
	}
	if p := c.byPhone[e.Message.To]; p != nil {
		p.hear(e.Message.Body)
	}
}

// asked hears of every text that Twilio is asked for, before it is answered.
func (c *population) asked(m twilio.Message) {
	if p := c.byPhone[m.To]; p != nil {
		p.during(p.texts[m.Body])
	}
}

// textName returns what a text is known by in every run.
func (c *population) textName(m twilio.Message) string {
	p := c.byPhone[m.To]
	if p == nil {
		return m.To
	}
	return fmt.Sprint(p.i, " ", p.texts[m.Body])
}

// alarmName returns what an alarm is known by in every run: of which person, and for which step; empty when it belongs to no person. Its
// generation is left out on purpose, so that one that QStash was told to lose is counted on.
func (c *population) alarmName(dedupID string) string {
	const idLength = 36
	rest, ok := strings.CutPrefix(dedupID, "onboarding-")
	if !ok || len(rest) < idLength {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.sessions[rest[:idLength]]
	if p == nil {
		return ""
	}
	return fmt.Sprint(p.i, rest[idLength:])
}

// know remembers the person of a session.
func (c *population) know(sessionID string, p *person) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if sessionID != "" {
		c.sessions[sessionID] = p
	}
}

// deliverByHand posts a step as QStash does, whether or not it is due: an operator replays it. The answer does not matter.
func (c *population) deliverByHand(ctx context.Context, profile, sessionID string, step session.StepID) {
	if sessionID == "" {
		return
	}
	body, err1 := session.NewStepPayload(profile, sessionID, step).Encode()
	url := c.api.BaseURL + "/api/onboarding/step"
	signature, err2 := api.Sign(qstash.DevCurrentKey, url, body, c.clock.Now())
	request, err3 := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err := errors.Join(err1, err2, err3); err != nil {
		c.problemf("a step could not be delivered by hand: %v", err)
		return
	}
	request.Header.Set(api.HeaderSignature, signature)
	request.Header.Set(api.HeaderMessageID, "msg_by_hand")
	c.mu.Lock()
	c.byHand[sessionID] = append(c.byHand[sessionID], step)
	c.mu.Unlock()
	if response, err := c.api.HTTP.Do(request); err == nil {
		_ = response.Body.Close() // the answer does not matter
	}
}
