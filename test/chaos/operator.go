package chaos

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"time"
)

// The operator of a world looks in every so often, as somebody on duty does, until there is nothing left to decide.
const (
	visitEvery = 2 * time.Minute
	visits     = 12
)

// firstVisit is late enough for somebody to be parked, at an instant that nobody else has.
const firstVisit = visitEvery + grid - 500*time.Microsecond

// visit looks after what is parked, and comes again.
func (w *world) visit(ctx context.Context) {
	w.mu.Lock()
	w.visited++
	w.mu.Unlock()
	w.decide(ctx)
	if !w.dutyIsOver() {
		w.after(visitEvery, w.visit)
	}
}

func (w *world) dutyIsOver() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.visited >= visits
}

// decide says of every parked text what became of it, which the operator knows from Twilio's own log, and has every stuck
// session go on. What is refused is tried at the next visit.
func (w *world) decide(ctx context.Context) {
	type message struct {
		MessageID string `json:"message_id"`
		To        string `json:"to"`
		Body      string `json:"body"`
	}
	var parked struct {
		Messages []message `json:"messages"`
	}
	if w.call(ctx, http.MethodGet, "/v1/messages?status=parked&page_size=500", struct{}{}, &parked) != nil {
		return // something is down: the next visit
	}
	slices.SortFunc(parked.Messages, func(a, b message) int {
		return cmp.Or(cmp.Compare(a.To, b.To), cmp.Compare(a.Body, b.Body))
	})
	for _, m := range parked.Messages {
		w.resolve(ctx, m.MessageID)
	}
	var stuck struct {
		Sessions []struct {
			SessionID string `json:"session_id"`
			Status    string `json:"status"`
		} `json:"sessions"`
	}
	if w.call(ctx, http.MethodGet, "/v1/sessions?stuck=true&page_size=500", struct{}{}, &stuck) != nil {
		return
	}
	for _, s := range stuck.Sessions {
		if s.Status == "stuck" {
			w.count("session resumed", w.call(ctx, http.MethodPost, "/v1/sessions/"+s.SessionID+":resume", struct{}{}, nil))
		}
	}
}

// resolve looks at the evidence and says whether Twilio has the text.
func (w *world) resolve(ctx context.Context, messageID string) {
	var evidence struct {
		Attempt int `json:"attempt"`
	}
	if w.call(ctx, http.MethodGet, "/v1/messages/"+messageID+"/evidence", struct{}{}, &evidence) != nil {
		return
	}
	word := map[string]any{"resolution": "RESOLUTION_NOT_SENT", "reason": "it is not in Twilio's log", "attempt": evidence.Attempt}
	for _, m := range w.witness.Texts() {
		if rowOf(m) == messageID {
			word["resolution"], word["twilio_sid"], word["reason"] = "RESOLUTION_SENT", m.SID, "it is in Twilio's log"
		}
	}
	w.count("message resolved", w.call(ctx, http.MethodPost, "/v1/messages/"+messageID+":resolve", word, nil))
}

// count notes what an operator achieved; a refusal is no failure of the world.
func (w *world) count(what string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil:
		w.strikes[what]++
	case errors.As(err, new(*refusal)):
		w.strikes[what+", refused"]++
	}
}
