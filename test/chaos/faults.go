package chaos

import (
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"paceline.internal/emulators/qstash"
	"paceline.internal/emulators/twilio"
)

// refusals say what QStash answers to a publish that it does not take.
var refusals = []int{http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusTooManyRequests}

// odds say how often the vendors misbehave, one time in so many, and how badly.
type odds struct {
	publish, deliver, create, fate, callback int

	lateAlarm, repeatedAlarm, lateReceipt time.Duration // at the most
	// once: what goes wrong is decided by the message alone, and only the first time that it is seen. Otherwise by the message and the
	// instant: what happens at one instant happens in another order in every run, and not always as often, and the same befalls all of it.
	once bool
	// silent: alarms may be silent until QStash gives them up, and creates may hang.
	silent bool
	// patient is the age from which on the carrier takes everything; 0 never.
	patient time.Duration
}

var (
	// often is for a simulation.
	often = odds{
		publish: 40, deliver: 20, create: 9, fate: 16, callback: 12, silent: true,
		lateAlarm: 20 * time.Second, repeatedAlarm: 2 * time.Minute, lateReceipt: time.Minute, patient: 2 * time.Hour,
	}
	// seldom is for processes that are killed, so that one dies now and then while something else is wrong as well.
	seldom = odds{
		publish: 75, deliver: 35, create: 17, fate: 60, callback: 20, once: true,
		lateAlarm: 2 * time.Second, repeatedAlarm: 10 * time.Second, lateReceipt: 5 * time.Second,
	}
	// never is for a rollout and a failover, which alone are to blame for what is refused or late.
	never = odds{
		publish: math.MaxInt32, deliver: math.MaxInt32, create: math.MaxInt32, fate: math.MaxInt32, callback: math.MaxInt32, once: true,
		lateAlarm: time.Millisecond, repeatedAlarm: time.Millisecond, lateReceipt: time.Millisecond,
	}
)

// vendorFaults has both vendors misbehave.
type vendorFaults struct {
	odds

	population *population

	mu     sync.Mutex
	seen   map[string]bool // when decided once
	struck map[string]int  // faults by kind
}

func newVendorFaults(o odds, c *population) *vendorFaults {
	return &vendorFaults{odds: o, population: c, seen: map[string]bool{}, struck: map[string]int{}}
}

// fair is a source that has nothing go wrong: it only ever draws the highest number.
type fair struct{}

func (fair) Uint64() uint64 { return 1<<64 - 1 }

// roll is the dice for what happens to something now.
func (f *vendorFaults) roll(what, to string) *rand.Rand {
	if !f.once {
		return f.population.dice.roll(what, to, f.population.elapsed())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen[what+" "+to] {
		return rand.New(fair{}) //nolint:gosec // see fair
	}
	f.seen[what+" "+to] = true
	return f.population.dice.roll(what, to)
}

func (f *vendorFaults) strike(kind string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.struck[kind]++
}

// counts are the faults by kind.
func (f *vendorFaults) counts() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.struck)
}

// qstash is the script of the alarm clock.
func (f *vendorFaults) qstash() qstash.Script {
	return qstash.Script{
		OnPublish: func(_ int, m qstash.Message) qstash.PublishFault { return f.publish(m.DeduplicationID) },
		OnDeliver: func(d qstash.Delivery) qstash.DeliverFault { return f.deliver(d.Message.DeduplicationID) },
	}
}

func (f *vendorFaults) publish(id string) (fault qstash.PublishFault) {
	alarm := f.population.alarmName(id)
	if alarm == "" {
		return fault
	}
	switch r := f.roll("publish", alarm); r.IntN(f.odds.publish) {
	case 0:
		f.strike("publish refused")
		fault.Status = pick(r, refusals)
	case 1:
		f.strike("publish reset")
		fault.Reset = true
	case 2:
		f.strike("publish answer lost")
		fault.LoseAnswer = true
	}
	return fault
}

func (f *vendorFaults) deliver(id string) (fault qstash.DeliverFault) {
	alarm := f.population.alarmName(id)
	if alarm == "" {
		return fault
	}
	switch r := f.roll("deliver", alarm); r.IntN(f.odds.deliver) {
	case 0:
		if oneIn(r, 2) {
			f.strike("alarm lost")
			fault.Lose = true
			return fault
		}
		f.strike("alarm late")
		fault.Delay = between(r, grid, f.lateAlarm)
	case 1, 2:
		f.strike("alarm several times at once")
		fault.Copies = 1 + r.IntN(3)
	case 3:
		f.strike("alarm repeated")
		fault.Repeats, fault.RepeatAfter = 1+r.IntN(2), between(r, grid, f.repeatedAlarm)
	case 4:
		if f.silent && oneIn(r, 2) {
			f.strike("alarm silent")
			fault.Silence = pick(r, []qstash.Silence{qstash.RequestSilent, qstash.AnswerSilent})
		}
	}
	return fault
}

// twilio is the script of the carrier.
func (f *vendorFaults) twilio() twilio.Script {
	return twilio.Script{
		OnCreate: func(_ int, m twilio.Message) twilio.CreateFault {
			f.population.asked(m)
			return f.create(m)
		},
		OnFate: func(m twilio.Message) twilio.Fate {
			switch r := f.roll("fate", f.population.textName(m)); r.IntN(f.fate) {
			case 0:
				return twilio.Fate{Final: twilio.StatusUndelivered, Code: 30003}
			case 1:
				return twilio.Fate{Final: twilio.StatusFailed, Code: 30007}
			case 2:
				return twilio.Fate{Final: twilio.StatusSent}
			}
			return twilio.Fate{}
		},
		OnCallback: f.receipt,
	}
}

func (f *vendorFaults) receipt(m twilio.Message) (fault twilio.CallbackFault) {
	switch r := f.roll("callback", f.population.textName(m)+string(m.Status)); r.IntN(f.callback) {
	case 0, 1:
		f.strike("receipt lost")
		fault.Drop = true
	case 2:
		f.strike("receipt repeated")
		fault.Duplicate = 1 + r.IntN(2)
	case 3:
		f.strike("receipt late")
		fault.Delay = between(r, grid, f.lateReceipt)
	}
	return fault
}

// createFaults by what they are called in a report.
var createFaults = []struct {
	name string
	twilio.CreateFault
}{
	{"429", twilio.CreateFault{Answer: twilio.AnswerTooMany}},
	{"500, taken", twilio.CreateFault{Answer: twilio.AnswerServerError, Commit: true}},
	{"500, not taken", twilio.CreateFault{Answer: twilio.AnswerServerError}},
	{"503, taken", twilio.CreateFault{Answer: twilio.AnswerUnavailable, Commit: true}},
	{"503, not taken", twilio.CreateFault{Answer: twilio.AnswerUnavailable}},
	{"garbage, taken", twilio.CreateFault{Answer: twilio.AnswerGarbage, Commit: true}},
	{"reset, taken", twilio.CreateFault{Answer: twilio.AnswerReset, Commit: true}},
	{"reset, not taken", twilio.CreateFault{Answer: twilio.AnswerReset}},
	{"302, not taken", twilio.CreateFault{Answer: twilio.AnswerRedirect}},
}

// create returns what happens to a request to create a text now. Each text gets through in the end.
func (f *vendorFaults) create(m twilio.Message) twilio.CreateFault {
	r := f.roll("create", f.population.textName(m))
	if f.patient > 0 && f.population.elapsed() > f.patient || r.IntN(f.odds.create) > 0 {
		return twilio.CreateFault{}
	}
	fault := pick(r, createFaults)
	if f.silent && r.IntN(150) == 0 { // rarely: it costs the services their whole timeout, in real time
		fault.name, fault.CreateFault = "hang, not taken", twilio.CreateFault{Answer: twilio.AnswerHang, Commit: oneIn(r, 2)}
		if fault.Commit {
			fault.name = "hang, taken"
		}
	}
	f.strike("create " + fault.name)
	return fault.CreateFault
}
