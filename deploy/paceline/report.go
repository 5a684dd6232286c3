package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"paceline.internal/deploy/operator"
	"paceline.internal/emulators/twilio"
)

// report is the result of a conversation, by what reached the phone.
type report struct {
	Title      string    `json:"title"`
	SessionID  string    `json:"session_id"`
	Kept       bool      `json:"kept"`
	Messages   []heard   `json:"messages"`
	Runs       []ran     `json:"runs,omitempty"`
	Duplicates int       `json:"duplicates"`
	TotalMS    int64     `json:"total_ms"`
	Promises   []promise `json:"promises"`
}

// heard is one message as it reached the phone.
type heard struct {
	Step   string `json:"step"`
	Body   string `json:"body"`
	Copies int    `json:"copies"` // how often Twilio took it
	AtMS   int64  `json:"at_ms"`  // since the first message
	GapMS  int64  `json:"gap_ms"` // since the message before
}

// promise is one promise of Paceline, and whether it was kept.
type promise struct {
	Name string `json:"name"`
	Kept bool   `json:"kept"`
	Saw  string `json:"saw"`
}

// steps is every message of the conversation in its order.
var steps = []string{
	"opening", "explanation", "onboarding_message_1", "onboarding_message_2", "onboarding_message_3", "onboarding_message_4",
	"aim", "household", "saving_for", "thanks",
}

const (
	gap = 8 * time.Second
	// early is the tolerance below 8 s of a measured gap: both ends are read from a clock.
	early = 300 * time.Millisecond
	// atOnce bounds the wait for message 4, besides the allowed lateness.
	atOnce = 700 * time.Millisecond
	// recovery is the time that a fault may add to a gap: a retry of QStash after an answer was lost, or the relay's turn.
	recovery = 5 * time.Second
)

// judge compares what the phone got with what is promised.
func judge(r scenario, sessionID string, texts []twilio.Message, stored []operator.Message, engagement string, took time.Duration) report {
	out := report{Title: r.title, SessionID: sessionID, TotalMS: took.Milliseconds()}
	for _, text := range texts {
		out.hear(text, texts[0].CreatedAt, stepOf(text, stored))
	}
	var order []string
	for _, h := range out.Messages {
		order = append(order, h.Step)
	}
	out.promise("each text exactly once", len(texts) == len(steps) && out.Duplicates == 0,
		fmt.Sprintf("%d texts, %d duplicates", len(texts), out.Duplicates))
	out.promise("in order", slices.Equal(order, steps), strings.ReplaceAll(strings.Join(order, ", "), "onboarding_message_", ""))
	late := r.late
	if r.faults {
		late += recovery
	}
	out.spaced("messages 1 and 2 are 8 s apart", "onboarding_message_2", gap-early, gap+late)
	out.spaced("messages 2 and 3 are 8 s apart", "onboarding_message_3", gap-early, gap+late)
	out.spaced("message 4 follows at once", "onboarding_message_4", 0, atOnce+late)
	out.promise("the conversation ends", engagement == "active", "the interview is over, engagement: "+engagement)
	return out
}

// stepOf finds which step a message belongs to by the key under which we stored its SID.
func stepOf(text twilio.Message, stored []operator.Message) string {
	for _, m := range stored {
		if m.TwilioSID == text.SID {
			parts := strings.Split(m.IdempotencyKey, ":")
			return parts[min(3, len(parts)-1)]
		}
	}
	return "unknown to us"
}

func (r *report) hear(text twilio.Message, first time.Time, step string) {
	at := text.CreatedAt.Sub(first).Milliseconds()
	for i, earlier := range r.Messages {
		if earlier.Step == step || earlier.Body == text.Body {
			r.Messages[i].Copies++
			r.Duplicates++
			return
		}
	}
	h := heard{Step: step, Body: text.Body, Copies: 1, AtMS: at}
	if n := len(r.Messages); n > 0 {
		h.GapMS = at - r.Messages[n-1].AtMS
	}
	r.Messages = append(r.Messages, h)
}

func (r *report) promise(name string, kept bool, saw string) {
	r.Promises = append(r.Promises, promise{Name: name, Kept: kept, Saw: saw})
	r.Kept = !slices.ContainsFunc(r.Promises, func(p promise) bool { return !p.Kept })
}

func (r *report) spaced(name, step string, least, most time.Duration) {
	for _, h := range r.Messages {
		if h.Step == step {
			got := time.Duration(h.GapMS) * time.Millisecond
			r.promise(name, got >= least && got <= most, fmt.Sprintf("%.2f s", got.Seconds()))
			return
		}
	}
	r.promise(name, false, "it never came")
}

// compare adds whether the person saw the same messages as in a run without faults.
func (r *report) compare(clean report) {
	bodies := func(r report) []string {
		var all []string
		for _, h := range r.Messages {
			all = append(all, h.Body)
		}
		return all
	}
	r.promise("the person saw the same", slices.Equal(bodies(*r), bodies(clean)), "the texts of both conversations, compared")
}
