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
	opened, err := s.api.Activate(ctx, profile.ProfileID)
	if err != nil {
		return report{}, err
	}
	if err := s.converse(ctx, r.phone, profile.ProfileID, opened.SessionID, questions(locale), screen); err != nil {
		return report{}, err
	}
	state, err := s.engagement(ctx, profile.ProfileID)
	if err != nil {
		return report{}, err
	}
	screen.printf("%10s  [engagement: %s]\n", "", state)
	took := time.Since(began)
	if err := s.vendors.Idle(ctx); err != nil {
		return report{}, err
	}
	stored, err := s.api.Messages(ctx, profile.ProfileID)
	if err != nil {
		return report{}, err
	}
	return judge(r, opened.SessionID, s.heard(r.phone), stored, state, took), nil
}

// converse follows the person through onboarding and the interview until the host application has them, answering once at every gate.
func (s *stage) converse(ctx context.Context, phone, profileID, sessionID string, asks []question, screen *screen) error {
	shown := 0
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
		case session.Mode == "interviewing" && session.Status == "active":
			return nil
		case session.Mode == "interviewing": // onboarding is over, and the interview follows it
			next, err := s.newest(ctx, profileID)
			if err != nil {
				return err
			}
			if next != sessionID {
				sessionID, shown = next, 0
			}
		case session.Status != "active":
			return fmt.Errorf("the session ended as %s: %s", session.Status, session.Reason)
		case len(asks) > 0 && session.StateToken == asks[0].state && len(timeline) > 1: // the text that asks has been sent
			if err := s.answer(ctx, phone, asks[0].answer); err != nil {
				return err
			}
			asks = asks[1:]
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// newest returns the session of a person that was opened last.
func (s *stage) newest(ctx context.Context, profileID string) (string, error) {
	sessions, err := s.api.Sessions(ctx, profileID)
	if err != nil || len(sessions) == 0 {
		return "", err
	}
	return sessions[0].SessionID, nil
}

// engagement returns the state of a person in engagement.
func (s *stage) engagement(ctx context.Context, profileID string) (string, error) {
	moved, err := s.transitions(ctx, profileID)
	if err != nil || len(moved) == 0 {
		return "", err
	}
	return moved[len(moved)-1].To, nil
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
