package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/google/uuid"

	"paceline.internal/deploy/stack"
	"paceline.internal/platform/rpc"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/onboarding/catalog"
	"paceline.internal/services/onboarding/engagement/rules"
)

// life is the plan of a person for the weeks in which engagement follows them, drawn before anything happens.
type life struct {
	invited bool   // onboarded by a conversation; others are known to the organisation and have never been spoken to
	unknown bool   // to the organisation
	home    string // the household, empty for none
	doings  []doing
}

// doing is one thing that a person does without being asked: a message, an action in the host application, or a change on its page.
type doing struct {
	at     time.Duration // since the world began
	words  string
	action string
	page   map[string]string // preferences, as SetPreferencesRequest names them
}

// done is a doing that was acknowledged: it reached the system at an instant between these two.
type done struct {
	doing

	from, to time.Time
}

// active reports whether it counts as activity: what is set on a page does not, nor what messaging takes for a STOP, a HELP or a doubt.
func (d done) active() bool {
	read := consent.Asked{}.Read(d.words, "", consent.OptedIn)
	return d.page == nil && (read.Preferences.Any() || read.Effect == consent.None || read.Effect == consent.OptIn)
}

var (
	zones = []string{
		"America/Los_Angeles", "America/New_York", "America/Sao_Paulo", "America/St_Johns", "Europe/Lisbon", "Asia/Kathmandu",
		"Asia/Tokyo", "Pacific/Kiritimati", "Pacific/Pago_Pago",
	}
	// idle are the pauses between two doings: a day or two, less than the fourteen days, more, and about as many.
	idle = spans{
		{time.Hour, 2 * day},
		{time.Hour, 2 * day},
		{time.Hour, 2 * day},
		{3 * day, 13 * day},
		{14 * day, 25 * day},
		{14 * day, 25 * day},
		{14*day - 2*time.Hour, 14*day + 2*time.Hour},
	}
	// considers are the pauses before a goodbye is answered: at once, within its 48 hours, about when they end, and after them.
	considers = spans{
		{300 * time.Millisecond, 15 * time.Second},
		{time.Minute, 12 * time.Hour},
		{12 * time.Hour, 47 * time.Hour},
		{48*time.Hour - 10*time.Minute, 48*time.Hour + 10*time.Minute},
		{48 * time.Hour, 76 * time.Hour},
		{3 * day, 10 * day},
	}
	chooses = []string{
		"1", "2", "3", "1️⃣", "2.", " 3 ", "confused", "Achei confuso", "busy!", "na correria", "All good", "Tudo certo", "tudocerto",
	}
	everyday = []string{
		"12 for lunch", "gastei 50 no almoço", "vou sair hoje, gastei 50", "how are you?", "oi", "1 coffee", "11", "2?", "not busy",
	}
	everyphone = []string{"en", "pt"}
)

// writeLife draws the life of the i-th person, over so many days.
func writeLife(d dice, i int, days time.Duration) *life {
	r := d.roll("life", i)
	l := &life{invited: oneIn(r, 4)}
	if l.unknown = !l.invited && oneIn(r, 20); i%6 < 2 { // two neighbours
		l.home = uuid.NewSHA1(uuid.Nil, fmt.Append(nil, "home ", i/6)).String()
	}
	at := between(r, time.Minute, 4*day)
	if l.invited { // they are spoken to first
		at += 2 * day
	}
	for ; at < days; at += idle.draw(r) {
		next := drawDoing(r)
		next.at = at
		l.doings = append(l.doings, next)
		if oneIn(r, 12) { // for good
			break
		}
	}
	return l
}

func drawDoing(r *rand.Rand) doing {
	offered := catalog.Offered()[pick(r, everyphone)]
	wishes := []string{"reminders on", "reminders off", "tips on", "tips off", "household", "individual"}
	actions := rules.DefaultConfig().Actions()
	switch n := r.IntN(20); {
	case n < 8:
		return doing{words: pick(r, everyday)}
	case n < 9:
		return doing{words: pick(r, chooses)} // of nothing that was offered, mostly
	case n < 11:
		return doing{words: offered[pick(r, wishes)]}
	case n < 12:
		return doing{page: pick(r, []map[string]string{
			{"reminders": "off"}, {"reminders": "on"}, {"tips": "off", "reminders": "on"}, {"destination": "individual"},
		})}
	default:
		return doing{action: pick(r, actions)}
	}
}

// planLife makes a life's appointments. A person who is not invited is only made known.
func (p *person) planLife() {
	if !p.life.invited && !p.life.unknown {
		p.after(p.slot, func(ctx context.Context) { p.enrol(ctx, func(context.Context) {}) })
	}
	for n, one := range p.life.doings {
		p.after(one.at+p.slot, func(ctx context.Context) { p.do(ctx, n, one) })
	}
}

// do does one thing, until it is acknowledged.
func (p *person) do(ctx context.Context, n int, d doing) {
	switch {
	case d.words != "":
		p.say(ctx, d.words, p.c.tempo.patience)
	case p.profileID() == "":
	case d.action != "":
		at := p.c.clock.Now()
		p.report(ctx, fmt.Sprint("doing-", n), d.action, at)
	default:
		p.sets(ctx, d.page)
	}
}

// report has the host application report an action.
func (p *person) report(ctx context.Context, key, action string, at time.Time) {
	p.calls(ctx, rpc.RoleApp, http.MethodPost, "/actions", map[string]any{
		"action": action, "occurred_at": at, "source": pick(p.c.dice.roll(key, p.i), []string{"nlp", "command", "web"}), "idempotency_key": key,
	}, func() { p.did(at, doing{action: action}) })
}

// sets has the person set their preferences on the host application's page.
func (p *person) sets(ctx context.Context, page map[string]string) {
	began := p.c.clock.Now()
	p.prefers(wishOn(page["reminders"]), false)
	p.calls(ctx, rpc.RoleUser, http.MethodPut, "/preferences", page, func() {
		p.did(began, doing{page: page})
		p.prefers(wishOn(page["reminders"]), true)
	})
}

// calls makes a call about the person in a role until it is answered.
func (p *person) calls(ctx context.Context, as rpc.Role, method, path string, in any, granted func()) {
	client := p.c.api
	var err error
	subject := map[bool]string{true: p.profileID(), false: "host"}[as == rpc.RoleUser]
	if client.Token, err = p.c.secrets.APIToken(subject, stack.OrgID, as, p.c.clock.Now(), time.Hour); err == nil {
		err = client.Call(ctx, method, "/v1/profiles/"+p.profileID()+path, in, nil)
	}
	switch {
	case err == nil:
		granted()
	case refused(err):
		p.c.problemf("person %d: %v", p.i, err)
	default:
		p.after(p.c.tempo.again, func(ctx context.Context) { p.calls(ctx, as, method, path, in, granted) })
	}
}

// did notes what was acknowledged now, and may have reached the system since from.
func (p *person) did(from time.Time, d doing) {
	now := p.c.clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dones = append(p.dones, done{doing: d, from: from, to: now})
}

// wishOn returns what a person wants of reminders by a value of a page.
func wishOn(value string) consent.Switch {
	return map[string]consent.Switch{"on": consent.On, "off": consent.Off}[value]
}

// prefers notes what the person wants of reminders: once it was acknowledged, that holds; while it is on its way, nothing is known.
func (p *person) prefers(to consent.Switch, acknowledged bool) {
	if to == consent.Unsaid {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wantsReminders = consent.Unsaid; acknowledged {
		p.wantsReminders = to
	}
}

// considersGoodbye returns what the person makes of the n-th goodbye that they hear. When the days are over they are silent: who answered
// would get another one two weeks later.
func (p *person) considersGoodbye(n int) {
	if p.c.elapsed() >= p.c.tempo.days {
		return
	}
	r := p.c.dice.roll("goodbye", p.i, n)
	after := considers.draw(r)
	say := func(words string) {
		p.after(after, func(ctx context.Context) { p.say(ctx, words, p.c.tempo.patience) })
	}
	switch k := r.IntN(20); {
	case k < 9:
		say(pick(r, chooses))
	case k < 12:
		say(pick(r, everyday))
	case k < 13:
		say(catalog.Offered()[pick(r, everyphone)]["reminders off"])
	case k < 14 && p.stopWord == "":
		p.stopWord = pick(r, stopWords)
		p.after(after, p.sayStop)
	case k < 16 && p.profileID() != "":
		p.after(after, func(ctx context.Context) {
			p.report(ctx, fmt.Sprint("after-goodbye-", n), "add_expense", p.c.clock.Now())
		})
	} // else silence
}

// crosses has the person write while the goodbye is being sent to them, which few do.
func (p *person) crosses() {
	p.mu.Lock()
	n := p.asked[catalog.Goodbye]
	first := p.crossed < n+1
	p.crossed = n + 1
	p.mu.Unlock()
	if r := p.c.dice.roll("crosses", p.i, n); first && oneIn(r, 8) {
		words := pick(r, append([]string{"2", "3"}, everyday...))
		p.c.spawn(func(ctx context.Context) { p.say(ctx, words, p.c.tempo.patience) })
	}
}
