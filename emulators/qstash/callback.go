package qstash

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// callbackJSON is the body of a callback. Bodies are in base64 and the times are quoted milliseconds, as the
// documents show them: https://upstash.com/docs/qstash/features/callbacks.
type callbackJSON struct {
	Status          int         `json:"status"`
	Header          http.Header `json:"header"`
	Body            []byte      `json:"body"`
	Retried         int         `json:"retried"`
	MaxRetries      int         `json:"maxRetries"`
	SourceMessageID string      `json:"sourceMessageId"`
	URL             string      `json:"url"`
	Method          string      `json:"method"`
	SourceHeader    http.Header `json:"sourceHeader"`
	SourceBody      []byte      `json:"sourceBody"`
	NotBefore       string      `json:"notBefore"`
	CreatedAt       string      `json:"createdAt"`
	CallerIP        string      `json:"callerIP"`
	DeadLetterID    string      `json:"dlqId,omitempty"`
}

// callbackOf is the message that reports an answer or, with the id of a dead letter, the failure. It is a
// message like any other, with an id, a signature and its own retries, but without callbacks.
func (e *Emulator) callbackOf(m *message, out outcome, deadLetterID string) *message {
	to, how := m.Callback, m.callback
	if deadLetterID != "" {
		to, how = m.FailureCallback, m.failureCallback
	}
	body, err := json.Marshal(callbackJSON{
		Status: out.status, Header: out.header, Body: out.body, Retried: m.retried, MaxRetries: m.Retries,
		SourceMessageID: m.ID, URL: m.URL, Method: m.Method, SourceHeader: m.Header, SourceBody: m.Body,
		NotBefore: strconv.FormatInt(m.NotBefore.UnixMilli(), 10), CreatedAt: strconv.FormatInt(m.CreatedAt.UnixMilli(), 10),
		CallerIP: m.CallerIP, DeadLetterID: deadLetterID,
	})
	if err != nil {
		panic(err) // texts, numbers and bytes always have a JSON form
	}
	how.forward = how.forward.Clone() // a message may have more than one callback
	callback := e.newMessage(to, how, body)
	callback.Header.Set("Content-Type", "application/json")
	callback.Label = m.Label
	return callback
}
