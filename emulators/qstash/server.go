package qstash

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
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

// routes is everything but publishing.
func (e *Emulator) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v2/keys", e.getKeys)
	mux.HandleFunc("POST /v2/keys/rotate", e.rotateKeys)
	mux.HandleFunc("GET /v2/messages/{id}", e.getMessage)
	mux.HandleFunc("DELETE /v2/messages/{id}", e.deleteMessage)
	mux.HandleFunc("DELETE /v2/messages", e.deleteAllMessages)
	mux.HandleFunc("DELETE /v2/messages/{$}", e.deleteAllMessages)
	mux.HandleFunc("GET /v2/dlq", e.listDeadLetters)
	mux.HandleFunc("GET /v2/dlq/{id}", e.getDeadLetter)
	mux.HandleFunc("DELETE /v2/dlq/{id}", e.deleteDeadLetter)
	mux.HandleFunc("POST /v2/dlq/retry/{id}", e.retryDeadLetter)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { answerError(w, http.StatusNotFound, "not found") })
	return mux
}

// authorised takes the token from the Authorization header or from ?qstash_token=.
func (e *Emulator) authorised(r *http.Request, settings http.Header) bool {
	token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !bearer {
		token = settings.Get(tokenParameter)
	}
	return subtle.ConstantTimeCompare([]byte(token), []byte(e.cfg.Token)) == 1
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
