package qstash

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"paceline.internal/emulators/loopback"
	api "paceline.internal/platform/qstash"
)

const publishPath = "/v2/publish/"

// ServeHTTP answers QStash's REST API, except to web pages.
func (e *Emulator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	loopback.Guard(http.HandlerFunc(e.serve)).ServeHTTP(w, r)
}

func (e *Emulator) serve(w http.ResponseWriter, r *http.Request) {
	// The raw request URI: a ServeMux would clean the destination's "//" away with a redirect, and r.URL.Path has lost
	// what was percent-encoded.
	path, rawQuery, hasQuery := strings.Cut(r.RequestURI, "?")
	rawQuery, settings := takeSettings(rawQuery)
	if !e.authorised(r, settings) {
		e.refuse(w, Message{}, Event{Status: http.StatusUnauthorized, Err: "invalid token"})
		return
	}
	if err := playedPath(path); err != nil {
		answerRefusal(w, err)
		return
	}
	destination, publishing := strings.CutPrefix(path, publishPath)
	if !publishing || r.Method != http.MethodPost {
		e.routes().ServeHTTP(w, r)
		return
	}
	if hasQuery && (rawQuery != "" || len(settings) == 0) { // a bare "?" belongs to the destination
		destination += "?" + rawQuery
	}
	for name, values := range settings {
		if r.Header.Get(name) == "" {
			r.Header.Set(name, values[0])
		}
	}
	e.publish(w, r, destination)
}

// routes is everything but publishing a message. A route has the parameters that are named and no others.
func (e *Emulator) routes() *http.ServeMux {
	mux := http.NewServeMux()
	handle := func(pattern string, work http.HandlerFunc, parameters ...string) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := plain(r, parameters); err != nil {
				answerRefusal(w, err)
				return
			}
			work(w, r)
		})
	}
	mux.HandleFunc("POST /v2/batch", e.publishBatch)
	handle("GET /v2/keys", e.getKeys)
	handle("POST /v2/keys/rotate", e.rotateKeys)
	handle("GET /v2/messages/{id}", e.getMessage)
	handle("DELETE /v2/messages/{id}", e.deleteMessage)
	handle("POST /v2/messages/{id}/retry", e.retryNow)
	bulk := []string{"messageIds", "url", "host", "path", "label", "callerIp", fromDate, toDate, "count"}
	handle("DELETE /v2/messages", e.deleteMessages, bulk...)
	handle("DELETE /v2/messages/{$}", e.deleteMessages, bulk...)
	dead := []string{"dlqIds", "messageId", "url", "label", "callerIp", "responseStatus", fromDate, toDate, "count", "cursor"}
	handle("GET /v2/dlq", e.listDeadLetters, dead...)
	handle("DELETE /v2/dlq", e.deleteDeadLetters, dead...)
	handle("POST /v2/dlq/retry", e.retryDeadLetters, dead...)
	handle("GET /v2/dlq/{id}", e.getDeadLetter)
	handle("DELETE /v2/dlq/{id}", e.deleteDeadLetter)
	handle("POST /v2/dlq/retry/{id}", e.retryDeadLetter)
	logs := []string{"messageId", "messageIds", "state", "url", "host", "path", "label", fromDate, toDate, "count", "cursor"}
	handle("GET /v2/events", e.listLogs("events"), logs...) // what every SDK asks for
	handle("GET /v2/logs", e.listLogs("logs"), logs...)     // what the documents name
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { answerError(w, http.StatusNotFound, "not found") })
	return mux
}

// authorised takes the token from the Authorization header or from ?qstash_token=.
func (e *Emulator) authorised(r *http.Request, settings http.Header) bool {
	token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !bearer {
		token = settings.Get(tokenParameter)
	}
	return subtle.ConstantTimeCompare([]byte(token), []byte(DevToken)) == 1
}

const tokenParameter = "qstash_token"

// takeSettings takes the parameters meant for QStash out of a query and leaves the destination's as they were.
func takeSettings(rawQuery string) (string, http.Header) {
	settings := http.Header{}
	var rest []string
	for part := range strings.SplitSeq(rawQuery, "&") {
		name, value, _ := strings.Cut(part, "=")
		decoded, err := url.QueryUnescape(value)
		if err == nil && (strings.HasPrefix(strings.ToLower(name), "upstash-") || name == tokenParameter) {
			settings.Add(name, decoded)
			continue
		}
		rest = append(rest, part)
	}
	return strings.Join(rest, "&"), settings
}

func (e *Emulator) getKeys(w http.ResponseWriter, _ *http.Request) {
	e.mu.Lock()
	keys := api.Keys{Current: e.current, Next: e.next}
	e.mu.Unlock()
	answer(w, http.StatusOK, keys)
}

// rotateKeys makes the next key the current one at once and draws a new next one.
func (e *Emulator) rotateKeys(w http.ResponseWriter, _ *http.Request) {
	e.mu.Lock()
	e.current, e.next = e.next, "sig_"+rand.Text()
	keys := api.Keys{Current: e.current, Next: e.next}
	e.mu.Unlock()
	answer(w, http.StatusOK, keys)
}

// refuse answers and records a publish that is not accepted.
func (e *Emulator) refuse(w http.ResponseWriter, m Message, event Event) {
	e.lock()
	e.note(Refused, m, event)
	e.unlock()
	answerError(w, event.Status, event.Err)
}

// answerRefusal answers a refusal.
func answerRefusal(w http.ResponseWriter, err error) {
	if bad, ok := errors.AsType[*refusal](err); ok {
		answerError(w, bad.status, bad.text)
		return
	}
	answerError(w, http.StatusInternalServerError, err.Error())
}

// answerError answers in the one shape of QStash's errors.
func answerError(w http.ResponseWriter, status int, text string) {
	answer(w, status, map[string]string{"error": text})
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// The only failure left is a caller that has gone.
	_ = json.NewEncoder(w).Encode(body)
}

// refusal is bad input, with the status to answer.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

func badRequest(format string, args ...any) error {
	return &refusal{status: http.StatusBadRequest, text: fmt.Sprintf(format, args...)}
}
