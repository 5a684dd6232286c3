package chaos

import (
	"math/rand/v2"
	"time"

	"paceline.internal/services/onboarding/session"
)

// script is the plan of a person and their operator, drawn before anything happens. Times count from the activation
// unless they say otherwise; zero means never.
type script struct {
	locale string
	zone   string        // empty for that of the phone
	life   *life         // nil where they are not followed
	start  time.Duration // of the activation, from the beginning of the world

	replies  map[string]reply // to the texts that ask something, by key
	laterAt  string           // the text that is answered "later" first
	comeBack time.Duration    // after that
	silentAt string           // the text that is never answered
	chatter  map[string]string
	doubled  bool // every reply is typed twice, at once

	stop       time.Duration
	stopWord   string
	stopDuring session.TextKey // the STOP comes while this text is being sent
	start2     time.Duration   // START, after the STOP was acknowledged
	rejoin     time.Duration   // a new activation, after START
	hold       time.Duration
	release    time.Duration // after the hold
	reset      time.Duration // closes the session; it is opened anew
	regrets    bool          // says STOP again right after START
	replays    []replay
}

// reply is a text and how long the person thinks about it.
type reply struct {
	words string
	after time.Duration
}

// replay is a step that an operator delivers again by hand, whether it is due or not.
type replay struct {
	at   time.Duration
	step session.StepID
}

// The texts that ask something, and others that people tell apart.
const (
	asksFirst  = "ONBOARDING_OPENING"
	asksSecond = "ONBOARDING_EXPLANATION"
	saysLater  = "ONBOARDING_LATER"
	textPrefix = "ONBOARDING_MESSAGE_"
)

var (
	locales = []string{"en", "pt-BR"}
	goOn    = map[string][]string{
		"en":    {"Sounds good!", "ok", "sure, go ahead", "who is this?", "👍", "hm", "yes please"},
		"pt-BR": {"Pode ser!", "ok", "claro, pode mandar", "quem é?", "👍", "hum", "sim, por favor"},
	}
	notNow = map[string][]string{
		"en": {"later", "not now, thanks", "No!", "nah"}, "pt-BR": {"depois", "agora não, obrigada", "Não!", "mais tarde"},
	}
	// Twilio knows the first two and refuses texts by itself from then on. The others are kept by us alone.
	stopWords  = []string{"STOP", "unsubscribe", "parar", "Pare!", "stop texting me"}
	smallTalk  = map[string][]string{"en": {"wait, what?", "cool", "my name is Ann"}, "pt-BR": {"peraí", "legal", "meu nome é Ana"}}
	chatterers = []string{textPrefix + "1", textPrefix + "2", textPrefix + "3"}
)

// span is a time between two, both included.
type span struct{ least, most time.Duration }

// spans are several kinds of time, each as likely.
type spans []span

func (s spans) draw(r *rand.Rand) time.Duration {
	one := s[0]
	if len(s) > 1 {
		one = pick(r, s)
	}
	return between(r, one.least, one.most)
}

// tempo sets the speed at which a population lives.
type tempo struct {
	join                                              spans
	think, comeBack                                   spans
	stop, start, rejoin, hold, release, reset, replay spans

	days           time.Duration // for which people are followed; 0 where they are not
	races, regrets bool          // STOP comes while a text is being sent; STOP comes again right after START
	again          time.Duration // when they try again what did not get through
	patience       int           // and how often a person tries again when the text did not get through
	visitEvery     time.Duration // of the operator
	visits         int
}

// minutes is the tempo of a simulation in which everything happens within minutes.
func minutes() tempo {
	return tempo{
		join: spans{{time.Second, 30 * time.Second}}, think: spans{{300 * time.Millisecond, 15 * time.Second}},
		comeBack: spans{{5 * time.Second, 3 * time.Minute}}, stop: spans{{0, 50 * time.Second}}, start: spans{{time.Second, time.Minute}},
		rejoin: spans{{time.Second, 30 * time.Second}}, hold: spans{{0, 40 * time.Second}}, release: spans{{time.Second, 2 * time.Minute}},
		reset: spans{{0, time.Minute}}, replay: spans{{0, 90 * time.Second}},
		races: true, again: 30 * time.Second, patience: 40, visitEvery: 2 * time.Minute, visits: 12,
	}
}

// months is the tempo of a simulation in which people drift away and return over months.
func months() tempo {
	return tempo{
		join:     spans{{time.Second, 60 * day}},
		think:    spans{{300 * time.Millisecond, 15 * time.Second}, {time.Minute, 12 * time.Hour}, {day, 21 * day}},
		comeBack: spans{{time.Minute, day}, {7 * day, 40 * day}},
		stop:     spans{{0, 50 * time.Second}, {day, 50 * day}}, start: spans{{time.Minute, time.Hour}, {7 * day, 30 * day}},
		rejoin: spans{{time.Second, 30 * time.Second}, {day, 20 * day}},
		hold:   spans{{0, 40 * time.Second}, {day, 30 * day}}, release: spans{{time.Minute, time.Hour}, {7 * day, 30 * day}},
		reset: spans{{0, time.Minute}, {day, 30 * day}}, replay: spans{{0, 90 * time.Second}, {day, 60 * day}},
		races: true, again: 30 * time.Second, patience: 40, visitEvery: 2 * day, visits: 60,
	}
}

// followed is the tempo of a simulation of engagement: as that of months, but people are onboarded in the first two days.
func followed(days time.Duration) tempo {
	t := months()
	t.days, t.join, t.comeBack = days, spans{{time.Second, 12 * time.Hour}}, t.comeBack[:1]
	t.think = spans{{300 * time.Millisecond, 15 * time.Second}}
	t.stop, t.hold = spans{{3 * day, days}}, spans{{3 * day, days * 2 / 3}}
	t.visits = int(days / t.visitEvery)
	return t
}

// within is the tempo of a run of processes, on the machine's clock.
func within(duration time.Duration) tempo {
	soon, half := span{grid, max(grid, min(6*time.Second, duration/10))}, span{grid, max(grid, min(duration/2, 25*time.Second))}
	const again = 250 * time.Millisecond
	return tempo{
		join: spans{{0, duration * 3 / 4}}, think: spans{soon}, comeBack: spans{soon}, stop: spans{half}, start: spans{soon}, rejoin: spans{soon},
		hold: spans{half}, release: spans{soon}, reset: spans{half}, replay: spans{half},
		regrets: true, again: again, patience: int(time.Hour / again),
	}
}

// writeScript draws the script of the i-th person.
func writeScript(d dice, i int, flow session.Flow, t tempo) script {
	r := d.roll("script", i)
	steps := flow.Steps()
	last := string(steps[len(steps)-1].Text)
	s := script{
		locale: pick(r, locales), start: t.join.draw(r),
		replies: map[string]reply{}, chatter: map[string]string{}, doubled: oneIn(r, 12),
	}
	asks := []string{asksFirst, asksSecond, last}
	for _, text := range asks {
		s.replies[text] = reply{words: pick(r, goOn[s.locale]), after: t.think.draw(r)}
	}
	if oneIn(r, 6) {
		s.laterAt, s.comeBack = pick(r, asks), t.comeBack.draw(r)
	}
	if oneIn(r, 25) {
		s.silentAt = pick(r, asks)
	}
	for _, text := range chatterers {
		if oneIn(r, 10) {
			s.chatter[text] = pick(r, smallTalk[s.locale])
		}
	}
	s.interfere(r, steps, t)
	if t.days > 0 {
		s.zone, s.life = pick(r, zones), writeLife(d, i, t.days)
	}
	return s
}

// interfere adds what comes from outside the conversation.
func (s *script) interfere(r *rand.Rand, steps []session.Step, t tempo) {
	if oneIn(r, 7) {
		s.stop, s.stopWord = t.stop.draw(r), pick(r, stopWords)
	} else if oneIn(r, 20) && t.races {
		s.stopDuring, s.stopWord = pick(r, steps).Text, pick(r, stopWords)
	}
	if s.stopWord != "" && oneIn(r, 2) {
		s.start2 = t.start.draw(r)
		if oneIn(r, 2) {
			s.rejoin = t.rejoin.draw(r)
		} else {
			s.regrets = t.regrets && oneIn(r, 2)
		}
	}
	if oneIn(r, 12) {
		s.hold, s.release = t.hold.draw(r), t.release.draw(r)
	}
	if oneIn(r, 25) {
		s.reset = t.reset.draw(r)
	}
	for oneIn(r, 5) {
		s.replays = append(s.replays, replay{at: t.replay.draw(r), step: pick(r, steps).ID})
	}
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }
