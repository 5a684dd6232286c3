package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"
)

const longestWeeks = 26

// weeks is a person over weeks, on a clock that leaps from one thing to the next.
type weeks struct {
	*leaps

	ends   time.Time
	states int // printed
}

// playWeeks plays the weeks, prints them as a diary, and judges them by what reached the phone.
func (d *demoCommand) playWeeks(ctx context.Context, t terminal, s *screen) error {
	if d.Weeks < 1 || d.Weeks > longestWeeks || d.Faults || d.Goals {
		return fmt.Errorf("--weeks is 1 to %d, and goes without --faults and --goals", longestWeeks)
	}
	s.heading(fmt.Sprintf("Paceline: %d weeks of one person, on a clock that leaps ...", d.Weeks))
	return d.leap(ctx, t, s, func(ctx context.Context, l *leaps) (report, error) {
		w := &weeks{leaps: l, ends: leapsBegin.AddDate(0, 0, 7*d.Weeks)}
		w.news = w.tell
		return w.play(ctx)
	}, fmt.Sprintf(" in %d weeks", d.Weeks))
}

func (w *weeks) play(ctx context.Context) (report, error) {
	if err := publishStory(ctx, w.api); err != nil {
		return report{}, err
	}
	if _, err := w.api.Activate(ctx, w.profileID); err != nil {
		return report{}, err
	}
	for _, e := range w.person.story {
		at := e.at(w.person.zone())
		if !at.Before(w.ends) {
			break
		}
		if err := errors.Join(w.pass(ctx, at), w.happen(ctx, e)); err != nil {
			return report{}, fmt.Errorf("day %d: %w", e.day, err)
		}
	}
	if err := w.pass(ctx, w.ends); err != nil {
		return report{}, err
	}
	return w.judge(ctx)
}

// happen lets one thing happen: the person writes, or does something in the host application.
func (w *weeks) happen(ctx context.Context, e storyEvent) error {
	if e.text != "" {
		return w.text(ctx, e.text)
	}
	var did struct {
		Completed []int  `json:"completed"`
		Hint      string `json:"hint"`
	}
	err := w.api.Call(ctx, http.MethodPost, "/v1/profiles/"+url.PathEscape(w.profileID)+"/actions", map[string]any{
		"action": e.action, "source": "command", "idempotency_key": fmt.Sprintf("%s-%s", w.clock.Now().Format(time.RFC3339), e.action),
		"attributes": map[string]string{"category": e.category},
	}, &did)
	if err == nil {
		w.screen.did(w.clock.Now(), e.action, did.Hint)
	}
	return err
}

// transition is one change of the person's state.
type transition struct {
	ID       string            `json:"transition_id"`
	From     string            `json:"from_state"`
	To       string            `json:"to_state"`
	Trigger  string            `json:"trigger"`
	At       time.Time         `json:"at"`
	Metadata map[string]string `json:"metadata"`
}

// transitions returns the changes of a person's state, the oldest first.
func (s *stage) transitions(ctx context.Context, profileID string) ([]transition, error) {
	var page struct {
		Transitions []transition `json:"transitions"`
	}
	err := s.api.Call(ctx, http.MethodGet, "/v1/profiles/"+url.PathEscape(profileID)+"/engagement/transitions?page_size=200", nil, &page)
	slices.Reverse(page.Transitions)
	return page.Transitions, err
}

// tell prints what has happened since it was asked last.
func (w *weeks) tell(ctx context.Context) error {
	moved, err := w.transitions(ctx, w.profileID)
	if err != nil {
		return err
	}
	var lines []diaryLine
	for _, m := range moved[w.states:] {
		lines = append(lines, diaryLine{m.At, func(at string) { w.screen.printf("%s  [%s] %s\n", at, m.To, meanings[m.Trigger]) }})
	}
	w.states = len(moved)
	w.screen.told(w.heard(w.person.phone), lines)
	return nil
}
