package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"paceline.internal/deploy/stack"
	"paceline.internal/platform/process"
	"paceline.internal/platform/qstash"
)

// Pacing measures how late texts go out while many bursts run at once: from when an alarm was due at QStash to when Twilio is asked.
// QStash is a stub that calls back when an alarm is due, and again as it is told. A run that loses, doubles or reorders a text fails and
// has no figures.
type Pacing struct {
	Bursts int
	Over   time.Duration // the bursts begin spread over this
	Twilio time.Duration // how long Twilio takes to answer

	Program []string
	Environ map[string]string
	Now     func() time.Time
	Tell    func(line string)
}

// PacingReport is the result of a run of Pacing. Latenesses are in milliseconds.
type PacingReport struct {
	Bursts   int     `json:"bursts"`
	OverMS   float64 `json:"over_ms"`
	TwilioMS float64 `json:"twilio_ms"`
	Texts    int     `json:"texts"`
	Rate     float64 `json:"rate"` // texts a second, from the first to the last
	P50MS    float64 `json:"p50_ms"`
	P99MS    float64 `json:"p99_ms"`
	MaxMS    float64 `json:"max_ms"`
	// RigP50MS and RigP99MS are how late the rig itself was to call back: its timers share the machine. They are part of the lateness.
	RigP50MS float64 `json:"rig_p50_ms"`
	RigP99MS float64 `json:"rig_p99_ms"`
	// Refused is how many callbacks were answered 429, and Again how many came again for another reason.
	Refused int `json:"refused"`
	Again   int `json:"again"`

	Use         StepUse `json:"use"`
	Postgres    string  `json:"postgres"`
	Durable     bool    `json:"durable"`
	CPUs        int     `json:"cpus"`
	LoadBefore  float64 `json:"load_before"`
	FsyncMicros float64 `json:"fsync_us"`
}

const (
	// stepsOfBurst is how many texts a burst has, and burstTakes how long it is.
	stepsOfBurst = 4
	burstTakes   = 16 * time.Second
	// pacingBound is how much longer than planned a run may take.
	pacingBound = 2 * time.Minute
	// warmBursts at least go before a measurement, all at once.
	warmBursts = 32
)

// Run measures.
func (p Pacing) Run(ctx context.Context) (_ PacingReport, err error) {
	if p.Bursts < 1 || p.Over < 0 || p.Twilio < 0 {
		return PacingReport{}, errors.New("--bursts must be 1 or more, --over and --twilio no less than 0")
	}
	server, err := openServer(ctx)
	defer func() { err = errors.Join(err, server.close()) }()
	if err != nil {
		return PacingReport{}, err
	}
	stubs, err := startStubs(ctx, p.Twilio)
	if err != nil {
		return PacingReport{}, err
	}
	defer func() { err = errors.Join(err, stubs.close()) }()
	s := Steps{Steps: p.Bursts + warmBursts, Callers: []int{1}, Program: p.Program, Environ: p.Environ, Now: p.Now, Tell: p.Tell}
	b := &build{name: "this", program: p.Program}
	for _, service := range databasesOf() {
		if err := s.makeTemplate(ctx, server, b, service, template(0, service)); err != nil {
			return PacingReport{}, err
		}
	}
	report := PacingReport{
		Bursts: p.Bursts, OverMS: float64(p.Over.Milliseconds()), TwilioMS: float64(p.Twilio.Milliseconds()), Postgres: server.version,
		Durable: server.durable, CPUs: runtime.NumCPU(), LoadBefore: load(), FsyncMicros: server.fsyncMicros(p.Now),
	}
	p.Tell(fmt.Sprintf("%d bursts over %s, Twilio takes %s, load %.1f on %d CPUs", p.Bursts, p.Over, p.Twilio, report.LoadBefore, report.CPUs))
	err = server.cloned(ctx, 0, func(urls map[string]string) error {
		place, err := s.open(ctx, server, stubs, b, urls, p.Bursts)
		if err != nil {
			return err
		}
		defer place.close()
		return p.measure(ctx, server, place, stubs, urls, &report)
	})
	return report, err
}

const (
	sqlAllBegin = `update conversation_sessions set next_step_id = 'onboarding_message_1' where next_step_id is not null`
	sqlBegin    = `update step_alarms set step_id = 'onboarding_message_1'`
	sqlPhones   = `
select s.id::text, p.id::text, p.phone from conversation_sessions s join profiles p on p.id = s.profile_id
where s.next_step_id is not null order by s.id`
	sqlFinished = `select count(*) filter (where next_step_id is null), count(*) from conversation_sessions`
	// sqlOutOfOrder counts the texts that were claimed before the one that comes before them.
	sqlOutOfOrder = `
select count(*) from (
	select idempotency_key, lag(idempotency_key) over (partition by profile_id order by attempted_at) as before from sms_messages
) m where right(idempotency_key, 1)::int <> coalesce(right(before, 1)::int, 0) + 1`
)

// measure warms up with some bursts, all at once, and then runs those that are measured.
func (p Pacing) measure(
	ctx context.Context, server *server, place *place, stubs *stubs, urls map[string]string, report *PacingReport,
) (err error) {
	conn, err := pgx.Connect(ctx, urls["onboarding"])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	if err := execEach(ctx, urls["onboarding"], sqlAllBegin, sqlBegin); err != nil {
		return err
	}
	rows, _ := conn.Query(ctx, sqlPhones) // Collect returns the error that rows carry
	people, err := pgx.CollectRows(rows, pgx.RowToStructByPos[paced])
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 2*burstTakes+p.Over+pacingBound, errors.New("the texts do not come to an end"))
	defer cancel()
	clock := newAlarmClock(ctx, p, place)
	defer clock.stop()
	stubs.clock = clock
	warm := len(people) - p.Bursts // none may be left over: the sweeper would see to it in the middle of a long measurement
	if err := clock.run(ctx, people[:warm], 0); err != nil {
		return err
	}
	before, err := server.used(ctx, place, urls)
	if err != nil {
		return err
	}
	if err := clock.run(ctx, people[warm:], p.Over); err != nil {
		return fmt.Errorf("%w; %s", err, place.complaints())
	}
	after, err := server.used(ctx, place, urls)
	if err != nil {
		return err
	}
	clock.tell(report)
	report.Use = after.less(before, float64(report.Texts))
	return examineTexts(ctx, urls, stubs, len(people))
}

// examineTexts is an error unless every text of so many bursts was sent once, in order.
func examineTexts(ctx context.Context, urls map[string]string, stubs *stubs, bursts int) error {
	var rows, keys, sids, finished, sessions, disordered int
	if err := errors.Join(queryRow(ctx, urls["messaging"], sqlAccepted, &rows, &keys, &sids),
		queryRow(ctx, urls["messaging"], sqlOutOfOrder, &disordered),
		queryRow(ctx, urls["onboarding"], sqlFinished, &finished, &sessions)); err != nil {
		return err
	}
	texts, taken := stepsOfBurst*bursts, int(stubs.taken.Load())
	if rows != texts || keys != texts || sids != texts || taken != texts || disordered > 0 || finished != bursts {
		return fmt.Errorf("of %d texts %d are stored, under %d keys, %d with a SID, %d out of order, Twilio took %d, and %d of %d bursts ended",
			texts, rows, keys, sids, disordered, taken, finished, sessions)
	}
	return nil
}

// paced is a person whose burst is measured.
type paced struct{ Session, Person, Phone string }

// alarmClock plays QStash: it calls back when an alarm is due, and again after a refusal.
type alarmClock struct {
	ctx    context.Context //nolint:containedctx // of the run, which ends all callbacks
	pacing Pacing
	place  *place
	target string

	mu          sync.Mutex
	under       sync.WaitGroup
	due         map[string][stepsOfBurst]time.Time // by phone
	phones      map[string]string                  // by session
	asked       map[string]int                     // how many texts Twilio was asked for, by phone
	left        int
	done        chan struct{}
	late, rig   []float64
	first, last time.Time
	refused     int
	again       int
}

func newAlarmClock(ctx context.Context, p Pacing, place *place) *alarmClock {
	return &alarmClock{ctx: ctx, pacing: p, place: place, target: place.origin + "/api/onboarding/step"}
}

// run runs bursts that begin spread over a time, until Twilio was asked for the last text of all.
func (c *alarmClock) run(ctx context.Context, people []paced, over time.Duration) error {
	c.mu.Lock()
	c.due, c.phones, c.asked = map[string][stepsOfBurst]time.Time{}, map[string]string{}, map[string]int{}
	c.left, c.done, c.late, c.rig, c.refused, c.again = stepsOfBurst*len(people), make(chan struct{}), nil, nil, 0, 0
	for _, person := range people {
		c.phones[person.Session] = person.Phone
	}
	done := c.done
	c.mu.Unlock()
	began := c.pacing.Now().Add(100 * time.Millisecond)
	for i, person := range people {
		body, err := json.Marshal(map[string]string{
			"profile_id": person.Person, "session_id": person.Session, "step_id": "onboarding_message_1",
			"expected_state_token": "onboarding:awaiting_burst",
			"idempotency_key":      "onboarding:" + person.Person + ":" + person.Session + ":onboarding_message_1",
		})
		if err != nil {
			return err
		}
		c.set(body, began.Add(over*time.Duration(i)/time.Duration(len(people))))
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// set sets an alarm.
func (c *alarmClock) set(body []byte, due time.Time) {
	var alarm struct {
		Session string `json:"session_id"`
		Step    string `json:"step_id"`
	}
	if err := json.Unmarshal(body, &alarm); err != nil {
		return // the burst does not come to an end
	}
	step := int(alarm.Step[len(alarm.Step)-1] - '1')
	c.mu.Lock()
	defer c.mu.Unlock()
	if phone, ok := c.phones[alarm.Session]; ok && step >= 0 && step < stepsOfBurst {
		all := c.due[phone]
		all[step] = due
		c.due[phone] = all
	}
	c.under.Add(1)
	time.AfterFunc(due.Sub(c.pacing.Now()), func() {
		defer c.under.Done()
		c.call(body, due)
	})
}

// call calls back until it is taken.
func (c *alarmClock) call(body []byte, due time.Time) {
	late := float64(c.pacing.Now().Sub(due).Microseconds()) / 1000
	c.mu.Lock()
	c.rig = append(c.rig, late)
	c.mu.Unlock()
	for c.ctx.Err() == nil {
		status, pause := c.deliver(body)
		if status == http.StatusOK {
			return
		}
		c.mu.Lock()
		if status == http.StatusTooManyRequests {
			c.refused++
		} else {
			c.again++
		}
		c.mu.Unlock()
		if !process.RestOnMachineClock(c.ctx, pause, nil) {
			return
		}
	}
}

// deliver makes one delivery; it returns the status, 0 for no answer, and when to come again.
func (c *alarmClock) deliver(body []byte) (status int, again time.Duration) {
	const ofQStash = 10 * time.Second
	signature, err := qstash.Sign(qstash.PublishedCurrentKey, c.target, body, c.pacing.Now())
	if err != nil {
		return 0, ofQStash
	}
	request, err := http.NewRequestWithContext(c.ctx, http.MethodPost, c.target, bytes.NewReader(body))
	if err != nil {
		return 0, ofQStash
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(qstash.HeaderSignature, signature)
	request.Header.Set(qstash.HeaderMessageID, "msg_"+strconv.FormatInt(c.pacing.Now().UnixNano(), 10))
	request.Header.Set(qstash.HeaderRetried, "0")
	response, err := c.place.client.Do(request)
	if err != nil {
		return 0, ofQStash
	}
	_, err = io.Copy(io.Discard, response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return 0, ofQStash
	}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil {
		return response.StatusCode, time.Duration(seconds) * time.Second
	}
	return response.StatusCode, ofQStash
}

// published is an alarm that the product publishes.
func (c *alarmClock) published(r *http.Request, body []byte) {
	delay, _ := time.ParseDuration(r.Header.Get(qstash.HeaderDelay)) // none is now
	c.set(body, c.pacing.Now().Add(delay))
}

// taken is a text that Twilio is asked for.
func (c *alarmClock) taken(phone string) {
	now := c.pacing.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	step := c.asked[phone]
	c.asked[phone]++
	if step >= stepsOfBurst || c.left == 0 {
		return // the examination says so
	}
	if len(c.late) == 0 {
		c.first = now
	}
	c.last = now
	c.late = append(c.late, float64(now.Sub(c.due[phone][step]).Microseconds())/1000)
	if c.left--; c.left == 0 {
		close(c.done)
	}
}

// stop waits for the callbacks that are under way.
func (c *alarmClock) stop() { c.under.Wait() }

func (c *alarmClock) tell(r *PacingReport) {
	c.under.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	r.Texts, r.Rate = len(c.late), float64(len(c.late))/c.last.Sub(c.first).Seconds()
	r.P50MS, r.P99MS, r.MaxMS = quantile(c.late, 0.5), quantile(c.late, 0.99), quantile(c.late, 1)
	r.RigP50MS, r.RigP99MS = quantile(c.rig, 0.5), quantile(c.rig, 0.99)
	r.Refused, r.Again = c.refused, c.again
}

// phoneOf is whom a request to Twilio is for.
func phoneOf(body []byte) string {
	for pair := range strings.SplitSeq(string(body), "&") {
		if value, ok := strings.CutPrefix(pair, "To=%2B"); ok {
			return "+" + value
		}
	}
	return ""
}

// Print writes the report for people.
func (r *PacingReport) Print(out io.Writer) error {
	_, err := fmt.Fprintf(out, `
%d texts of %d bursts that began within %.0f s, %.0f a second; Twilio takes %.0f ms.
later than due, ms: p50 %.1f, p99 %.1f, at the most %.1f; the rig's own timers: p50 %.1f, p99 %.1f
callbacks that were refused: %d; that came again otherwise: %d
us of a processor for each: gateway %.0f, onboarding %.0f, messaging %.0f, Postgres %.0f
Every text was sent exactly once, in order. Postgres %s, durable: %t, an fsync takes %.0f us; %d CPUs, load %.1f before.
`, r.Texts, r.Bursts, r.OverMS/1000, r.Rate, r.TwilioMS, r.P50MS, r.P99MS, r.MaxMS, r.RigP50MS, r.RigP99MS, r.Refused, r.Again,
		r.Use.CPUMicros[stack.Gateway], r.Use.CPUMicros[stack.Onboarding], r.Use.CPUMicros[stack.Messaging], r.Use.CPUMicros["postgres"],
		r.Postgres, r.Durable, r.FsyncMicros, r.CPUs, r.LoadBefore)
	return err
}
