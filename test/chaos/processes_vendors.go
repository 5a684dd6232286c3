package chaos

import (
	"net/http"
	"strings"
	"sync"
	"time"

	"paceline.internal/emulators/qstash"
	"paceline.internal/emulators/twilio"
)

// mildFaults has both vendors misbehave a little, so that a process dies now and then while something else is wrong as well.
// What goes wrong is decided by the message, and only the first time that it is seen.
type mildFaults struct {
	dice dice

	mu     sync.Mutex
	seen   map[string]bool
	alarms []string        // deduplication ids of those that went wrong
	rows   map[string]bool // ids of our messages that went wrong
	counts map[string]int  // by kind
}

func newMildFaults(d dice) *mildFaults {
	return &mildFaults{dice: d, seen: map[string]bool{}, rows: map[string]bool{}, counts: map[string]int{}}
}

// first reports whether something is seen for the first time.
func (f *mildFaults) first(what string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	again := f.seen[what]
	f.seen[what] = true
	return !again
}

func (f *mildFaults) alarm(kind, dedupID string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[kind]++
	f.alarms = append(f.alarms, dedupID)
}

func (f *mildFaults) row(kind string, m twilio.Message) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[kind]++
	f.rows[rowOf(m)] = true
}

// disturbed reports whether the vendors had a part in when a text came.
func (f *mildFaults) disturbed(sessionID, step, row string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rows[row] {
		return true
	}
	for _, id := range f.alarms {
		if strings.Contains(id, sessionID) && strings.Contains(id, step) {
			return true
		}
	}
	return false
}

func (f *mildFaults) struck() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return merge(f.counts)
}

func merge(m map[string]int) map[string]int { return sum(nil, m) }

func (f *mildFaults) qstash() qstash.Script {
	return qstash.Script{
		OnPublish: func(_ int, m qstash.Message) qstash.PublishFault {
			id := m.DeduplicationID
			if id == "" || !f.first("publish "+id) {
				return qstash.PublishFault{}
			}
			switch f.dice.roll("publish", id).IntN(50) {
			case 0:
				f.alarm("publish_refused", id)
				return qstash.PublishFault{Status: http.StatusServiceUnavailable}
			case 1:
				f.alarm("publish_answer_lost", id)
				return qstash.PublishFault{LoseAnswer: true}
			}
			return qstash.PublishFault{}
		},
		OnDeliver: func(d qstash.Delivery) qstash.DeliverFault {
			id := d.Message.DeduplicationID
			if id == "" || !f.first("deliver "+id) {
				return qstash.DeliverFault{}
			}
			switch r := f.dice.roll("deliver", id); r.IntN(50) {
			case 0:
				f.alarm("alarm_lost", id)
				return qstash.DeliverFault{Lose: true}
			case 1:
				f.alarm("alarm_late", id)
				return qstash.DeliverFault{Delay: between(r, grid, 2*time.Second)}
			case 2, 3, 4, 5:
				f.alarm("alarm_repeated_at_once", id)
				return qstash.DeliverFault{Copies: 1 + r.IntN(2)}
			case 6:
				f.alarm("alarm_repeated_later", id)
				return qstash.DeliverFault{Repeats: 1, RepeatAfter: between(r, grid, 10*time.Second)}
			}
			return qstash.DeliverFault{}
		},
	}
}

func (f *mildFaults) twilio() twilio.Script {
	return twilio.Script{
		OnCreate: func(_ int, m twilio.Message) twilio.CreateFault {
			name := m.To + " " + m.Body
			if !f.first("create " + name) {
				return twilio.CreateFault{}
			}
			switch f.dice.roll("create", name).IntN(100) {
			case 0, 1:
				f.row("create_answer_lost", m)
				return twilio.CreateFault{Answer: twilio.AnswerReset, Commit: true}
			case 2, 3:
				f.row("create_429", m)
				return twilio.CreateFault{Answer: twilio.AnswerTooMany}
			case 4:
				f.row("create_503_not_taken", m)
				return twilio.CreateFault{Answer: twilio.AnswerUnavailable}
			case 5:
				f.row("create_503_taken", m)
				return twilio.CreateFault{Answer: twilio.AnswerUnavailable, Commit: true}
			}
			return twilio.CreateFault{}
		},
		OnCallback: func(m twilio.Message) twilio.CallbackFault {
			switch r := f.dice.roll("callback", m.To, m.Body, m.Status); r.IntN(20) {
			case 0:
				return twilio.CallbackFault{Drop: true}
			case 1:
				return twilio.CallbackFault{Duplicate: 1}
			case 2:
				return twilio.CallbackFault{Delay: between(r, grid, 5*time.Second)}
			}
			return twilio.CallbackFault{}
		},
	}
}
