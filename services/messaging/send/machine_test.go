package send_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

// machine is one message and the truth about it, which the message is told late, twice, in any order or never.
type machine struct {
	m        send.Message
	now      time.Time
	attempts []attempt
	sid      string      // the first SID that the message has had
	absences []time.Time // when the listings began that did not have the last attempt's message
	licence  string      // why a new attempt may be made
	listing  *send.Listing
	empty    bool // whether that listing has nothing
}

// attempt tells the real outcome of one claim.
type attempt struct {
	token   uuid.UUID
	reached time.Time // when Twilio took it; zero if never
	sid     string
	answer  twilio.Outcome
}

const callTimeout = 10 * time.Second

// claim makes an attempt: the first, or a new one of a message that says that it may be made.
func (x *machine) claim(t *rapid.T) {
	if len(x.attempts) > 0 && !x.m.Retryable(x.now) {
		return
	}
	if len(x.attempts) > 0 && x.licence == "" {
		t.Fatalf("attempt %d without an absence confirmed, an operator's resolution or a certain refusal", len(x.attempts)+1)
	}
	for _, a := range x.attempts {
		if !a.reached.IsZero() {
			t.Fatalf("a second attempt, licensed by %s, although Twilio has the first", x.licence)
		}
	}
	a := attempt{token: uuid.New(), sid: fmt.Sprint("SM", len(x.attempts)+1)}
	switch rapid.SampledFrom([]string{"taken", "lost answer", "lost request", "throttled", "rejected", "our fault"}).Draw(t, "fate") {
	case "taken":
		a.answer = twilio.Outcome{Status: sms.Accepted, SID: a.sid, Reported: "queued"}
		a.reached = x.soon(t)
	case "lost answer":
		a.reached = x.soon(t)
	case "lost request":
	case "throttled":
		a.answer = twilio.Outcome{Status: sms.Throttled}
	case "rejected":
		a.answer = twilio.Outcome{Status: sms.Rejected, Code: 21614}
	case "our fault":
		a.answer = twilio.Outcome{Status: sms.Rejected, Code: 20003}
	}
	x.attempts = append(x.attempts, a)
	x.m.Status, x.m.AttemptToken, x.m.AttemptedAt, x.m.LeaseUntil = sms.Sending, a.token, x.now, x.now.Add(lease)
	x.m.Attempts++
	x.m.AbsentSince, x.m.NextCheckAt, x.m.ErrorCode = time.Time{}, time.Time{}, 0
	x.absences, x.licence = nil, ""
}

// soon is a time at which a call that is made under the lease may reach Twilio.
func (x *machine) soon(t *rapid.T) time.Time {
	return x.now.Add(time.Duration(rapid.Int64Range(0, int64(lease+callTimeout)-1).Draw(t, "reaches")))
}

func (x *machine) some(t *rapid.T) (attempt, bool) {
	if len(x.attempts) == 0 {
		return attempt{}, false
	}
	return rapid.SampledFrom(x.attempts).Draw(t, "attempt"), true
}

// settle brings an attempt's answer, of whichever attempt and however late, but not before it can be known.
func (x *machine) settle(t *rapid.T) {
	a, ok := x.some(t)
	if !ok || a.reached.After(x.now) {
		return
	}
	before := x.m
	x.m, _ = x.m.Settle(send.Answer{Token: a.token, Outcome: a.answer, At: x.now})
	if before.Status != sms.Throttled && x.m.Status == sms.Throttled {
		x.licence = "a certain refusal"
	}
}

func (x *machine) receipt(t *rapid.T) {
	a, ok := x.some(t)
	if !ok || a.reached.IsZero() || a.reached.After(x.now) {
		return
	}
	word := rapid.SampledFrom([]string{"queued", "sent", "delivered", "undelivered"}).Draw(t, "kind")
	x.m, _ = x.m.Receive(send.Receipt{SID: a.sid, Status: word, At: x.now})
}

// expire makes an abandoned row unknown, as the store does.
func (x *machine) expire(*rapid.T) {
	if x.m.Abandoned(x.now) && x.m.Quiet(x.now, callTimeout) {
		x.m.Status, x.m.NextCheckAt, x.m.Checks, x.m.UpdatedAt = sms.Unknown, x.now, 0, x.now
	}
}

// list asks Twilio what it has by now, and perhaps what others have sent; or fails.
func (x *machine) list(t *rapid.T) {
	s := send.Listing{Token: x.m.AttemptToken, Began: x.now, Interval: interval, Timeout: callTimeout}
	rewritten := rapid.SampledFrom([]string{body, "Sent from your Twilio trial account - " + body, "rewritten"}).Draw(t, "body")
	for _, a := range x.attempts {
		if !a.reached.IsZero() && !a.reached.After(x.now) {
			l := listed(a.sid, a.reached.Add(-time.Minute).Truncate(time.Second))
			l.Body = rewritten // as a whole: this account's texts are rewritten, or they are not
			s.Listed = append(s.Listed, l)
		}
	}
	x.empty = len(s.Listed) == 0
	switch rapid.SampledFrom([]string{"", "", "", "noise", "failure"}).Draw(t, "listing") {
	case "noise":
		s.Listed, x.empty = append(s.Listed, listed("SMnoise", x.now)), false
	case "failure":
		s.Listed, s.Failure, x.empty = nil, "HTTP status 500", false
	}
	x.listing = &s
}

// decide brings the last listing, however late, and perhaps twice.
func (x *machine) decide(t *rapid.T) {
	if x.listing == nil {
		return
	}
	s := *x.listing
	s.At = x.now
	before := x.m
	decision, _ := x.m.Decide(s, send.Others{})
	x.m = decision.Message
	if s.Token == before.AttemptToken && x.empty && !s.Began.Before(before.LeaseUntil.Add(callTimeout)) {
		x.absences = append(x.absences, s.Began)
	}
	if before.Status == sms.Unknown && x.m.Status == sms.Throttled {
		if n := len(x.absences); n < 2 || x.absences[n-1].Sub(x.absences[0]) < interval {
			t.Fatalf("absence confirmed by the listings at %v", x.absences)
		}
		x.licence = "an absence confirmed"
	}
}

// resolve is an operator who has seen the truth.
func (x *machine) resolve(t *rapid.T) {
	r := send.Resolution{
		ResolveRequest: send.ResolveRequest{Attempt: x.m.Attempts}, Token: x.m.AttemptToken, At: x.now, Timeout: callTimeout,
	}
	r.Kind = rapid.SampledFrom([]send.ResolutionKind{send.NotSent, send.GiveUp, send.Sent}).Draw(t, "kind")
	for _, a := range x.attempts {
		if a.reached.IsZero() || a.reached.After(x.now) {
			continue
		}
		if r.Kind == send.NotSent {
			return
		}
		stored := listed(a.sid, a.reached)
		r.SID, r.Stored = a.sid, &stored
	}
	if r.Kind == send.Sent && r.Stored == nil {
		return
	}
	before := x.m
	x.m, _, _ = x.m.Resolve(r)
	if before.Status != sms.Throttled && x.m.Status == sms.Throttled {
		x.licence = "an operator's resolution"
	}
}

func (x *machine) check(t *rapid.T) {
	if x.sid != "" && x.m.SID != x.sid {
		t.Fatalf("the SID changed from %s to %s", x.sid, x.m.SID)
	}
	x.sid = x.m.SID
	if x.m.Accepted() == x.m.AcceptedAt.IsZero() {
		t.Fatalf("a SID %q and accepted at %v", x.m.SID, x.m.AcceptedAt)
	}
	waits := x.m.Status == sms.Unknown || x.m.Accepted() && !x.m.Status.Final()
	if len(x.attempts) > 0 && waits == x.m.NextCheckAt.IsZero() {
		t.Fatalf("status %s and the next check at %v", x.m.Status, x.m.NextCheckAt)
	}
	reached := 0
	for _, a := range x.attempts {
		if !a.reached.IsZero() {
			reached++
		}
	}
	if reached > 1 {
		t.Fatalf("%d messages reach Twilio", reached)
	}
}

// TestMessageIsSentAtMostOnceInAnyOrderOfEvents plays attempts that fail in every way, and lets what is known of them arrive
// late, twice, out of order or never. As long as Twilio's list and the operator tell the truth, at most one text reaches
// Twilio, the SID never changes, and whatever is not settled is checked again.
func TestMessageIsSentAtMostOnceInAnyOrderOfEvents(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := &machine{now: noon(), m: send.Message{
			Direction: send.Outbound, To: theirs, Body: body,
			UnknownPolicy: rapid.SampledFrom([]send.UnknownPolicy{send.ConfirmAbsentThenResend, send.NeverDuplicate}).Draw(t, "policy"),
		}}
		x.claim(t)
		t.Repeat(map[string]func(*rapid.T){
			"":        x.check,
			"claim":   x.claim,
			"settle":  x.settle,
			"receipt": x.receipt,
			"expire":  x.expire,
			"list":    x.list,
			"decide":  x.decide,
			"resolve": x.resolve,
			"wait": func(t *rapid.T) {
				x.now = x.now.Add(time.Duration(rapid.IntRange(1, 45).Draw(t, "seconds")) * time.Second)
			},
		})
	})
}
