package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"paceline.internal/deploy/operator"
	"paceline.internal/emulators/twilio"
)

// atItsTime bounds the lateness of a goal while its device is there.
const atItsTime = 2 * time.Second

// errand is the expected course of a goal: when it is due by the person's clock, and how late it begins, if it does, after so many tries in
// vain.
type errand struct {
	said, due string
	ends      string
	tries     int
	late      time.Duration
}

func (e *errands) all() []errand {
	return []errand{
		{said: e.words.door, due: "10:40", ends: "completed"},
		{said: e.words.washing, due: "11:00", ends: "cancelled"},
		{said: e.words.plants, due: "14:00", ends: "completed", tries: 2, late: 30 * time.Second}, // tried after 10 s, and after 20 s more
		{said: e.words.call, due: "15:00", ends: "completed"},
	}
}

// judge compares what the device did and the phone got with what was asked for.
func (e *errands) judge(ctx context.Context) (report, error) {
	stored, err := e.api.Messages(ctx, e.profileID)
	if err != nil {
		return report{}, err
	}
	all, err := e.goals(ctx)
	if err != nil {
		return report{}, err
	}
	texts := e.heard(e.person.phone)
	e.mu.Lock()
	out := report{Title: "Goals of one person", TotalMS: e.clock.Now().Sub(leapsBegin).Milliseconds(), Runs: slices.Clone(e.runs)}
	e.mu.Unlock()
	out.once(texts, stored)
	begun := out.begun(texts, stored)
	out.ranOnce(all, begun)
	out.inTime(e.all(), all, begun, e.person.zone())
	for _, x := range e.all() {
		g := saidIn(all, x.said)
		if x.ends == "cancelled" {
			out.promise("what is cancelled never runs", g.Status == x.ends && len(begun[g.ID]) == 0,
				fmt.Sprintf("%s: %s, runs: %d", g.Goal, g.Status, len(begun[g.ID])))
		}
		if x.tries > 0 {
			out.promise("being offline costs tries alone", g.Status == x.ends && g.OfflineTries == x.tries && len(begun[g.ID]) == 1,
				fmt.Sprintf("%s: %d tries in vain, runs: %d", g.Goal, g.OfflineTries, len(begun[g.ID])))
		}
	}
	out.askedBack(e.words.unclear, all)
	return out, nil
}

// saidIn is the goal that was asked for with these words, of which one by text is stored without "remind me"; the zero value when there is
// none.
func saidIn(all []asked, said string) asked {
	if i := slices.IndexFunc(all, func(g asked) bool { return strings.HasSuffix(said, g.Said) }); i >= 0 {
		return all[i]
	}
	return asked{}
}

// begun returns the time when each goal began, as the device noted it, or the carrier took its text.
func (r *report) begun(texts []twilio.Message, stored []operator.Message) map[string][]time.Time {
	begun := map[string][]time.Time{}
	for _, run := range r.Runs {
		begun[run.GoalID] = append(begun[run.GoalID], run.At)
	}
	for _, text := range texts {
		for _, m := range stored {
			if id, ok := strings.CutPrefix(m.IdempotencyKey, "goal:"); ok && m.TwilioSID == text.SID {
				begun[id] = append(begun[id], text.CreatedAt)
			}
		}
	}
	return begun
}

// ranOnce holds that each goal has ended, and ran once if it completed, or else not at all and says why.
func (r *report) ranOnce(all []asked, begun map[string][]time.Time) {
	kept, runs := true, 0
	var others []string
	for _, g := range all {
		runs += len(begun[g.ID])
		switch g.Status {
		case "completed":
			kept = kept && len(begun[g.ID]) == 1
		case "cancelled":
			kept = kept && len(begun[g.ID]) == 0
			others = append(others, "1 cancelled")
		case "failed":
			kept = kept && g.Reason != "" && len(begun[g.ID]) <= 1
			others = append(others, "1 failed as "+g.Reason)
		default:
			kept = false
			others = append(others, "1 still "+g.Status)
		}
	}
	for id := range begun {
		kept = kept && slices.ContainsFunc(all, func(g asked) bool { return g.ID == id })
	}
	saw := append([]string{fmt.Sprintf("%d goals, %d runs", len(all), runs)}, others...)
	r.promise("each goal once, or says why", kept, strings.Join(saw, ", "))
}

// inTime holds that each goal was understood as it was said, and began then, or as soon as its device was there.
func (r *report) inTime(want []errand, all []asked, begun map[string][]time.Time, zone *time.Location) {
	kept := len(want) == len(all)
	var saw []string
	for _, x := range want {
		g, due := saidIn(all, x.said), wall(zone, 0, x.due)
		kept = kept && g.Status == x.ends && g.ScheduledFor.Equal(due)
		for _, at := range begun[g.ID] {
			late := at.Sub(due)
			kept = kept && late >= x.late && late <= x.late+atItsTime
			saw = append(saw, at.In(zone).Format(time.TimeOnly))
		}
	}
	r.promise("each at its time", kept, strings.Join(saw, ", "))
}

// askedBack holds that an unclear time makes no goal, and that the person is asked, once.
func (r *report) askedBack(said string, all []asked) {
	var saw []string
	for _, h := range r.Messages {
		if h.Step == "GOAL_UNCLEAR" {
			saw = append(saw, wrap(h.Body, textWidth)[0]+" ...")
		}
	}
	r.promise("an unclear time is asked back", saidIn(all, said).ID == "" && len(saw) == 1, strings.Join(saw, ", "))
}
