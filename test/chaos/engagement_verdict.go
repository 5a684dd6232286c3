package chaos

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"paceline.internal/platform/hours"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/onboarding/engagement/rules"
)

// judgeTrail replays a person's audit by the rules, and compares each row with what is said to have caused it.
func (e *evidence) judgeTrail(f *follower, v *Verdict) {
	limits := rules.DefaultConfig().Limits
	state, newest := rules.State(""), trace{}
	for _, t := range f.trail {
		why := ""
		next, err := rules.Next(state, rules.Trigger(t.trigger))
		switch {
		case state == "" && t.trigger == string(rules.UserMessage):
			next, err = rules.Active, nil
		case t.meta.Supersedes != "":
			next, err = rules.Next(rules.GoodbyeSent, rules.Trigger(t.trigger))
			if string(t.meta.Supersedes) != newest.trigger {
				why = fmt.Sprintf("it supersedes a %s, and the newest is a %q", t.meta.Supersedes, newest.trigger)
			}
		}
		switch {
		case why != "":
		case t.from != state:
			why = fmt.Sprintf("it comes from %q, where the person was not", t.from)
		case err != nil || next != t.to:
			why = fmt.Sprintf("the rules lead to %q (%v)", next, err)
		default:
			why = e.contradicts(f, t, newest, limits)
		}
		if why != "" {
			v.breakf(&v.Unexplained, "profile %s: transition %s, %q by %s to %q at %s: %s", f.profile, t.id, t.from, t.trigger, t.to,
				t.at.Format(time.RFC3339), why)
		}
		state, newest = t.to, t
	}
	if f.state != state || f.newest != newest.id {
		v.breakf(&v.Unexplained, "profile %s is %q by transition %q, and by its audit %q by %q", f.profile, f.state, f.newest, state, newest.id)
	}
}

// contradicts returns what speaks against a transition: its time, or that nothing of the kind caused it.
func (e *evidence) contradicts(f *follower, t, newest trace, limits rules.Limits) string {
	kind, id, _ := strings.Cut(t.cause, ":")
	switch {
	case kind == "message" && (e.words[id].id == "" || e.words[id].phone != f.phone):
		return "the person wrote no message " + id
	case kind == "run" && !e.runs[id]:
		return "there was no run " + id
	case rules.Trigger(t.trigger).FromPerson() == (kind == "run"):
		return "it is caused by " + t.cause
	}
	choice := rules.NoChoice
	if kind == "message" {
		choice = rules.ParseChoice(e.words[id].body)
	}
	switch rules.Trigger(t.trigger) {
	case rules.GoodbyeResponse1, rules.GoodbyeResponse2, rules.GoodbyeResponse3:
		if t.trigger != fmt.Sprint("goodbye_response_", int(choice)) {
			return fmt.Sprintf("the message chooses %d", choice)
		}
	case rules.GoodbyeTimeout:
		if e := t.meta.GoodbyeExpiresAt; e != nil && t.at.Before(*e) {
			return "the goodbye expires at " + e.Format(time.RFC3339)
		}
	case rules.ReminderDue:
		if t.at.Before(newest.at.Add(limits.RemindLater)) {
			return "the reminder was promised at " + newest.at.Format(time.RFC3339)
		}
	case rules.UserMessage, rules.Inactivity14d:
	}
	return ""
}

// judgeGoodbyes compares the goodbyes of a person with what the person did.
func (e *evidence) judgeGoodbyes(f *follower, v *Verdict) {
	limits := rules.DefaultConfig().Limits
	decided := map[string]time.Time{} // nominal instants by transition
	for _, t := range f.trail {
		if t.trigger != string(rules.Inactivity14d) {
			continue
		}
		decided[t.id] = t.at
		if d, was := f.did(t.at.Add(-limits.Inactivity), t.at); was {
			v.breakf(&v.WhileActive, "profile %s: a goodbye was decided for %s, and the person was active at %s", f.profile,
				t.at.Format(time.RFC3339), d.to.Format(time.RFC3339))
		}
	}
	last, to := map[string]time.Time{}, map[string]int{}
	for _, t := range f.touches {
		if t.Type != rules.Goodbye {
			continue
		}
		if to[t.transition+t.to]++; to[t.transition+t.to] > 1 || t.transition == "" {
			v.breakf(&v.SecondGoodbyes, "profile %s: %s is one of %d goodbyes of transition %q", f.profile, t.key,
				to[t.transition+t.to], t.transition)
		}
		at := t.taken()
		if at.IsZero() {
			continue
		}
		if before := last[t.to]; !before.IsZero() {
			if _, returned := f.touched(before, at); !returned {
				v.breakf(&v.SecondGoodbyes, "profile %s: goodbyes at %s and %s, and the person did nothing in between", f.profile,
					before.Format(time.RFC3339), at.Format(time.RFC3339))
			}
		}
		last[t.to] = at
		if d, was := f.did(decided[t.transition], t.claimed); was && d.to.Before(t.claimed) {
			v.breakf(&v.WhileActive, "profile %s: %s was claimed at %s, and the person was active at %s", f.profile, t.key,
				t.claimed.Format(time.RFC3339Nano), d.to.Format(time.RFC3339Nano))
		}
	}
}

// did is something that the person did for certain after an instant, and not after another.
func (f *follower) did(after, until time.Time) (done, bool) {
	return f.find(func(d done) bool { return d.from.After(after) && !d.to.After(until) })
}

// touched is something that the person did, or may have done, between two instants.
func (f *follower) touched(after, until time.Time) (done, bool) {
	return f.find(func(d done) bool { return !d.to.Before(after) && !d.from.After(until) })
}

func (f *follower) find(is func(d done) bool) (found done, ok bool) {
	if f.person == nil {
		return found, false
	}
	f.person.mu.Lock()
	defer f.person.mu.Unlock()
	for _, d := range f.person.dones {
		if d.active() && is(d) {
			return d, true
		}
	}
	return found, false
}

// judgeChoices looks for messages that chose what their goodbye offered, and moved nothing: the first thing that the person did since
// Twilio took it, while it was open.
func (e *evidence) judgeChoices(f *follower, v *Verdict) {
	if f.person == nil || f.person.hold > 0 {
		return // a message of a person on hold is judged on release, and an operator may leave it
	}
	limits := rules.DefaultConfig().Limits
	for _, t := range f.touches {
		at := t.taken()
		if t.Type != rules.Goodbye || t.copied || at.IsZero() || t.outcome != "sent" {
			continue
		}
		i := slices.IndexFunc(e.said[f.phone], func(w word) bool { return w.at.After(at) })
		if i < 0 {
			continue
		}
		w := e.said[f.phone][i]
		choice := rules.ParseChoice(w.body)
		d, acted := f.touched(at.Add(-time.Hour), w.at)
		if choice == rules.NoChoice || !w.at.Before(at.Add(limits.GoodbyeTimeout)) || acted && d.to.Before(w.at) {
			continue
		}
		if !slices.ContainsFunc(f.trail, func(t trace) bool {
			return t.cause == "message:"+w.id && t.trigger == fmt.Sprint("goodbye_response_", int(choice))
		}) {
			v.breakf(&v.ChoicesLost, "profile %s: message %s chose %d at %s, %s after the goodbye, and moved nothing", f.profile, w.id, choice,
				w.at.Format(time.RFC3339), w.at.Sub(at))
		}
	}
}

// judgeTouches checks what the person was sent: when, how much, with which consent, and that it agrees with the tables.
func (e *evidence) judgeTouches(f *follower, v *Verdict) {
	var nudges []time.Time
	touches := slices.Clone(f.touches)
	slices.SortStableFunc(touches, func(a, b touch) int { return a.taken().Compare(b.taken()) })
	for _, t := range touches {
		at := t.taken()
		if t.status == "pending" || t.status == "processing" {
			v.breakf(&v.LeftOpen, "profile %s: %s is still %s", f.profile, t.key, t.status)
		}
		took := 0
		if t.sent != nil {
			took = len(t.sent.taken)
		}
		if (t.outcome == "sent") != (took == 1) || t.outcome == "sent" && t.message != t.sent.id {
			v.breakf(&v.NotOnce, "profile %s: %s is %s %q, and Twilio took it %d times", f.profile, t.key, t.status, t.outcome, took)
		}
		if took == 0 {
			continue
		}
		if zone := e.zones[t.to]; zone != nil {
			if quiet := (hours.Quiet{Window: hours.DefaultWindow(), Zone: zone}); !quiet.Next(at).Equal(at) {
				v.breakf(&v.AtNight, "profile %s: %s was taken at %s of the recipient's clock", f.profile, t.key,
					at.In(zone).Format(time.RFC3339))
			}
		}
		if t.Type.Nudges() && e.wasOff(t.to, t.claimed) {
			v.breakf(&v.AfterOff, "profile %s: %s was claimed at %s, when reminders were off", f.profile, t.key, t.claimed.Format(time.RFC3339Nano))
		}
		if t.copied {
			continue
		}
		if t.Capped(at, nudges) != "" {
			v.breakf(&v.OverCap, "profile %s: %s was taken at %s, after %v", f.profile, t.key, at.In(f.zone).Format(time.RFC3339), nudges)
		}
		if t.Type.Nudges() {
			nudges = append(nudges, at)
		}
	}
}

// wasOff reports whether a person's reminders were off for certain at an instant: by the messages that messaging had stored, and by what
// was set on a page.
func (e *evidence) wasOff(phone string, at time.Time) bool {
	off, since := false, time.Time{}
	for _, w := range e.said[phone] {
		if to := consent.PreferencesOf(w.body).Reminders; to != consent.Unsaid && w.at.Before(at) {
			off, since = to == consent.Off, w.at
		}
	}
	for _, f := range e.followers {
		if f.phone != phone || f.person == nil {
			continue
		}
		f.person.mu.Lock()
		for _, d := range f.person.dones {
			switch to := wishOn(d.page["reminders"]); {
			case to == consent.Off && d.to.Before(at) && d.from.After(since), to == consent.On && d.from.Before(at) && !d.to.Before(since):
				off, since = to == consent.Off, d.to
			}
		}
		f.person.mu.Unlock()
	}
	return off
}

// overdue bounds the time after its due time for which a goodbye may still be open: until the next daily run.
const overdue = day + time.Hour

// judgeStanding looks at where the person is left, and whether what they said last about reminders holds.
func (e *evidence) judgeStanding(f *follower, v *Verdict) {
	if f.state == rules.GoodbyeSent {
		expires := f.sentAt.Add(7*day + rules.DefaultConfig().GoodbyeTimeout) // it was never accepted
		if f.expires != nil {
			expires = *f.expires
		}
		if e.until.Sub(expires) > overdue {
			v.breakf(&v.LeftOpen, "profile %s is in goodbye_sent since %s", f.profile, f.sentAt.Format(time.RFC3339))
		}
	}
	if f.person == nil {
		return
	}
	f.person.mu.Lock()
	defer f.person.mu.Unlock()
	wants, off := f.person.wantsReminders, f.person.wantsReminders == consent.Off
	if wants != consent.Unsaid && (f.remindersOff != off || e.off[f.phone] != off) {
		v.breakf(&v.WishesUndone, "profile %s wants reminders %s; off is %t here and %t in messaging", f.profile, wants, f.remindersOff,
			e.off[f.phone])
	}
}
