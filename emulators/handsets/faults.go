package handsets

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"paceline.internal/emulators/qstash"
	"paceline.internal/emulators/twilio"
)

// Faults sets the faults from now on, a word for each; the empty word is that nothing goes wrong.
type Faults struct {
	Sends    string `json:"sends"`    // what Twilio answers a send: down, slow, throttled, refused, lost
	Receipts string `json:"receipts"` // what happens to receipts: lost, late, twice
	Handset  string `json:"handset"`  // how a message that was taken ends: undelivered
	Replies  string `json:"replies"`  // what happens to what people write: lost
	Alarms   string `json:"alarms"`   // what QStash does with alarms: down, late, lost, twice
	Code     int    `json:"code"`     // Twilio's, of refused and undelivered; 0 means the usual one
}

// What a person watches has to be long enough to be seen and short enough to wait for.
const (
	slowAnswer  = 5 * time.Second
	lateReceipt = 20 * time.Second
	lateAlarm   = 30 * time.Second

	usualRefusal     = 21211 // not a phone number
	usualUndelivered = 30003 // off, or out of reach
)

func (f Faults) check() error {
	for _, fault := range []struct {
		name, value string
		known       []string
	}{
		{"sends", f.Sends, []string{"", "down", "slow", "throttled", "refused", "lost"}},
		{"receipts", f.Receipts, []string{"", "lost", "late", "twice"}},
		{"handset", f.Handset, []string{"", "undelivered"}},
		{"replies", f.Replies, []string{"", "lost"}},
		{"alarms", f.Alarms, []string{"", "down", "late", "lost", "twice"}},
	} {
		if !slices.Contains(fault.known, fault.value) {
			return fmt.Errorf("%s must be one of %q", fault.name, fault.known)
		}
	}
	if f.Code != 0 && (f.Code < 10000 || f.Code > 99999) {
		return errors.New("code must be one of Twilio's, with five digits")
	}
	return nil
}

// code is the one that was chosen, or the usual one.
func (f Faults) code(usual int) int {
	if f.Code != 0 {
		return f.Code
	}
	return usual
}

// twilio is the script that does it.
func (f Faults) twilio() twilio.Script {
	return twilio.Script{
		OnCreate: func(int, twilio.Message) twilio.CreateFault {
			switch f.Sends {
			case "down":
				return twilio.CreateFault{Answer: twilio.AnswerUnavailable}
			case "slow":
				return twilio.CreateFault{Delay: slowAnswer}
			case "throttled":
				return twilio.CreateFault{Answer: twilio.AnswerTooMany}
			case "refused":
				return twilio.CreateFault{Refuse: f.code(usualRefusal)}
			case "lost":
				return twilio.CreateFault{Answer: twilio.AnswerReset, Commit: true}
			default:
				return twilio.CreateFault{}
			}
		},
		OnFate: func(twilio.Message) twilio.Fate {
			if f.Handset == "" {
				return twilio.Fate{}
			}
			return twilio.Fate{Final: twilio.StatusUndelivered, Code: f.code(usualUndelivered)}
		},
		OnCallback: func(twilio.Message) twilio.CallbackFault {
			switch f.Receipts {
			case "lost":
				return twilio.CallbackFault{Drop: true}
			case "late":
				return twilio.CallbackFault{Delay: lateReceipt}
			case "twice":
				return twilio.CallbackFault{Duplicate: 1}
			default:
				return twilio.CallbackFault{}
			}
		},
		OnInbound: func(twilio.Message) twilio.InboundFault { return twilio.InboundFault{Drop: f.Replies == "lost"} },
	}
}

// qstash is the script that does it.
func (f Faults) qstash() qstash.Script {
	switch f.Alarms {
	case "down":
		return qstash.Script{OnPublish: func(int, qstash.Message) qstash.PublishFault {
			return qstash.PublishFault{Status: http.StatusServiceUnavailable}
		}}
	case "late":
		return qstash.Script{OnDeliver: qstash.Every(qstash.DeliverFault{Delay: lateAlarm})}
	case "lost":
		return qstash.Script{OnDeliver: qstash.Every(qstash.DeliverFault{Lose: true})}
	case "twice":
		return qstash.Script{OnDeliver: qstash.Every(qstash.DeliverFault{Copies: 1})}
	default:
		return qstash.Script{}
	}
}

// switched are the faults as they were set last.
type switched struct {
	mu     sync.Mutex
	faults Faults
}

func (s *switched) now() Faults {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.faults
}

func (s *switched) set(f Faults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = f
}
