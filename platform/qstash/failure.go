package qstash

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Failure is QStash's message to the failure callback, sent once, after the last attempt.
type Failure struct {
	// SourceMessageID is the id of the message that failed. The callback is a separate message with another id.
	SourceMessageID string
	// DeadLetterID names the message among QStash's dead letters.
	DeadLetterID string
	// URL is the destination that failed.
	URL string
	// SourceHeader and SourceBody repeat the published message; the body is decoded and complete.
	SourceHeader http.Header
	SourceBody   []byte
	// Status, Header and Body are the last answer. Status is zero when there was none. QStash may cut the body, so
	// what of it can be decoded is kept.
	Status int
	Header http.Header
	Body   []byte
	// Retried counts the retries that were made, of MaxRetries. It is less when the receiver forbade more.
	Retried, MaxRetries int
	CreatedAt           time.Time
}

// DecodeFailure reads the body of a failure callback. It takes every form that the documents and SDKs show: numbers
// as numbers or strings, header values as arrays or strings, and unknown fields.
func DecodeFailure(body []byte) (Failure, error) {
	var wire struct {
		SourceMessageID string     `json:"sourceMessageId"`
		DeadLetterID    string     `json:"dlqId"`
		URL             string     `json:"url"`
		SourceHeader    wireHeader `json:"sourceHeader"`
		SourceBody      string     `json:"sourceBody"`
		Status          wireInt    `json:"status"`
		Header          wireHeader `json:"header"`
		Body            string     `json:"body"`
		Retried         wireInt    `json:"retried"`
		MaxRetries      wireInt    `json:"maxRetries"`
		CreatedAt       wireInt    `json:"createdAt"`
	}
	if err := json.Unmarshal(body, &wire); err != nil {
		return Failure{}, fmt.Errorf("qstash: failure callback: %w", err)
	}
	if wire.SourceMessageID == "" {
		return Failure{}, errors.New("qstash: failure callback: no sourceMessageId")
	}
	source, err := base64.StdEncoding.DecodeString(wire.SourceBody)
	if err != nil {
		return Failure{}, fmt.Errorf("qstash: failure callback: sourceBody: %w", err)
	}
	last, _ := base64.StdEncoding.DecodeString(wire.Body) // an error means a cut; what precedes it is still worth reading
	return Failure{
		SourceMessageID: wire.SourceMessageID, DeadLetterID: wire.DeadLetterID, URL: wire.URL,
		SourceHeader: http.Header(wire.SourceHeader), SourceBody: source,
		Status: wire.Status.clamp(), Header: http.Header(wire.Header), Body: last,
		Retried: wire.Retried.clamp(), MaxRetries: wire.MaxRetries.clamp(),
		CreatedAt: time.UnixMilli(int64(wire.CreatedAt)).UTC(),
	}, nil
}

// wireInt is a whole number that comes as 3 or as "3"; null and "" are 0, a negative one is an error.
type wireInt int64

// UnmarshalJSON implements json.Unmarshaler.
func (n *wireInt) UnmarshalJSON(raw []byte) error {
	text := strings.Trim(string(raw), `"`)
	if text == "" || text == "null" {
		*n = 0
		return nil
	}
	v, err := strconv.ParseUint(text, 10, 53) // 53 bits: what a JSON number carries exactly, and no time overflows
	if err != nil {
		return errors.New("not a whole number")
	}
	*n = wireInt(v)
	return nil
}

func (n wireInt) clamp() int { return int(min(n, math.MaxInt32)) }

// wireHeader is {"Name": ["value"]} or {"Name": "value"}.
type wireHeader http.Header

// UnmarshalJSON implements json.Unmarshaler.
func (h *wireHeader) UnmarshalJSON(raw []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return errors.New("not an object of headers")
	}
	*h = wireHeader{}
	for name, field := range fields {
		var values []string
		if json.Unmarshal(field, &values) != nil {
			values = make([]string, 1)
			if err := json.Unmarshal(field, &values[0]); err != nil {
				return errors.New("a header is neither text nor a list of texts")
			}
		}
		name = http.CanonicalHeaderKey(name)
		(*h)[name] = append((*h)[name], values...)
	}
	return nil
}
