package chaos

import (
	"math/rand/v2"
	"time"

	"paceline.internal/services/onboarding/session"
)

// script is what a person and their operator are going to do, drawn before anything happens. Times count from the activation
// unless they say otherwise; zero means never.
type script struct {
	locale string
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
	replays    []replay
}

// reply is a text and how long the person thinks about it.
type reply struct {
	words string
	after time.Duration
}

// replay is a step that somebody delivers again by hand, whether it is due or not.
type replay struct {
	at   time.Duration
	step session.StepID
}

// The texts that ask something.
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

// span is over how long the people of a world join.
const span = 30 * time.Second

// writeScript draws the script of the i-th person.
func writeScript(d dice, i int, flow session.Flow) script {
	r := d.roll("script", i)
	steps := flow.Steps()
	last := string(steps[len(steps)-1].Text)
	s := script{
		locale: pick(r, locales), start: between(r, time.Second, span),
		replies: map[string]reply{}, chatter: map[string]string{}, doubled: oneIn(r, 12),
	}
	asks := []string{asksFirst, asksSecond, last}
	for _, text := range asks {
		s.replies[text] = reply{words: pick(r, goOn[s.locale]), after: between(r, 300*time.Millisecond, 15*time.Second)}
	}
	if oneIn(r, 6) {
		s.laterAt, s.comeBack = pick(r, asks), between(r, 5*time.Second, 3*time.Minute)
	}
	if oneIn(r, 25) {
		s.silentAt = pick(r, asks)
	}
	for _, text := range chatterers {
		if oneIn(r, 10) {
			s.chatter[text] = pick(r, smallTalk[s.locale])
		}
	}
	s.interfere(r, steps)
	return s
}

// interfere adds what comes from outside the conversation.
func (s *script) interfere(r *rand.Rand, steps []session.Step) {
	if oneIn(r, 7) {
		s.stop, s.stopWord = between(r, 0, 50*time.Second), pick(r, stopWords)
	} else if oneIn(r, 20) {
		s.stopDuring, s.stopWord = pick(r, steps).Text, pick(r, stopWords)
	}
	if s.stopWord != "" && oneIn(r, 2) {
		s.start2 = between(r, time.Second, time.Minute)
		if oneIn(r, 2) {
			s.rejoin = between(r, time.Second, 30*time.Second)
		}
	}
	if oneIn(r, 12) {
		s.hold, s.release = between(r, 0, 40*time.Second), between(r, time.Second, 2*time.Minute)
	}
	if oneIn(r, 25) {
		s.reset = between(r, 0, 60*time.Second)
	}
	for oneIn(r, 5) {
		s.replays = append(s.replays, replay{at: between(r, 0, 90*time.Second), step: pick(r, steps).ID})
	}
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }
