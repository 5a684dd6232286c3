package chaos

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"paceline.internal/platform/hours"
	"paceline.internal/services/messaging/consent"
	"paceline.internal/services/onboarding/engagement/rules"
)

// Engaged counts the breaches of the promises of staying in touch, and the outreach, transitions and runs.
type Engaged struct {
	SecondGoodbyes int `json:"second_goodbyes"`    // in one episode
	WhileActive    int `json:"while_active"`       // goodbyes to people who were active within the limit, or wrote before the claim
	Unexplained    int `json:"unexplained"`        // transitions and states that the rules or the record of what people did do not explain
	ChoicesLost    int `json:"choices_lost"`       // choices that were open and moved nothing
	AfterOff       int `json:"after_off"`          // nudges with a Send that was claimed while reminders were off
	OverCap        int `json:"over_cap"`           // nudges beyond one a day and two in seven days
	AtNight        int `json:"at_night"`           // outreach outside of 08:00 to 21:00 of the person's clock
	RunsMissing    int `json:"runs_missing"`       // periods without a run, and runs that did not end
	LeftOpen       int `json:"left_open"`          // outreach that is still open, and people in goodbye_sent longer than its time
	NotOnce        int `json:"not_once"`           // outreach that is called sent and Twilio did not take once, or the other way round
	WishesUndone   int `json:"preferences_undone"` // people for whom the last acknowledged word about reminders does not hold in the end

	Outreach    map[string]int `json:"outreach,omitempty"`    // by type and outcome
	Transitions map[string]int `json:"transitions,omitempty"` // by trigger
	Runs        map[string]int `json:"runs,omitempty"`        // by job and status
	Standing    map[string]int `json:"standing,omitempty"`    // people by state in the end
}

// counters are the breaches, which add up.
func (e *Engaged) counters() []*int {
	return []*int{
		&e.SecondGoodbyes, &e.WhileActive, &e.Unexplained, &e.ChoicesLost, &e.AfterOff, &e.OverCap, &e.AtNight, &e.RunsMissing, &e.LeftOpen,
		&e.NotOnce, &e.WishesUndone,
	}
}

func (e *Engaged) add(o Engaged) {
	e.Outreach, e.Transitions = sum(e.Outreach, o.Outreach), sum(e.Transitions, o.Transitions)
	e.Runs, e.Standing = sum(e.Runs, o.Runs), sum(e.Standing, o.Standing)
}

// follower is one person as the tables have them, with what they know themselves.
type follower struct {
	profile, phone  string
	zone            *time.Location
	remindersOff    bool // as profiles has it
	state           rules.State
	newest          string // transition
	sentAt, expires *time.Time
	trail           []trace
	touches         []touch
	person          *person // nil where they are not among the cast
}

// trace is one audit row.
type trace struct {
	id, trigger, cause, supersedes string
	from, to                       rules.State
	at                             time.Time
	meta                           rules.Metadata
}

// touch is one row of outreach, with what messaging and Twilio have of it.
type touch struct {
	rules.Outreach

	key, to, transition, status, outcome, message string
	copied                                        bool // it goes to another member of the household
	sent                                          *text
	claimed                                       time.Time // when the attempt began that Twilio has, or the first one
}

// taken returns when Twilio took it; zero if it has not.
func (t touch) taken() (at time.Time) {
	if t.sent != nil && len(t.sent.taken) > 0 {
		at = t.sent.taken[0].at
	}
	return at
}

// word is one message of a person, as messaging has it.
type word struct {
	id, phone, body string
	at              time.Time
}

// evidence is everything that the examination of engagement reads.
type evidence struct {
	followers map[string]*follower      // by profile
	zones     map[string]*time.Location // by phone
	words     map[string]word           // by id
	said      map[string][]word         // by phone, oldest first
	runs      map[string]bool           // ids
	off       map[string]bool           // phones with reminders off in messaging
	until     time.Time
}

// examineEngagement compares where each person stands, what they were sent and what runs say with what people did and what Twilio took.
func (c *population) examineEngagement(ctx context.Context, v *Verdict) error {
	e := evidence{
		followers: map[string]*follower{}, zones: map[string]*time.Location{}, words: map[string]word{}, said: map[string][]word{},
		runs: map[string]bool{}, off: map[string]bool{}, until: c.clock.Now(),
	}
	v.Outreach, v.Transitions, v.Runs, v.Standing = map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}
	for _, read := range []func(context.Context, *population, *Verdict) error{
		e.readFollowers, e.readTrails, e.readWords, e.readTouches, e.readRuns,
	} {
		if err := read(ctx, c, v); err != nil {
			return fmt.Errorf("read engagement: %w", err)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(e.followers)) {
		f := e.followers[key]
		e.judgeTrail(f, v)
		e.judgeGoodbyes(f, v)
		e.judgeChoices(f, v)
		e.judgeTouches(f, v)
		e.judgeStanding(f, v)
	}
	return nil
}

const sqlFollowers = `
select p.id::text, p.phone, p.time_zone, p.reengagement_opt_out, coalesce(u.state, ''), coalesce(u.transition_id::text, ''),
       u.goodbye_sent_at, u.goodbye_expires_at
from profiles p left join user_engagement_states u on u.profile_id = p.id`

func (e *evidence) readFollowers(ctx context.Context, c *population, v *Verdict) error {
	var f follower
	var zone string
	return each(ctx, c.onboardingDB, sqlFollowers, []any{
		&f.profile, &f.phone, &zone, &f.remindersOff, &f.state, &f.newest, &f.sentAt, &f.expires,
	}, func() {
		one := f
		one.zone, _ = time.LoadLocation(zone)
		one.person = c.byPhone[f.phone]
		e.zones[one.phone] = one.zone
		e.followers[one.profile] = &one
		if one.state != "" {
			v.Standing[string(one.state)]++
		}
	})
}

const sqlTrails = `
select id::text, profile_id::text, coalesce(from_state, ''), to_state, trigger, cause, coalesce(supersedes::text, ''), metadata, created_at
from engagement_state_transitions order by id`

func (e *evidence) readTrails(ctx context.Context, c *population, v *Verdict) error {
	var t trace
	var profile string
	var metadata []byte
	return each(ctx, c.onboardingDB, sqlTrails, []any{
		&t.id, &profile, &t.from, &t.to, &t.trigger, &t.cause, &t.supersedes, &metadata, &t.at,
	}, func() {
		one := t
		if err := json.Unmarshal(metadata, &one.meta); err != nil {
			v.breakf(&v.Unexplained, "transition %s: %v", t.id, err)
		}
		v.Transitions[t.trigger]++
		e.followers[profile].trail = append(e.followers[profile].trail, one)
	})
}

const (
	sqlWords = `
select id::text, from_number, body, created_at from sms_messages where direction = 'inbound' order by created_at, id`
	sqlRemindersOff = `select phone from reminder_preferences where off`
)

func (e *evidence) readWords(ctx context.Context, c *population, _ *Verdict) error {
	var w word
	if err := each(ctx, c.messagingDB, sqlWords, []any{&w.id, &w.phone, &w.body, &w.at}, func() {
		e.words[w.id] = w
		e.said[w.phone] = append(e.said[w.phone], w)
	}); err != nil {
		return err
	}
	var phone string
	return each(ctx, c.messagingDB, sqlRemindersOff, []any{&phone}, func() { e.off[phone] = true })
}

const (
	sqlTouches = `
select profile_id::text, member_id is not null, event_type, idempotency_key, coalesce(recipient, subject),
       coalesce(transition_id::text, ''), status, outcome, coalesce(message_id::text, ''), created_at
from engagement_outreach order by id`
	sqlSends = `
select id::text, idempotency_key, status, coalesce(asked_at, created_at) from sms_messages where direction = 'outbound'`
)

func (e *evidence) readTouches(ctx context.Context, c *population, v *Verdict) error {
	sends := map[string]*touch{}
	for _, m := range c.recorder.texts() {
		t := sends[rowOf(m)]
		if t == nil {
			t = &touch{sent: &text{id: rowOf(m)}}
			sends[rowOf(m)] = t
		}
		t.sent.taken = append(t.sent.taken, taken{at: m.CreatedAt, sid: m.SID})
	}
	byKey := map[string]*touch{}
	var id, key, status string
	var claimed time.Time
	if err := each(ctx, c.messagingDB, sqlSends, []any{&id, &key, &status, &claimed}, func() {
		t := &touch{sent: &text{id: id, status: status}, claimed: claimed}
		if seen := sends[id]; seen != nil {
			t.sent.taken = seen.sent.taken
		}
		byKey[key] = t
	}); err != nil {
		return err
	}
	var t touch
	var profile, kind string
	return each(ctx, c.onboardingDB, sqlTouches, []any{
		&profile, &t.copied, &kind, &t.key, &t.to, &t.transition, &t.status, &t.outcome, &t.message, &t.At,
	}, func() {
		one := t
		one.Type = rules.MessageType(kind)
		if sent := byKey[one.key]; sent != nil {
			one.sent, one.claimed = sent.sent, sent.claimed
		}
		f := e.followers[profile]
		one.Zone = f.zone
		f.touches = append(f.touches, one)
		v.Outreach[kind+" "+cmp.Or(t.outcome, t.status)]++
	})
}

const sqlRuns = `select id::text, job, period, status from engagement_runs order by job, period`

// readRuns also judges them: from the first run of a job on, each period has one, which has ended.
func (e *evidence) readRuns(ctx context.Context, c *population, v *Verdict) error {
	periods := map[rules.Job][]string{}
	var id, period, status string
	var job rules.Job
	if err := each(ctx, c.onboardingDB, sqlRuns, []any{&id, &job, &period, &status}, func() {
		e.runs[id] = true
		v.Runs[string(job)+" "+status]++
		periods[job] = append(periods[job], period)
		if status == "running" {
			v.breakf(&v.RunsMissing, "the %s run of %s has not ended", job, period)
		}
	}); err != nil {
		return err
	}
	calendar := rules.DefaultConfig().Calendar
	for _, job := range rules.Jobs() {
		recorded := periods[job]
		if len(recorded) == 0 {
			if e.until.Sub(c.began) > 8*day {
				v.breakf(&v.RunsMissing, "there is no %s run at all", job)
			}
			continue
		}
		for at := e.until; ; at = at.Add(-day) { // from the newest back to the first that there is
			due := calendar.Newest(job, at).Name
			if due < recorded[0] {
				break
			}
			if e.until.Sub(calendar.Newest(job, at).Nominal) > time.Minute && !slices.Contains(recorded, due) {
				v.breakf(&v.RunsMissing, "there is no %s run of %s", job, due)
				recorded = append(recorded, due)
			}
		}
	}
	return nil
}

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
