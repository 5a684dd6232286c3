package bench

import (
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"paceline.internal/deploy/stack"
	"paceline.internal/platform/process"
	"paceline.internal/platform/qstash"
)

const (
	stepsOfBurst = 4
	// warmBursts come before the measurement, all at once.
	warmBursts = 32
)

// BenchmarkPacing measures how late messages go out: from when an alarm was due at QStash to when Twilio is asked. "rig" tells how
// late the benchmark itself was with its callbacks, because its timers share the machine; that is part of "late".
func BenchmarkPacing(b *testing.B) {
	s := newServer(b, false)
	s.seed(b, works["Steps"], *bursts+warmBursts)
	for b.Loop() {
		c := s.pace(b, *bursts, *over)
		b.ReportMetric(float64(len(c.late))/c.last.Sub(c.first).Seconds(), "messages/s")
		b.ReportMetric(quantile(c.late, 0.5), "late-p50-ms")
		b.ReportMetric(quantile(c.late, 0.99), "late-p99-ms")
		b.ReportMetric(quantile(c.late, 1), "late-max-ms")
		b.ReportMetric(quantile(c.rig, 0.5), "rig-p50-ms")
		b.ReportMetric(quantile(c.rig, 0.99), "rig-p99-ms")
		b.ReportMetric(float64(c.refused), "refused")
		b.ReportMetric(0, "ns/op") // a round is no operation
	}
}

// pace runs bursts that begin spread over a time. It fails unless each message was sent once, in order.
func (s *server) pace(tb testing.TB, bursts int, over time.Duration) *alarmClock {
	tb.Helper()
	databases, drop := s.clone(tb)
	defer drop()
	onboarding, messaging := databases[stack.Onboarding], databases[stack.Messaging]
	s.exec(tb, onboarding, `update conversation_sessions set next_step_id = 'onboarding_message_1' where next_step_id is not null`,
		`update step_alarms set step_id = 'onboarding_message_1'`)
	p := s.open(tb, databases, bursts)
	defer p.close()
	s.stubs.asked.Store(0)
	people := s.due(tb, onboarding, bursts+warmBursts)
	for i, part := range [][]dueStep{people[:warmBursts], people[warmBursts:]} {
		s.stubs.clock = &alarmClock{
			tb: tb, place: p, due: map[string]time.Time{}, phones: map[string]string{}, left: stepsOfBurst * len(part), done: make(chan struct{}),
		}
		s.stubs.clock.run(part, over*time.Duration(i))
	}
	clock := s.stubs.clock
	s.stubs.clock = nil
	var counts []int
	s.row(tb, messaging, sqlAccepted, &counts)
	messages := stepsOfBurst * len(people)
	require.Equal(tb, []int{messages, messages, messages}, counts)
	require.EqualValues(tb, messages, s.stubs.asked.Load())
	var disordered int
	s.row(tb, messaging, `select count(*) from (
		select idempotency_key, lag(idempotency_key) over (partition by profile_id order by attempted_at) as before from sms_messages
	) m where right(idempotency_key, 1)::int <> coalesce(right(before, 1)::int, 0) + 1`, &disordered)
	require.Zero(tb, disordered)
	return clock
}

// alarmClock plays QStash: it delivers an alarm when it is due, and again after a refusal.
type alarmClock struct {
	tb    testing.TB
	place *place
	under sync.WaitGroup
	done  chan struct{}

	mu          sync.Mutex
	due         map[string]time.Time // when the next message is due, by phone
	phones      map[string]string    // by session
	left        int                  // messages that Twilio was not asked for yet
	late, rig   []float64
	first, last time.Time
	refused     int // with 429
}

// run runs bursts until Twilio was asked for all messages.
func (c *alarmClock) run(people []dueStep, over time.Duration) {
	for _, person := range people {
		c.phones[person.Session] = person.Phone
	}
	began := now().Add(100 * time.Millisecond)
	for i, person := range people {
		c.set(person.body(), began.Add(over*time.Duration(i)/time.Duration(len(people))))
	}
	select {
	case <-c.done:
	case <-c.tb.Context().Done():
	}
	c.under.Wait()
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
	c.due[c.phones[alarm.Session]] = due
	c.under.Add(1)
	time.AfterFunc(due.Sub(now()), func() {
		defer c.under.Done()
		c.mu.Lock()
		c.rig = append(c.rig, now().Sub(due).Seconds()*1000)
		c.mu.Unlock()
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
	if response.StatusCode == http.StatusTooManyRequests {
		c.mu.Lock()
		c.refused++
		c.mu.Unlock()
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
	if c.left == 0 {
		return // the check of the databases shows it
	}
	c.last = now()
	if len(c.late) == 0 {
		c.first = c.last
	}
	c.late = append(c.late, c.last.Sub(c.due[phone]).Seconds()*1000)
	if c.left--; c.left == 0 {
		close(c.done)
	}
}
