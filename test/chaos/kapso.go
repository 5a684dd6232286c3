package chaos

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// sender is Kapso in a soak. It posts events, each at its instant whatever happened to those before. An event is posted at most maxTries
// times; its first time and the second one of a duplicate do not know of each other.
type sender struct {
	Soak

	c      *population
	secret []byte
	client *http.Client
	events int

	accepted  []atomic.Uint32 // per event: how often it was answered with a 2xx
	processed []atomic.Uint32 // and of those, how often as something new

	retries, duplicates atomic.Int64

	mu       sync.Mutex
	refusals map[string]int // answers that no repeat can help
	repeats  map[string]int // answers, and errors, that were repeated
}

// signsWith is the variable that tells the gateway the key.
const signsWith = "KAPSO_WEBHOOK_SECRET"

const (
	// maxTries is more than Kapso's four, so that a long outage certainly loses nothing here.
	maxTries = 12
	// postTimeout bounds Kapso's wait for an answer.
	postTimeout = 10 * time.Second
	// maxConns is the number of connections that a sender of that size would keep open, above the number that the gateway takes at once.
	maxConns = 1024
	// tick is the time between two looks of the sender at the clock; everything that is due by then is posted.
	tick = 2 * time.Millisecond
)

func newSender(c *population, cfg Soak, secret string) *sender {
	events := int(float64(cfg.Rate) * cfg.Duration.Seconds())
	return &sender{
		Soak: cfg, c: c, secret: []byte(secret), events: events,
		client: &http.Client{Timeout: postTimeout, Transport: &http.Transport{
			MaxIdleConnsPerHost: maxConns, MaxConnsPerHost: maxConns, DisableCompression: true,
		}},
		accepted: make([]atomic.Uint32, events), processed: make([]atomic.Uint32, events),
		refusals: map[string]int{}, repeats: map[string]int{},
	}
}

// send posts every event at its instant. It returns when the last one was posted for the first time.
func (s *sender) send(ctx context.Context) {
	began := s.c.clock.Now()
	every := time.Duration(float64(time.Second) / float64(s.Rate))
	for n := 0; n < s.events; {
		due := min(s.events, int(s.c.clock.Now().Sub(began)/every)+1)
		for ; n < due; n++ {
			s.event(n)
		}
		if !pause(ctx, tick) {
			break
		}
	}
	s.Tell(fmt.Sprintf("everything was posted, and what was refused is repeated until it is accepted: %d events, %d still on their way, "+
		"%d repeats so far", s.events, s.c.doings()-1, s.retries.Load()))
}

// event posts an event, and some of them a second time, within two seconds and perhaps at the same instant.
func (s *sender) event(n int) {
	s.c.spawn(func(ctx context.Context) { s.post(ctx, n) })
	chance := s.c.dice.roll("duplicate", n)
	if chance.Float64() >= s.Duplicates {
		return
	}
	s.duplicates.Add(1)
	after := time.Duration(max(0, chance.Int64N(int64(2500*time.Millisecond))-int64(500*time.Millisecond)))
	s.c.spawn(func(ctx context.Context) {
		if pause(ctx, after) {
			s.post(ctx, n)
		}
	})
}

// post posts an event until it is accepted.
func (s *sender) post(ctx context.Context, n int) {
	body, signature := s.body(n)
	for try := 1; ; try++ {
		answer, retry := s.attempt(ctx, n, body, signature)
		if answer == "" {
			return
		}
		s.note(answer, retry)
		if !retry {
			return
		}
		if try == maxTries || !pause(ctx, s.retryAfter(try)) {
			return
		}
		s.retries.Add(1)
	}
}

// retryAfter is Kapso's own schedule, 10, 40 and 90 seconds, in the sender's unit.
func (s *sender) retryAfter(try int) time.Duration {
	first := s.RetryAfter
	pauses := []time.Duration{first, 4 * first, 9 * first}
	return pauses[min(try, len(pauses))-1]
}

// body is an event of Kapso that becomes a job, and its signature: what a person answered to a survey, each of another number, for the
// jobs of one are done one after the other.
func (s *sender) body(n int) (body []byte, signature string) {
	body = fmt.Appendf(nil, `{"phone_number_id":"1906385232743451.%d","score":9,"feedback":"Ola! Podemos comecar?","survey":{"id":%q},`+
		`"conversation":{"id":"conv-%d","phone_number":"+15555550100","phone_number_id":"1906385232743451.%d"}}`, n, s.eventID(n), n, n)
	mac := hmac.New(sha256.New, s.secret)
	mac.Write(body)
	return body, hex.EncodeToString(mac.Sum(nil))
}

func (s *sender) eventID(n int) string { return fmt.Sprintf("soak.%d.%d", s.Seed, n) }

// attempt posts once. An empty answer is an acceptance; else it says what came, and whether it is worth a repeat.
func (s *sender) attempt(ctx context.Context, n int, body []byte, signature string) (answer string, retry bool) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.c.api.BaseURL+"/api/webhooks/kapso", bytes.NewReader(body))
	if err != nil {
		return err.Error(), false
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "X-Webhook-Event": "whatsapp.survey.response", "X-Webhook-Payload-Version": "v2",
		"X-Webhook-Signature": signature, "X-Idempotency-Key": s.eventID(n),
	} {
		request.Header.Set(name, value)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return "no answer", true
	}
	defer func() { _ = response.Body.Close() }() // read to its end
	content, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return "the answer broke off", true
	case response.StatusCode/100 == 2:
		return s.accept(n, content), false
	}
	again := response.StatusCode >= http.StatusInternalServerError || response.StatusCode == http.StatusTooManyRequests
	return response.Status, again
}

// accept counts an acceptance; one that says neither that it was new nor that it had come before is an error.
func (s *sender) accept(n int, content []byte) string {
	var answer struct {
		Status string `json:"status"`
	}
	if err := json.Unmarshal(content, &answer); err != nil {
		return "accepted with an answer that cannot be read"
	}
	switch answer.Status {
	case "processed":
		s.processed[n].Add(1)
	case "duplicate":
	default:
		return "accepted as " + answer.Status
	}
	s.accepted[n].Add(1)
	return ""
}

func (s *sender) note(answer string, retry bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if retry {
		s.repeats[answer]++
	} else {
		s.refusals[answer]++
	}
}
