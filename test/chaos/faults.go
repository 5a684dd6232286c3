package chaos

import (
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"paceline.internal/emulators/qstash"
	"paceline.internal/emulators/twilio"
)

// refusals are what QStash answers to a publish that it does not take.
var refusals = []int{http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusTooManyRequests}

// vendorFaults has both vendors misbehave. What goes wrong is decided by the message and the instant. What happens at one instant
// happens in another order in every run, and not always as often; the same befalls all of it.
type vendorFaults struct {
	dice    dice
	elapsed func() time.Duration // the age of the world

	mu     sync.Mutex
	struck map[string]int // faults by kind
}

func newVendorFaults(d dice, elapsed func() time.Duration) *vendorFaults {
	return &vendorFaults{dice: d, elapsed: elapsed, struck: map[string]int{}}
}

// roll is the dice for what happens to something now.
func (f *vendorFaults) roll(what, to string) *rand.Rand { return f.dice.roll(what, to, f.elapsed()) }

func (f *vendorFaults) strike(kind string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.struck[kind]++
}

// alarm is what an alarm is known by over runs: its deduplication id has the session's id, which is random.
type alarmName func(dedupID string) string

// qstash is the script of the alarm clock.
func (f *vendorFaults) qstash(name alarmName) qstash.Script {
	return qstash.Script{
		OnPublish: func(_ int, m qstash.Message) qstash.PublishFault {
			alarm := name(m.DeduplicationID)
			if alarm == "" {
				return qstash.PublishFault{}
			}
			switch r := f.roll("publish", alarm); r.IntN(40) {
			case 0:
				f.strike("publish refused")
				return qstash.PublishFault{Status: pick(r, refusals)}
			case 1:
				f.strike("publish reset")
				return qstash.PublishFault{Reset: true}
			case 2:
				f.strike("publish answer lost")
				return qstash.PublishFault{LoseAnswer: true}
			}
			return qstash.PublishFault{}
		},
		OnDeliver: func(d qstash.Delivery) qstash.DeliverFault {
			alarm := name(d.Message.DeduplicationID)
			if alarm == "" {
				return qstash.DeliverFault{}
			}
			switch r := f.roll("deliver", alarm); r.IntN(20) {
			case 0:
				if oneIn(r, 2) {
					f.strike("alarm lost")
					return qstash.DeliverFault{Lose: true}
				}
				f.strike("alarm late")
				return qstash.DeliverFault{Delay: between(r, grid, 20*time.Second)}
			case 1, 2:
				f.strike("alarm several times at once")
				return qstash.DeliverFault{Copies: 1 + r.IntN(3)}
			case 3:
				f.strike("alarm repeated")
				return qstash.DeliverFault{Repeats: 1 + r.IntN(2), RepeatAfter: between(r, grid, 2*time.Minute)}
			case 4:
				if oneIn(r, 2) {
					f.strike("alarm silent")
					return qstash.DeliverFault{Silence: pick(r, []qstash.Silence{qstash.RequestSilent, qstash.AnswerSilent})}
				}
			}
			return qstash.DeliverFault{}
		},
	}
}

// twilio is the script of the carrier. text names a text over runs, and tell hears of every request before it is answered.
func (f *vendorFaults) twilio(text func(twilio.Message) string, tell func(twilio.Message)) twilio.Script {
	return twilio.Script{
		OnCreate: func(_ int, m twilio.Message) twilio.CreateFault {
			tell(m)
			return f.create(text(m))
		},
		OnFate: func(m twilio.Message) twilio.Fate {
			switch r := f.roll("fate", text(m)); r.IntN(16) {
			case 0:
				return twilio.Fate{Final: twilio.StatusUndelivered, Code: 30003}
			case 1:
				return twilio.Fate{Final: twilio.StatusFailed, Code: 30007}
			case 2:
				return twilio.Fate{Final: twilio.StatusSent}
			}
			return twilio.Fate{}
		},
		OnCallback: func(m twilio.Message) twilio.CallbackFault {
			name := text(m) + string(m.Status)
			switch r := f.roll("callback", name); r.IntN(12) {
			case 0, 1:
				f.strike("receipt lost")
				return twilio.CallbackFault{Drop: true}
			case 2:
				f.strike("receipt repeated")
				return twilio.CallbackFault{Duplicate: 1 + r.IntN(2)}
			case 3:
				f.strike("receipt late")
				return twilio.CallbackFault{Delay: between(r, grid, time.Minute)}
			}
			return twilio.CallbackFault{}
		},
	}
}

// patientCarrier is the age of a world from which on its carrier takes everything.
const patientCarrier = 2 * time.Hour

// create is what becomes of a request to create a text now. Each text gets through in the end.
func (f *vendorFaults) create(name string) twilio.CreateFault {
	r := f.roll("create", name)
	if f.elapsed() > patientCarrier || r.IntN(9) > 0 {
		return twilio.CreateFault{}
	}
	fault := pick(r, []twilio.CreateFault{
		{Answer: twilio.AnswerTooMany},
		{Answer: twilio.AnswerServerError, Commit: true},
		{Answer: twilio.AnswerServerError},
		{Answer: twilio.AnswerUnavailable, Commit: true},
		{Answer: twilio.AnswerUnavailable},
		{Answer: twilio.AnswerGarbage, Commit: true},
		{Answer: twilio.AnswerReset, Commit: true},
		{Answer: twilio.AnswerReset},
		{Answer: twilio.AnswerRedirect},
	})
	if r.IntN(150) == 0 { // rarely: it costs the services their whole timeout, in real time
		fault = twilio.CreateFault{Answer: twilio.AnswerHang, Commit: oneIn(r, 2)}
	}
	f.strike("create " + describe(fault))
	return fault
}

func describe(f twilio.CreateFault) string {
	answer := map[twilio.Answer]string{
		twilio.AnswerTooMany: "429", twilio.AnswerServerError: "500", twilio.AnswerUnavailable: "503", twilio.AnswerGarbage: "garbage",
		twilio.AnswerReset: "reset", twilio.AnswerRedirect: "302", twilio.AnswerHang: "hang",
	}[f.Answer]
	switch {
	case f.Answer == twilio.AnswerTooMany:
		return answer
	case f.Commit:
		return answer + ", taken"
	default:
		return answer + ", not taken"
	}
}
