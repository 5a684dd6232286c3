package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/stack"
	"paceline.internal/platform/process"
	"paceline.internal/platform/qstash"
	"paceline.internal/services/onboarding/conversation"
	"paceline.internal/services/onboarding/session"
)

const (
	stepsOfBurst = 4
	// warmBursts come before the measurement, all at once.
	warmBursts = 32
)

// BenchmarkPacing measures how late messages go out: from when a step was due to when Twilio is asked. Each round plays the same bursts
// with each engine of alarms, in turn; a figure is that of the engine's best round, by p99, because others share the machine: "others"
// is the part of it that they took then. "of-qstash" is the p99 with the database as a part of that with the stub of QStash, which does less
// than QStash's emulator. "cpu" is the time of processors that the services and Postgres took for a step. With -before the release before
// plays them, too, as three processes with the stub of QStash: "of-before" is our p99 as a part of its.
func BenchmarkPacing(b *testing.B) {
	s := newServer(b, false)
	for _, n := range numbers(b, *bursts) {
		s.seed(b, works["Steps"], n+warmBursts)
		for _, name := range []string{"Apart", "Together"} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				processes := map[string][]string{"Apart": services(), "Together": {together}}[name]
				wirings := map[string]wiring{
					"qstash": {processes: processes, alarms: "qstash"}, "postgres": {processes: processes, alarms: "postgres"},
				}
				if s.before != "" && name == "Apart" {
					wirings["before"] = wiring{processes: services(), alarms: "qstash", before: true}
				}
				best := map[string]paced{}
				for b.Loop() {
					for engine, w := range wirings { // in any order
						p := s.pace(b, w, n, *over, nil)
						b.Logf("%-8s p50 %.1f p99 %.1f max %.1f ms, cpu %.2f ms (services %.2f), others %.0f %%", engine, quantile(p.late, 0.5),
							quantile(p.late, 0.99), quantile(p.late, 1), p.cpu, p.services, 100*p.others)
						if before, found := best[engine]; !found || quantile(p.late, 0.99) < quantile(before.late, 0.99) {
							best[engine] = p
						}
					}
				}
				for engine, p := range best {
					b.ReportMetric(quantile(p.late, 0.5), engine+"-p50-ms")
					b.ReportMetric(quantile(p.late, 0.99), engine+"-p99-ms")
					b.ReportMetric(p.cpu, engine+"-cpu-ms")
					b.ReportMetric(p.others, engine+"-others")
				}
				b.ReportMetric(quantile(best["postgres"].late, 0.99)/quantile(best["qstash"].late, 0.99), "of-qstash")
				if before, found := best["before"]; found {
					b.ReportMetric(quantile(best["qstash"].late, 0.99)/quantile(before.late, 0.99), "of-before")
				}
				b.ReportMetric(0, "ns/op") // a round is no operation
			})
		}
	}
}

// paced is the result of a round.
type paced struct {
	late          []float64 // milliseconds, of each message
	cpu, services float64   // milliseconds of a processor for each message: of all, and without Postgres
	cost          *cost     // nil unless it was counted
	others        float64   // the part of the machine that other programs took
}

// pace runs bursts that begin spread over a time, with a run for many people where one is given. It fails unless each message was sent
// once, in order.
func (s *server) pace(tb testing.TB, w wiring, bursts int, over time.Duration, during *crowdRun) paced {
	tb.Helper()
	databases, drop := s.clone(tb, w)
	defer drop()
	onboarding, messaging := databases[stack.Onboarding], databases[stack.Messaging]
	s.exec(tb, onboarding, `update conversation_sessions set next_step_id = 'onboarding_message_1' where next_step_id is not null`,
		`update step_alarms set step_id = 'onboarding_message_1'`)
	p := s.open(tb, databases, bursts, w)
	defer p.close()
	s.stubs.asked.Store(0)
	people := s.due(tb, onboarding, bursts+warmBursts)
	var result paced
	for i, part := range [][]dueStep{people[:warmBursts], people[warmBursts:]} {
		c := &alarmClock{
			tb: tb, place: p, due: map[string][]time.Time{}, asks: map[string][]time.Time{}, phones: map[string]string{}, ours: map[string]bool{},
			left: stepsOfBurst * len(part), done: make(chan struct{}),
		}
		s.stubs.clock = c
		if during != nil && i == 1 {
			during.begin(tb, s, onboarding)
		}
		s.measure(tb, p, &result, len(part), func() { s.ring(tb, c, w, onboarding, part, over*time.Duration(i)) })
		s.stubs.clock = nil
		result.late = c.late()
	}
	if during != nil {
		during.pause(tb, s, onboarding)
	}
	var counts []int
	s.row(tb, messaging, sqlAccepted+` where idempotency_key like '%:onboarding\_message\__'`, &counts)
	messages := stepsOfBurst * len(people)
	require.Equal(tb, []int{messages, messages, messages}, counts)
	if during == nil {
		require.EqualValues(tb, messages, s.stubs.asked.Load())
	}
	var disordered int
	s.row(tb, messaging, `select count(*) from (
		select idempotency_key, lag(idempotency_key) over (partition by profile_id order by attempted_at) as before from sms_messages
		where idempotency_key like '%:onboarding\_message\__'
	) m where right(idempotency_key, 1)::int <> coalesce(right(before, 1)::int, 0) + 1`, &disordered)
	require.Zero(tb, disordered)
	return result
}

// measure notes what processors did during bursts.
func (s *server) measure(tb testing.TB, p *place, into *paced, bursts int, during func()) {
	tb.Helper()
	var ours []string
	for _, pid := range p.pids {
		ours = append(ours, pid)
	}
	postmaster := s.postmaster(tb)
	look := func() (services, all, here, machine float64) {
		services = busy(tb, ours...)
		return services, services + busy(tb, postmaster), busy(tb, strconv.Itoa(os.Getpid())), busyMachine(tb)
	}
	services, all, here, machine := look()
	var since mark
	if s.counts {
		since = s.mark(tb, p)
	}
	began := now()
	during()
	took := now().Sub(began).Seconds()
	servicesNow, allNow, hereNow, machineNow := look()
	steps := float64(stepsOfBurst * bursts)
	if s.counts {
		into.cost = s.costSince(tb, p, p.databases, since, stepsOfBurst*bursts)
	}
	into.services, into.cpu = (servicesNow-services)*1000/steps, (allNow-all)*1000/steps
	into.others = (machineNow - machine - (allNow - all) - (hereNow - here)) / (took * float64(processors(tb)))
}

// ring runs bursts until Twilio was asked for all messages, with the stub of QStash or with the database as the alarm clock.
func (s *server) ring(tb testing.TB, c *alarmClock, w wiring, database string, people []dueStep, over time.Duration) {
	tb.Helper()
	for _, person := range people {
		c.phones[person.Session], c.ours[person.Phone] = person.Phone, true
	}
	began := now().Add(100 * time.Millisecond)
	if w.alarms == "postgres" {
		began = now().Add(time.Second) // all are stored before
	}
	var stored pgx.Batch
	for i, person := range people {
		due := began.Add(over * time.Duration(i) / time.Duration(len(people)))
		if w.alarms == "qstash" {
			c.set(person.body(), due)
			continue
		}
		c.due[person.Phone] = []time.Time{due}
		stored.Queue(sqlStoreAlarm, person.Session, due, stack.OrgID, conversation.StepRoute.Label, string(person.body()))
	}
	conn, err := pgx.Connect(tb.Context(), s.private.URL(database, "postgres"))
	require.NoError(tb, err)
	defer func() { require.NoError(tb, conn.Close(context.Background())) }()
	require.NoError(tb, conn.SendBatch(tb.Context(), &stored).Close())
	select {
	case <-c.done:
	case <-tb.Context().Done():
	}
	c.under.Wait()
	if w.alarms == "postgres" {
		rows, _ := conn.Query(tb.Context(), sqlTaken) // ForEachRow returns the error that rows carry
		var id, step string
		var taken time.Time
		_, err := pgx.ForEachRow(rows, []any{&id, &step, &taken}, func() error {
			phone := c.phones[id]
			c.due[phone] = append(c.due[phone], taken.Add(pauses[step]))
			return nil
		})
		require.NoError(tb, err)
	}
}

const (
	// sqlStoreAlarm stores an alarm as the engine of the database does.
	sqlStoreAlarm = `
with alarm as (update step_alarms set due_at = $2 where session_id = $1::uuid returning due_at)
insert into alarm_jobs (id, org_id, idempotency_key, event_type, subject, payload, status, next_retry_at, created_at, updated_at)
select gen_random_uuid(), $3::uuid, 'seeded-' || $1, $4, '', jsonb_build_object('due', due_at, 'body', $5::jsonb), 'pending', due_at, now(), now()
from alarm`
	sqlTaken = `select session_id::text, step_id, at from session_transitions where kind = 'sent' order by session_id, id`
)

// pauses are those between a step and the next one, by the step.
var pauses = func() map[string]time.Duration {
	after, steps := map[string]time.Duration{}, session.DefaultFlow().Steps()
	for i, s := range steps[1:] {
		after[string(steps[i].ID)] = s.Delay
	}
	return after
}()

// alarmClock plays QStash: it delivers an alarm when it is due, and again after a refusal. It notes, too, when Twilio is asked.
type alarmClock struct {
	tb    testing.TB
	place *place
	under sync.WaitGroup
	done  chan struct{}

	mu     sync.Mutex
	due    map[string][]time.Time // when each message was due, by phone
	asks   map[string][]time.Time // when Twilio was asked for it
	phones map[string]string      // by session
	ours   map[string]bool        // the phones of the bursts
	left   int                    // messages that Twilio was not asked for yet
}

// late returns how late each message was, in milliseconds.
func (c *alarmClock) late() (all []float64) {
	for phone, asks := range c.asks {
		for i, at := range asks {
			all = append(all, at.Sub(c.due[phone][i]).Seconds()*1000)
		}
	}
	return all
}

// set sets an alarm.
func (c *alarmClock) set(body []byte, due time.Time) {
	var alarm struct {
		Session string `json:"session_id"`
	}
	if err := json.Unmarshal(body, &alarm); err != nil {
		return // the burst does not end
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	phone := c.phones[alarm.Session]
	c.due[phone] = append(c.due[phone], due)
	c.under.Add(1)
	time.AfterFunc(due.Sub(now()), func() {
		defer c.under.Done()
		for pause, again := c.deliver(body); again && process.RestOnMachineClock(c.tb.Context(), pause, nil); {
			pause, again = c.deliver(body)
		}
	})
}

// deliver makes one delivery, and returns whether it has to come again, and when.
func (c *alarmClock) deliver(body []byte) (pause time.Duration, again bool) {
	const ofQStash = 10 * time.Second
	header, err := c.place.signed(body)
	if err != nil {
		return ofQStash, true
	}
	response, _, err := c.place.do(c.tb.Context(), http.MethodPost, c.place.stepTarget(), string(body), header)
	if err != nil {
		return ofQStash, true
	}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil {
		return time.Duration(seconds) * time.Second, true
	}
	return ofQStash, response.StatusCode != http.StatusOK
}

// published is called when the product publishes an alarm.
func (c *alarmClock) published(r *http.Request, body []byte) {
	delay, _ := time.ParseDuration(r.Header.Get(qstash.HeaderDelay)) // none is now
	c.set(body, now().Add(delay))
}

// asked is called when Twilio is asked for a message.
func (c *alarmClock) asked(phone string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left == 0 || !c.ours[phone] {
		return // the check of the databases shows it, or it is of a run
	}
	c.asks[phone] = append(c.asks[phone], now())
	if c.left--; c.left == 0 {
		close(c.done)
	}
}

// busyMachine returns how many seconds of its processors the machine has used so far.
func busyMachine(tb testing.TB) (seconds float64) {
	tb.Helper()
	content, err := os.ReadFile("/proc/stat")
	require.NoError(tb, err)
	first, _, _ := strings.Cut(string(content), "\n")
	for _, field := range slices.Delete(strings.Fields(first)[1:9], 3, 5) { // neither idle nor waiting for a disk
		ticks, err := strconv.ParseFloat(field, 64)
		require.NoError(tb, err)
		seconds += ticks / 100
	}
	return seconds
}

// processors counts those of the machine.
func processors(tb testing.TB) (n int) {
	tb.Helper()
	content, err := os.ReadFile("/proc/stat")
	require.NoError(tb, err)
	for line := range strings.Lines(string(content)) {
		if strings.HasPrefix(line, "cpu") {
			n++
		}
	}
	return cmp.Or(n-1, 1)
}
