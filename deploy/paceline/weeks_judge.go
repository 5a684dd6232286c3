package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"paceline.internal/deploy/operator"
	"paceline.internal/emulators/twilio"
)

// outreach is one message that the person did not ask for just then.
type outreach struct {
	Type      string     `json:"type"`
	Status    string     `json:"status"`
	Outcome   string     `json:"outcome"`
	MessageID string     `json:"message_id"`
	SentAt    *time.Time `json:"sent_at"`
}

// judge compares what the phone got with what is promised.
func (w *weeks) judge(ctx context.Context) (report, error) {
	stored, err := w.api.Messages(ctx, w.profileID)
	if err != nil {
		return report{}, err
	}
	moved, err := w.transitions(ctx, w.profileID)
	if err != nil {
		return report{}, err
	}
	var queued struct {
		Outreach []outreach `json:"outreach"`
	}
	of := "/v1/outreach?page_size=200&profile_id=" + url.QueryEscape(w.profileID)
	if err := w.api.Call(ctx, http.MethodGet, of, nil, &queued); err != nil {
		return report{}, err
	}
	texts := w.heard(w.person.phone)
	out := report{Title: "Weeks of one person", TotalMS: w.clock.Now().Sub(leapsBegin).Milliseconds()}
	out.once(texts, stored)
	w.civil(&out, texts)
	out.nudges(queued.Outreach, w.person.zone())
	out.goodbyes(queued.Outreach, moved)
	out.explained(moved)
	open := slices.ContainsFunc(queued.Outreach, func(o outreach) bool { return o.Status == "pending" || o.Status == "processing" })
	out.promise("nothing is left open", !open, fmt.Sprintf("%d outreach, each at its end", len(queued.Outreach)))
	return out, nil
}

// once reports the texts, and holds that every message that the carrier took is one of our messages, and none was taken twice.
func (r *report) once(texts []twilio.Message, stored []operator.Message) {
	known := map[string]bool{}
	for _, m := range stored {
		if m.Direction == "outbound" && m.TwilioSID != "" {
			known[m.TwilioSID] = true
		}
	}
	for _, text := range texts {
		r.Messages = append(r.Messages, heard{
			Step: stepOf(text, stored), Body: text.Body, Copies: 1, AtMS: text.CreatedAt.Sub(leapsBegin).Milliseconds(),
		})
		if !known[text.SID] {
			r.Duplicates++
		}
	}
	r.promise("each text exactly once", r.Duplicates == 0 && len(texts) == len(known),
		fmt.Sprintf("%d texts, %d duplicates", len(texts), r.Duplicates))
}

// When people may be written to without having asked, by their own clock.
const (
	morning = 8
	evening = 21
)

func (w *weeks) civil(r *report, texts []twilio.Message) {
	at := 0
	for _, text := range texts {
		if hour := text.CreatedAt.In(w.person.zone()).Hour(); hour < morning || hour >= evening {
			at++
		}
	}
	r.promise("only between 08:00 and 21:00", at == 0, fmt.Sprintf("%d texts at other hours, by the clock of %s", at, w.person.timeZone))
}

// isNudge reports whether a type of outreach is one that the person does not wait for.
func isNudge(kind string) bool {
	return slices.Contains([]string{"goodbye", "reminder", "weekly_review"}, kind)
}

func (r *report) nudges(queued []outreach, zone *time.Location) {
	days := map[string]int{}
	most := 0
	var kinds []string
	for _, o := range queued {
		if o.Outcome == "sent" && isNudge(o.Type) {
			day := o.SentAt.In(zone).Format(time.DateOnly)
			days[day]++
			most = max(most, days[day])
			kinds = append(kinds, o.Type)
		}
	}
	slices.Reverse(kinds)
	r.promise("at most one nudge a day", most <= 1, strings.Join(kinds, ", "))
}

// goodbyes holds that each absence had one goodbye at the most.
func (r *report) goodbyes(queued []outreach, moved []transition) {
	absences, sent := 0, 0
	for _, m := range moved {
		if m.Trigger == "inactivity_14d" {
			absences++
		}
	}
	for _, o := range queued {
		if o.Type == "goodbye" && o.Outcome == "sent" {
			sent++
		}
	}
	r.promise("one goodbye for an absence", sent == absences, fmt.Sprintf("%d absences, %d goodbyes", absences, sent))
}

// explained holds that each state follows from the one before it.
func (r *report) explained(moved []transition) {
	state, chained := "", true
	for _, m := range moved {
		chained = chained && m.From == state
		state = m.To
	}
	r.promise("every state is explained", chained, fmt.Sprintf("%d transitions, now %s", len(moved), state))
}
