package chaos

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

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
