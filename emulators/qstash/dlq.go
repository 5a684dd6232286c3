package qstash

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// deadLetter is a message whose attempts have all failed, and the last answer.
type deadLetter struct {
	id   string
	at   time.Time
	m    *message
	last outcome
}

// giveUp ends a message as a dead letter and publishes its failure callback. The lock is held.
func (e *Emulator) giveUp(m *message, last outcome) {
	now := e.cfg.Clock.Now()
	dead := deadLetter{id: fmt.Sprintf("%d-%d", now.UnixMilli(), e.givenUp), at: now, m: m, last: last}
	e.givenUp++
	e.deadLetters = append(e.deadLetters, dead)
	event := Event{Status: last.status}
	if last.err != nil {
		event.Err = last.err.Error()
	}
	e.finish(m, DeadLettered, event)
	if m.FailureCallback != "" {
		e.enqueue(e.callbackOf(m, last, dead.id))
	}
}

// deadLetterJSON is a message and the last answer to it.
type deadLetterJSON struct {
	messageJSON

	DeadLetterID       string      `json:"dlqId"`
	ResponseStatus     int         `json:"responseStatus"`
	ResponseHeader     http.Header `json:"responseHeader"`
	ResponseBody       string      `json:"responseBody,omitempty"`
	ResponseBodyBase64 []byte      `json:"responseBodyBase64,omitempty"`
}

func (l deadLetter) json() deadLetterJSON {
	text, binary := textOrBinary(l.last.body)
	return deadLetterJSON{
		messageJSON: l.m.json(), DeadLetterID: l.id, ResponseStatus: l.last.status, ResponseHeader: l.last.header,
		ResponseBody: text, ResponseBodyBase64: binary,
	}
}

// maxPage is the most dead letters that one page holds.
const maxPage = 100

// listDeadLetters answers a page, oldest first, of those that match every filter. The cursor is the id of the last one shown.
func (e *Emulator) listDeadLetters(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	count := maxPage
	if raw := query.Get("count"); raw != "" {
		var err error
		if count, err = strconv.Atoi(raw); err != nil || count < 1 || count > maxPage {
			answerError(w, http.StatusBadRequest, "invalid count")
			return
		}
	}
	answer(w, http.StatusOK, e.page(query, count))
}

type pageJSON struct {
	Cursor   string           `json:"cursor,omitempty"`
	Messages []deadLetterJSON `json:"messages"`
}

func (e *Emulator) page(query url.Values, count int) pageJSON {
	e.mu.Lock()
	defer e.mu.Unlock()
	page := pageJSON{Messages: []deadLetterJSON{}}
	begin := e.indexOf(query.Get("cursor")) + 1 // an unknown cursor begins again
	for _, dead := range e.deadLetters[begin:] {
		switch {
		case !dead.matches(query):
		case len(page.Messages) == count:
			page.Cursor = page.Messages[count-1].DeadLetterID
			return page
		default:
			page.Messages = append(page.Messages, dead.json())
		}
	}
	return page
}

// matches reports whether the dead letter passes all filters. Values repeated or separated by commas are alternatives.
func (l deadLetter) matches(query url.Values) bool {
	for name, value := range map[string]string{
		"messageId": l.m.ID, "url": l.m.URL, "label": l.m.Label, "dlqIds": l.id,
		"callerIp": l.m.CallerIP, "responseStatus": strconv.Itoa(l.last.status),
	} {
		wanted := strings.Split(strings.Join(query[name], ","), ",")
		if query.Has(name) && !slices.Contains(wanted, value) {
			return false
		}
	}
	from, err := strconv.ParseInt(query.Get("fromDate"), 10, 64)
	if err == nil && l.at.UnixMilli() < from {
		return false
	}
	to, err := strconv.ParseInt(query.Get("toDate"), 10, 64)
	return err != nil || l.at.UnixMilli() <= to
}

func (e *Emulator) getDeadLetter(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	i := e.indexOf(r.PathValue("id"))
	var shown deadLetterJSON
	if i >= 0 {
		shown = e.deadLetters[i].json()
	}
	e.mu.Unlock()
	if i < 0 {
		answerError(w, http.StatusNotFound, "dead letter not found")
		return
	}
	answer(w, http.StatusOK, shown)
}

func (e *Emulator) deleteDeadLetter(w http.ResponseWriter, r *http.Request) {
	if _, found := e.takeDeadLetter(r.PathValue("id")); !found {
		answerError(w, http.StatusNotFound, "dead letter not found")
		return
	}
	answer(w, http.StatusOK, map[string]int{"deleted": 1})
}

// retryDeadLetter publishes the message again under a new id and removes the dead letter. Deduplication does not apply.
func (e *Emulator) retryDeadLetter(w http.ResponseWriter, r *http.Request) {
	dead, found := e.takeDeadLetter(r.PathValue("id"))
	if !found {
		answerError(w, http.StatusNotFound, "dead letter not found")
		return
	}
	again := &message{
		Message: dead.m.Message, retryDelay: dead.m.retryDelay,
		callback: dead.m.callback, failureCallback: dead.m.failureCallback,
	}
	again.ID, again.CreatedAt = newID("msg_"), e.cfg.Clock.Now()
	again.NotBefore = again.CreatedAt
	if _, accepted := e.accept(again, ""); !accepted {
		answerError(w, http.StatusServiceUnavailable, "shutting down")
		return
	}
	answer(w, http.StatusCreated, map[string]string{"messageId": again.ID})
}

func (e *Emulator) takeDeadLetter(id string) (deadLetter, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	i := e.indexOf(id)
	if i < 0 {
		return deadLetter{}, false
	}
	dead := e.deadLetters[i]
	e.deadLetters = slices.Delete(e.deadLetters, i, i+1)
	return dead, true
}

// indexOf finds a dead letter, or returns -1. The lock is held.
func (e *Emulator) indexOf(id string) int {
	return slices.IndexFunc(e.deadLetters, func(l deadLetter) bool { return l.id == id })
}
