package twilio

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twilio/twilio-go/client"
	openapi "github.com/twilio/twilio-go/rest/api/v2010"

	"paceline.internal/services/messaging/sms"
)

// Outcome is everything that one Send learnt. Only Status is always set.
type Outcome struct {
	// Status is one of four:
	//   - sms.Accepted: Twilio took the message under SID.
	//   - sms.Rejected: Twilio refused it with Code, and would again.
	//   - sms.Throttled: Twilio did not process it and never will; sending it again is safe, after RetryAfter.
	//   - sms.Unknown: Twilio may or may not have taken it. It must not be sent again before it is settled.
	Status     sms.Status
	SID        string        // Twilio's id of an accepted message
	Reported   string        // Twilio's word for its initial status: queued, or accepted with a messaging service
	From       string        // the number that sends it; empty as long as a messaging service has not picked one
	Segments   int           // 0 as long as Twilio has not counted, which it does later with a messaging service
	Code       int           // Twilio's error code, 0 for none; see Explain
	HTTPStatus int           // 0 without an answer
	RetryAfter time.Duration // how long Twilio asks to wait, 0 if it does not say
	Reason     string        // why it is not accepted: short, and free of numbers, bodies and secrets
}

// classify turns what twilio-go returned, and what the exchange saw, into an outcome. It is total: what no rule
// recognises is unknown.
func classify(r result, message *openapi.ApiV2010Message, err error) Outcome {
	o := Outcome{Status: sms.Unknown, HTTPStatus: r.status, RetryAfter: retryAfter(r.header)}
	var refusal *client.TwilioRestError
	readable := errors.As(err, &refusal) && refusal.Code != 0
	var explained Explanation
	if readable {
		o.Code = refusal.Code
		explained, _ = Explain(o.Code)
	}
	switch {
	case r.unsent:
		o.Status, o.Reason = sms.Throttled, "never reached Twilio: "+cause(err)
	case r.status == 0:
		o.Reason = "no answer: " + cause(err)
	case r.status/100 == 2 && err == nil && value(message.Sid) != "":
		return accepted(o, message)
	case r.status == http.StatusTooManyRequests:
		o.Status, o.Reason = sms.Throttled, "Twilio is being asked too much at once"
	case r.status/100 == 4 && readable && explained.Class == ClassThrottle:
		o.Status, o.Reason = sms.Throttled, explained.Meaning
	case r.status/100 == 4 && readable:
		o.Status, o.Reason = sms.Rejected, explained.Meaning
		if o.Reason == "" {
			o.Reason = fmt.Sprintf("refused with code %d", o.Code)
		}
	default:
		o.Reason = fmt.Sprintf("HTTP status %d without a usable answer", r.status)
	}
	return o
}

func accepted(o Outcome, m *openapi.ApiV2010Message) Outcome {
	o.Status, o.SID, o.Reported, o.From = sms.Accepted, value(m.Sid), value(m.Status), value(m.From)
	if n, err := strconv.Atoi(value(m.NumSegments)); err == nil {
		o.Segments = n
	}
	if m.ErrorCode != nil {
		o.Code = *m.ErrorCode
	}
	return o
}

// value is *s, or empty for the nulls that Twilio may answer anywhere.
func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// cause names a transport error without quoting it, for the error's own text may carry anything.
func cause(err error) string {
	var dns *net.DNSError
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.As(err, &dns):
		return "host not found"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "timed out"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection reset"
	default:
		return "connection failed"
	}
}

// retryAfter reads a Retry-After of seconds or of a date; the answer's own Date is the present, so no clock is needed.
func retryAfter(h http.Header) time.Duration {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return 0
	}
	return max(0, at.Sub(now))
}
