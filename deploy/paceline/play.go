package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"paceline.internal/deploy/operator"
	"paceline.internal/deploy/stack"
	"paceline.internal/emulators/qstash"
	"paceline.internal/emulators/twilio"
	"paceline.internal/services/onboarding/words"
)

// scenario is one conversation to be played.
type scenario struct {
	title  string
	phone  string
	faults bool
	late   time.Duration // how late a message may be
}

const (
	// typing is the time that the person takes to answer.
	typing = 1500 * time.Millisecond
	// polling is the interval at which the session is read.
	polling = 50 * time.Millisecond
	// longest bounds a conversation; a good one takes half of it.
	longest = 90 * time.Second
)

// answers returns the person's answer at each gate.
func answers(locale string) map[string]string {
	say := words.All().Of(locale)
	return map[string]string{
		"onboarding:awaiting_opening_response":     say.Text("example-opening"),
		"onboarding:awaiting_explanation_response": say.Text("example-explanation"),
		"onboarding:awaiting_interview_start":      say.Text("example-interview"),
	}
}

// play enrols a person, answers for them, shows what happens as it happens, and judges it by what reached the phone.
func (s *stage) play(ctx context.Context, r scenario, locale string, screen *screen) (report, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, longest, errors.New("the conversation did not come to its end"))
	defer cancel()
	if r.faults {
		s.breakThings(r.phone, screen)
		defer s.mendThings()
	}
	profile, err := s.api.Enrol(ctx, operator.Person{Phone: r.phone, FirstName: "Ana", Locale: locale})
	if err != nil {
		return report{}, err
	}
	began := time.Now()
	screen.begin(r.title, began)
	session, err := s.api.Activate(ctx, profile.ProfileID)
	if err != nil {
		return report{}, err
	}
	if err := s.converse(ctx, r.phone, session.SessionID, answers(locale), screen); err != nil {
		return report{}, err
	}
	took := time.Since(began)
	if err := s.vendors.Idle(ctx); err != nil {
		return report{}, err
	}
	stored, err := s.api.Messages(ctx, profile.ProfileID)
	if err != nil {
		return report{}, err
	}
	return judge(r, session.SessionID, s.heard(r.phone), stored, took), nil
}

// converse follows the session until the interview begins, answering once at every gate.
func (s *stage) converse(ctx context.Context, phone, sessionID string, says map[string]string, screen *screen) error {
	shown, answered := 0, map[string]bool{}
	tick := time.NewTicker(polling)
	defer tick.Stop()
	for {
		session, timeline, err := s.api.Session(ctx, sessionID)
		if err != nil {
			return err
		}
		for ; shown < len(timeline); shown++ {
			if err := s.show(ctx, timeline[shown], screen); err != nil {
				return err
			}
		}
		switch {
		case session.Status != "active":
			return fmt.Errorf("the session ended as %s", session.Status)
		case session.Mode == "interviewing":
			return nil
		case atGate(session, timeline) && !answered[session.StateToken]:
			answered[session.StateToken] = true
			if err := s.answer(ctx, phone, says[session.StateToken]); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// atGate reports whether the person has been asked something: the opening at least has been sent.
func atGate(session operator.Session, timeline []operator.Entry) bool {
	return session.StateToken != "onboarding:awaiting_burst" && len(timeline) > 1
}

// answer lets the person type for a moment and send it from their phone.
func (s *stage) answer(ctx context.Context, phone, text string) error {
	timer := time.NewTimer(typing)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
	}
	delivery, err := s.vendors.Twilio.Receive(ctx, phone, stack.FromNumber, text)
	if err != nil {
		return err
	}
	if delivery.StatusCode/100 != 2 {
		return fmt.Errorf("the inbound callback was answered %d", delivery.StatusCode)
	}
	return nil
}

// show prints one entry of the timeline with its message and the state that it led to.
func (s *stage) show(ctx context.Context, entry operator.Entry, screen *screen) error {
	text := ""
	if entry.MessageID != "" && (entry.Kind == "sent" || entry.Kind == "replied" || entry.Kind == "held") {
		message, err := s.api.Message(ctx, entry.MessageID)
		if err != nil {
			return err
		}
		text = message.Body
	}
	screen.entry(entry, text)
	return nil
}

// heard returns the messages that reached the phone, as Twilio took them, oldest first.
func (s *stage) heard(phone string) []twilio.Message {
	var texts []twilio.Message
	for _, m := range s.vendors.Twilio.Messages() {
		if m.To == phone && m.Direction == twilio.DirectionAPI {
			texts = append(texts, m)
		}
	}
	return texts
}

// breakThings has every alarm delivered three times at once, fails the publish of the third message for as long as the
// client itself keeps trying, and loses Twilio's answer to the second message after Twilio has taken it.
func (s *stage) breakThings(phone string, screen *screen) {
	const triesOfOnePublish = 3
	failed := 0
	s.vendors.QStash.SetFaults(qstash.Script{
		OnDeliver: func(d qstash.Delivery) qstash.DeliverFault {
			screen.mishap(d.Time, "an alarm is delivered three times at once")
			return qstash.DeliverFault{Copies: 2}
		},
		OnPublish: func(_ int, m qstash.Message) qstash.PublishFault {
			if strings.Contains(m.DeduplicationID, "onboarding_message_3") && failed < triesOfOnePublish {
				failed++
				screen.mishap(time.Now(), "QStash refuses the alarm for message 3")
				return qstash.PublishFault{Status: 500}
			}
			return qstash.PublishFault{}
		},
	})
	const secondMessage = 4 // after the opening, the explanation and message 1
	texts := 0
	s.vendors.Twilio.SetScript(twilio.Script{OnCreate: func(_ int, m twilio.Message) twilio.CreateFault {
		if m.To != phone {
			return twilio.CreateFault{}
		}
		texts++
		if texts == secondMessage {
			screen.mishap(time.Now(), "Twilio takes message 2, and its answer is lost")
			return twilio.CreateFault{Answer: twilio.AnswerReset, Commit: true}
		}
		return twilio.CreateFault{}
	}})
}

func (s *stage) mendThings() {
	s.vendors.QStash.SetFaults(qstash.Script{})
	s.vendors.Twilio.SetScript(twilio.Script{})
}
