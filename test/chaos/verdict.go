package chaos

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"paceline.internal/emulators/twilio"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/onboarding/session"
)

// Verdict counts the breaches of the promises. Each one is a line in Broken that names the session or the message.
type Verdict struct {
	Sessions int `json:"sessions"`
	Texts    int `json:"texts"` // that Twilio took

	Duplicates  int `json:"duplicates"`          // texts that Twilio took a second time
	Losses      int `json:"losses"`              // texts that a session went past although Twilio never took them
	OutOfOrder  int `json:"out_of_order"`        // texts that Twilio took before one that comes earlier
	TooEarly    int `json:"too_early"`           // texts that followed the one before sooner than the flow says
	AfterStop   int `json:"accepted_after_stop"` // texts asked of Twilio after the STOP was acknowledged, but for one that confirms it
	Stranded    int `json:"stranded"`            // sessions that wait for something that will never happen
	Silent      int `json:"parked_without_reason"`
	Unsettled   int `json:"unsettled"`    // sends with an outcome that is in doubt for ever, with no operator told
	OrphanRows  int `json:"orphan_rows"`  // jobs and alarms that were left behind
	OrphanTexts int `json:"orphan_texts"` // texts at Twilio that none of our rows knows

	Unfinished    int `json:"unfinished"`     // people who still waited when the time was over
	ConsentErrors int `json:"consent_errors"` // people for whom the last acknowledged STOP or START does not hold in the end

	Ended  map[string]int `json:"ended"`  // sessions by how they ended
	Parked map[string]int `json:"parked"` // parked ones by reason
	Broken []string       `json:"broken,omitempty"`

	Engaged
	*Intake // nil outside a soak

	gaps          []time.Duration     // by how much each step came later than the flow says
	ends          map[string][]string // how the sessions of each profile ended
	confirmations map[string]bool     // the rows that confirm an opt-out
}

// Kept reports whether every promise was kept.
func (v *Verdict) Kept() bool { return len(v.Broken) == 0 }

// breakf names a broken promise and counts it, unless it has no counter.
func (v *Verdict) breakf(count *int, format string, args ...any) {
	if count != nil {
		*count++
	}
	if count == nil || *count <= maxNamed {
		v.Broken = append(v.Broken, fmt.Sprintf(format, args...))
	}
}

// maxNamed bounds the number of breaches of one promise that are named; they are all counted.
const maxNamed = 20

// counters are the breaches, which add up.
func (v *Verdict) counters() []*int {
	return append([]*int{
		&v.Duplicates, &v.Losses, &v.OutOfOrder, &v.TooEarly, &v.AfterStop, &v.ConsentErrors, &v.Stranded, &v.Unfinished, &v.Silent, &v.Unsettled,
		&v.OrphanRows, &v.OrphanTexts,
	}, v.Engaged.counters()...)
}

// Add sums verdicts up.
func (v *Verdict) Add(o Verdict) {
	v.Sessions += o.Sessions
	v.Texts += o.Texts
	theirs := o.counters()
	for i, n := range v.counters() {
		*n += *theirs[i]
	}
	v.Ended, v.Parked = sum(v.Ended, o.Ended), sum(v.Parked, o.Parked)
	v.Engaged.add(o.Engaged)
	v.gaps = append(v.gaps, o.gaps...)
	v.Broken = append(v.Broken, o.Broken...)
}

func sum(a, b map[string]int) map[string]int {
	if a == nil {
		a = map[string]int{}
	}
	for key, n := range b {
		a[key] += n
	}
	return a
}

// episode is a session with what was said in it.
type episode struct {
	ID, ProfileID, Phone        string
	Mode, Token, Status, Reason string
	NextStep                    string
	Paused, Hold                bool
	texts                       map[string]text // by the last part of the idempotency key
}

// text is one of our rows with what Twilio has of it.
type text struct {
	id, status string
	taken      []taken
}

type taken struct {
	order int // among everything that Twilio took
	at    time.Time
	sid   string
}

// examine reads both databases when nothing moves any more, and compares them with what the recorder saw and what the people know. It does
// not ask how the run was made.
func (c *population) examine(ctx context.Context) (Verdict, error) {
	v := Verdict{
		Ended: map[string]int{}, Parked: map[string]int{}, Broken: slices.Clone(c.problems),
		ends: map[string][]string{}, confirmations: map[string]bool{},
	}
	texts := c.recorder.texts()
	v.Texts = len(texts)
	episodes, err := readEpisodes(ctx, c.onboardingDB)
	if err != nil {
		return v, err
	}
	if err := attach(ctx, c.messagingDB, episodes, texts, &v); err != nil {
		return v, err
	}
	for _, s := range episodes {
		v.Sessions++
		s.judgeTexts(c.flow, c.byHand[s.ID], &v)
		s.judgeEnd(&v)
	}
	for _, t := range c.recorder.afterStop(func(m twilio.Message) bool { return v.confirmations[rowOf(m)] }) {
		v.breakf(&v.AfterStop, "a text was asked of Twilio at %s after the person's STOP was acknowledged (%q)",
			t.at.Format(time.RFC3339Nano), t.text.SID)
	}
	if err := c.examineRows(ctx, &v); err != nil {
		return v, err
	}
	if c.kapso != nil {
		if err := c.kapso.examine(ctx, &v); err != nil {
			return v, err
		}
	}
	if err := c.examineEngagement(ctx, &v); err != nil {
		return v, err
	}
	return v, c.examinePeople(ctx, episodes, &v)
}

// each reads the rows of a statement, one after the other, into dest.
func each(ctx context.Context, db *pgxpool.Pool, sql string, dest []any, do func()) error {
	rows, err := db.Query(ctx, sql)
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, dest, func() error { do(); return nil })
	return err
}

const sqlEpisodes = `
select s.id::text, s.profile_id::text, p.phone, s.mode, s.state_token, s.status, s.status_reason, coalesce(s.next_step_id, ''),
       s.paused_at is not null, p.hold
from conversation_sessions s join profiles p on p.id = s.profile_id order by s.id`

func readEpisodes(ctx context.Context, db *pgxpool.Pool) ([]*episode, error) {
	rows, err := db.Query(ctx, sqlEpisodes)
	if err != nil {
		return nil, fmt.Errorf("read sessions: %w", err)
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (*episode, error) {
		s := &episode{texts: map[string]text{}}
		return s, r.Scan(&s.ID, &s.ProfileID, &s.Phone, &s.Mode, &s.Token, &s.Status, &s.Reason, &s.NextStep, &s.Paused, &s.Hold)
	})
}

const sqlOutbound = `
select id::text, idempotency_key, status, coalesce(twilio_sid, '') from sms_messages where direction = 'outbound' order by id`

// attach brings every row of messaging to its session, together with the texts at Twilio that were sent for it: a text
// names its row in the URL of its receipts, so even one with a lost answer is found. One that was read back has a new row with its SID.
func attach(ctx context.Context, db *pgxpool.Pool, episodes []*episode, texts []twilio.Message, v *Verdict) error {
	at, known, rows := map[string][]taken{}, map[string]bool{}, map[string]string{}
	for i, m := range texts {
		id := rowOf(m)
		rows[m.SID] = id
		at[id] = append(at[id], taken{order: i, at: m.CreatedAt, sid: m.SID})
	}
	byID := map[string]*episode{}
	for _, s := range episodes {
		byID[s.ID] = s
	}
	var id, key, status, sid string
	if err := each(ctx, db, sqlOutbound, []any{&id, &key, &status, &sid}, func() {
		t := text{id: id, status: status, taken: at[id]}
		if first := rows[sid]; first != "" && first != id {
			t.taken = slices.Concat(at[first], at[id])
		}
		known[sid] = true
		if strings.HasPrefix(key, send.StopKeys) {
			v.confirmations[id], v.confirmations[rows[sid]] = true, true
		}
		if len(t.taken) > 1 {
			v.breakf(&v.Duplicates, "Twilio took message %s (%s) %d times", id, key, len(t.taken))
			v.Duplicates += len(t.taken) - 2
		}
		if status == "sending" || status == "unknown" {
			v.breakf(&v.Unsettled, "message %s (%s) is still %s", id, key, status)
		}
		if parts := strings.SplitN(key, ":", 4); len(parts) == 4 && parts[0] == "onboarding" && byID[parts[2]] != nil {
			byID[parts[2]].texts[parts[3]] = t
		}
	}); err != nil {
		return fmt.Errorf("read messages: %w", err)
	}
	for _, m := range texts {
		if !known[m.SID] {
			v.breakf(&v.OrphanTexts, "Twilio has %s, and no row of ours knows it (message %s)", m.SID, rowOf(m))
		}
	}
	return nil
}

// rowOf is the id of the row that a text was sent for.
func rowOf(m twilio.Message) string {
	callback, err := url.Parse(m.StatusCallback)
	if err != nil {
		return ""
	}
	return callback.Query().Get("message_id")
}

// judgeTexts checks that every step before the one that is due was taken once, in order, and not too early.
func (s *episode) judgeTexts(flow session.Flow, byHand []session.StepID, v *Verdict) {
	last := -1
	for _, name := range slices.Sorted(maps.Keys(s.texts)) { // what is said before the burst
		if isStep(flow, name) {
			continue
		}
		for _, t := range s.texts[name].taken {
			if strings.HasPrefix(name, opening) || strings.HasPrefix(name, explanation) {
				last = max(last, t.order)
			}
		}
	}
	var before time.Time
	for _, step := range flow.Steps() {
		found := s.texts[string(step.ID)].taken
		if len(found) == 0 {
			if s.isPast(flow, step.ID) {
				v.breakf(&v.Losses, "session %s went past %s, which Twilio never took", s.ID, step.ID)
			}
			before = time.Time{}
			continue
		}
		if found[0].order < last {
			v.breakf(&v.OutOfOrder, "session %s: %s was taken before a text that comes earlier", s.ID, step.ID)
		}
		last = found[0].order
		if !before.IsZero() && !slices.Contains(byHand, step.ID) {
			over := found[0].at.Sub(before) - step.Delay
			v.gaps = append(v.gaps, over)
			if over < 0 {
				v.breakf(&v.TooEarly, "session %s: %s came %s too early", s.ID, step.ID, -over)
			}
		}
		before = found[0].at
	}
}

// What is said before the burst, by the beginning of the last part of its idempotency key.
const (
	opening     = "opening"
	explanation = "explanation"
)

func isStep(flow session.Flow, name string) bool {
	_, ok := flow.Step(session.StepID(name))
	return ok
}

// isPast reports whether the session says that a step has been sent.
func (s *episode) isPast(flow session.Flow, step session.StepID) bool {
	switch session.Token(s.Token) {
	case session.AwaitingOpeningResponse, session.AwaitingExplanationResponse:
	case session.AwaitingInterviewStart, session.InterviewActivity01:
		return true
	case session.AwaitingBurst:
		for _, other := range flow.Steps() {
			if string(other.ID) == s.NextStep {
				return false
			}
			if other.ID == step {
				return true
			}
		}
	}
	return false
}

// judgeEnd counts the end of a session: by itself, by a person's or operator's word, or visibly parked.
func (s *episode) judgeEnd(v *Verdict) {
	end := s.end()
	v.Ended[end]++
	v.ends[s.ProfileID] = append(v.ends[s.ProfileID], end)
	switch {
	case end == waitsForPerson && !s.asked():
		v.breakf(&v.Losses, "session %s waits at %s for an answer to a text that Twilio never took", s.ID, s.Token)
	case end == stranded:
		v.breakf(&v.Stranded, "session %s waits for %s, and nothing will come", s.ID, s.NextStep)
	case end == string(session.Stuck), end == string(session.Undeliverable):
		v.Parked[firstWords(s.Reason)]++
		if s.Reason == "" {
			v.breakf(&v.Silent, "session %s is parked as %s without a reason", s.ID, s.Status)
		}
	}
}

const (
	stranded       = "stranded" // must never be
	waitsForPerson = "waits for the person"
)

func (s *episode) end() string {
	switch {
	case s.Status != string(session.Active):
		return s.Status
	case s.Mode == string(session.Interviewing):
		return "interviewing"
	case s.Hold:
		return "on hold"
	case s.Token == string(session.AwaitingBurst):
		return stranded
	case s.Paused:
		return "paused by the person"
	default:
		return waitsForPerson
	}
}

// asked reports whether Twilio took the text to which a session awaits an answer. That of a later token is a step, and is counted there.
func (s *episode) asked() bool {
	var text string
	switch session.Token(s.Token) {
	case session.AwaitingOpeningResponse:
		text = opening
	case session.AwaitingExplanationResponse:
		text = explanation
	default:
		return true
	}
	for name, t := range s.texts {
		if strings.HasPrefix(name, text) && len(t.taken) > 0 {
			return true
		}
	}
	return false
}

// firstWords groups reasons that differ only in their details.
func firstWords(reason string) string {
	if i := strings.IndexAny(reason, ";,:"); i > 0 {
		return reason[:i]
	}
	return reason
}
