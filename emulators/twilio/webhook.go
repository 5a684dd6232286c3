package twilio

import (
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

const maxReply = 64 << 10 // bytes of a webhook's answer that are read

// Delivery is one webhook and what happened to it.
type Delivery struct {
	At            time.Time // when it was first posted, on the emulator's clock
	MessageSID    string
	MessageStatus Status // what a status callback reports; StatusReceived for an inbound message
	URL           string // as configured, with its fragment
	Attempts      []Attempt
	StatusCode    int    // of the last attempt; 0 if there was no answer, or no application listens
	Body          string // of the last attempt
	Dropped       bool   // by the script: never posted
	contentType   string
}

// Attempt is one request of a delivery.
type Attempt struct {
	StatusCode int // 0 without an answer
	// Failure is the kind of failure, in the words of Twilio's retry policy: "ct" connecting, "rt" waiting for the answer,
	// "4xx" or "5xx"; "partial" is an answer that broke off, which no policy retries; empty is success.
	Failure string
}

// post delivers a signed form to target, following the connection overrides in its fragment. The fragment is neither
// sent nor signed. Its timeouts and its budget are real time, for they bound real sockets.
func (e *Emulator) post(ctx context.Context, m Message, target string, form url.Values) Delivery {
	d := Delivery{At: e.cfg.Clock.Now(), MessageSID: m.SID, MessageStatus: m.Status, URL: target}
	e.posts <- struct{}{}
	defer func() { <-e.posts }()

	bare, fragment, _ := strings.Cut(target, "#")
	over := overridesOf(fragment)
	ctx, cancel := context.WithTimeout(ctx, over.total)
	defer cancel()
	token := uuid.NewString()
	for range over.retries + 1 {
		attempt, reply := e.attempt(ctx, m, over, bare, form, token)
		d.Attempts = append(d.Attempts, attempt)
		d.StatusCode, d.Body = attempt.StatusCode, reply.body
		d.contentType = reply.contentType
		if !over.retry(attempt.Failure) || ctx.Err() != nil {
			break
		}
	}
	return d
}

type reply struct{ body, contentType string }

// attempt posts once. Every attempt of a delivery carries the same idempotency token.
func (e *Emulator) attempt(ctx context.Context, m Message, over overrides, target string, form url.Values, token string) (Attempt, reply) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var connected atomic.Bool
	limit := time.AfterFunc(over.connect, cancel)
	defer limit.Stop()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		connected.Store(true)
		limit.Reset(over.read)
	}})

	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, strings.NewReader(form.Encode()))
	if err != nil {
		return Attempt{Failure: "ct"}, reply{}
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	req.Header.Set("User-Agent", "TwilioProxy/1.1")
	req.Header.Set("I-Twilio-Idempotency-Token", token)
	req.Header.Set("X-Twilio-Signature", Sign(e.account(m.AccountSID).AuthToken, signable(req.URL), form))
	resp, err := e.cfg.HTTPClient.Do(req)
	switch {
	case err != nil && connected.Load():
		return Attempt{Failure: "rt"}, reply{}
	case err != nil:
		return Attempt{Failure: "ct"}, reply{}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	a := Attempt{StatusCode: resp.StatusCode, Failure: failureOf(resp.StatusCode)}
	if err != nil {
		a.Failure = "partial"
	}
	return a, reply{string(body), resp.Header.Get("Content-Type")}
}

func failureOf(status int) string {
	switch status / 100 {
	case 4:
		return "4xx"
	case 5:
		return "5xx"
	default:
		return ""
	}
}

// signable is the URL that the signature covers: port kept, userinfo dropped.
func signable(u *url.URL) string {
	bare := *u
	bare.User = nil
	return bare.String()
}

// overrides holds the timeouts and the retries of a webhook. Source:
// https://www.twilio.com/docs/usage/webhooks/webhooks-connection-overrides
type overrides struct {
	connect, read, total time.Duration
	retries              int
	policy               string // comma-separated failures that are retried, or all
}

// overridesOf reads a fragment such as "rt=4000&rc=3&rp=all". What is absent or out of range keeps its default.
func overridesOf(fragment string) overrides {
	q, err := url.ParseQuery(fragment)
	if err != nil {
		q = nil
	}
	within := func(name string, least, most, otherwise int) int {
		n, err := strconv.Atoi(q.Get(name))
		if err != nil || n < least || n > most {
			return otherwise
		}
		return n
	}
	ms := func(name string, most, otherwise int) time.Duration {
		return time.Duration(within(name, 100, most, otherwise)) * time.Millisecond
	}
	o := overrides{
		connect: ms("ct", 10_000, 5_000), read: ms("rt", 15_000, 15_000), total: ms("tt", 15_000, 15_000),
		retries: within("rc", 0, 5, 1), policy: "ct",
	}
	if q.Has("rp") {
		o.policy = q.Get("rp")
	}
	return o
}

// retry reports whether the policy tries again after failure.
func (o overrides) retry(failure string) bool {
	if failure == "" || failure == "partial" {
		return false
	}
	for word := range strings.SplitSeq(o.policy, ",") {
		if word == failure || word == "all" {
			return true
		}
	}
	return false
}
