package qstash

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// deadLetter is a message that failed at every attempt, and the last answer.
type deadLetter struct {
	id     string
	number int // at the end of the id; they rise
	at     time.Time
	m      *message
	last   outcome
}

// deadLetterLimit bounds what is kept; beyond it the older half is forgotten, as QStash does it after some days.
const deadLetterLimit = 1 << 16

// giveUp ends a message as a dead letter and publishes its failure callback. The lock is held.
func (e *Emulator) giveUp(m *message, last outcome) {
	now := e.cfg.Clock.Now()
	dead := deadLetter{id: fmt.Sprintf("%d-%d", now.UnixMilli(), e.givenUp), number: e.givenUp, at: now, m: m, last: last}
	e.givenUp++
	if len(e.deadLetters) >= deadLetterLimit {
		e.deadLetters = slices.Clone(e.deadLetters[deadLetterLimit/2:])
	}
	e.deadLetters = append(e.deadLetters, dead)
	e.finish(m, DeadLettered, Event{Status: last.status, Err: last.why()})
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

// maxPage is the most dead letters that one call lists, deletes or retries, and what it does without a count.
const maxPage = 100

// selection is the dead letters that a call is about, oldest first, and the cursor of the next call: the id of the last of them, if
// there are more.
type selection struct {
	rows   []deadLetter
	cursor string
}

// selectDeadLetters finds those that match. If there are ids, the other filters have no effect. The lock is held.
func (e *Emulator) selectDeadLetters(f filter) (selection, error) {
	after := -1
	if f.cursor != "" {
		_, number, _ := strings.Cut(f.cursor, "-")
		var err error
		if after, err = strconv.Atoi(number); err != nil {
			return selection{}, badRequest("invalid cursor")
		}
	}
	if ids := "dlqIds"; f.has(ids) {
		f.values, f.from, f.to = map[string][]string{ids: f.values[ids]}, 0, 1<<62
	}
	var found selection
	for _, dead := range e.deadLetters {
		of := about(dead.m.ID, dead.m.URL, dead.m.Label)
		of["dlqIds"], of["callerIp"], of["responseStatus"] = dead.id, dead.m.CallerIP, strconv.Itoa(dead.last.status)
		if dead.number <= after || !f.matches(dead.at, of) {
			continue
		}
		if len(found.rows) == f.count {
			found.cursor = found.rows[f.count-1].id
			break
		}
		found.rows = append(found.rows, dead)
	}
	return found, nil
}

// bulk does work on the dead letters that a call is about, under the lock, and answers what it returns.
func (e *Emulator) bulk(w http.ResponseWriter, r *http.Request, status int, work func(filter, selection) (any, error)) {
	f, err := readFilter(r.URL.Query(), maxPage)
	var result any
	if err == nil {
		e.lock()
		var found selection
		if found, err = e.selectDeadLetters(f); err == nil {
			result, err = work(f, found)
		}
		e.unlock()
	}
	if err != nil {
		answerRefusal(w, err)
		return
	}
	answer(w, status, result)
}

type pageJSON struct {
	Cursor   string           `json:"cursor,omitempty"`
	Messages []deadLetterJSON `json:"messages"`
}

// listDeadLetters answers a page.
func (e *Emulator) listDeadLetters(w http.ResponseWriter, r *http.Request) {
	e.bulk(w, r, http.StatusOK, func(_ filter, found selection) (any, error) {
		page := pageJSON{Cursor: found.cursor, Messages: []deadLetterJSON{}}
		for _, dead := range found.rows {
			page.Messages = append(page.Messages, dead.json())
		}
		return page, nil
	})
}

type deletedJSON struct {
	Cursor  string `json:"cursor,omitempty"`
	Deleted int    `json:"deleted"`
}

// deleteDeadLetters deletes as many as a page holds; without a filter, of all.
func (e *Emulator) deleteDeadLetters(w http.ResponseWriter, r *http.Request) {
	e.bulk(w, r, http.StatusOK, func(_ filter, found selection) (any, error) {
		e.remove(found.rows)
		return deletedJSON{Cursor: found.cursor, Deleted: len(found.rows)}, nil
	})
}

type publishedJSON struct {
	MessageID    string `json:"messageId"`
	Deduplicated bool   `json:"deduplicated,omitempty"`
}

type retriedJSON struct {
	Cursor    string          `json:"cursor,omitempty"`
	Responses []publishedJSON `json:"responses"`
}

// retryDeadLetters publishes as many as a page holds again. Of ids that are named none may be missing.
func (e *Emulator) retryDeadLetters(w http.ResponseWriter, r *http.Request) {
	e.bulk(w, r, http.StatusCreated, func(f filter, found selection) (any, error) {
		if f.has("dlqIds") && len(found.rows) < min(f.count, len(f.values["dlqIds"])) {
			return nil, &refusal{status: http.StatusNotFound, text: "some dead letters were not found"}
		}
		retried := retriedJSON{Cursor: found.cursor, Responses: []publishedJSON{}}
		ids, err := e.republish(found.rows)
		for _, id := range ids {
			retried.Responses = append(retried.Responses, publishedJSON{MessageID: id})
		}
		return retried, err
	})
}

// republish publishes messages again under new ids and removes their dead letters. Deduplication does not apply. The lock is held.
func (e *Emulator) republish(rows []deadLetter) (ids []string, err error) {
	if err := e.room(len(rows)); err != nil {
		return nil, err
	}
	for _, dead := range rows {
		again := &message{
			Message: dead.m.Message, retryDelay: dead.m.retryDelay,
			callback: dead.m.callback, failureCallback: dead.m.failureCallback,
		}
		again.ID, again.CreatedAt = newID("msg_"), e.cfg.Clock.Now()
		again.NotBefore = again.CreatedAt
		e.enqueue(again)
		ids = append(ids, again.ID)
	}
	e.remove(rows)
	return ids, nil
}

// remove takes dead letters out. The lock is held.
func (e *Emulator) remove(rows []deadLetter) {
	e.deadLetters = slices.DeleteFunc(e.deadLetters, func(l deadLetter) bool {
		return slices.ContainsFunc(rows, func(row deadLetter) bool { return row.id == l.id })
	})
}

// one does work on the dead letter that the path names, under the lock, and answers what it returns.
func (e *Emulator) one(w http.ResponseWriter, r *http.Request, status int, work func(deadLetter) (any, error)) {
	e.lock()
	var result any
	var err error = &refusal{status: http.StatusNotFound, text: "dead letter not found"}
	i := slices.IndexFunc(e.deadLetters, func(l deadLetter) bool { return l.id == r.PathValue("id") })
	if i >= 0 {
		result, err = work(e.deadLetters[i])
	}
	e.unlock()
	if err != nil {
		answerRefusal(w, err)
		return
	}
	answer(w, status, result)
}

func (e *Emulator) getDeadLetter(w http.ResponseWriter, r *http.Request) {
	e.one(w, r, http.StatusOK, func(dead deadLetter) (any, error) { return dead.json(), nil })
}

func (e *Emulator) deleteDeadLetter(w http.ResponseWriter, r *http.Request) {
	e.one(w, r, http.StatusOK, func(dead deadLetter) (any, error) {
		e.remove([]deadLetter{dead})
		return deletedJSON{Deleted: 1}, nil
	})
}

func (e *Emulator) retryDeadLetter(w http.ResponseWriter, r *http.Request) {
	e.one(w, r, http.StatusCreated, func(dead deadLetter) (any, error) {
		ids, err := e.republish([]deadLetter{dead})
		if err != nil {
			return nil, err
		}
		return publishedJSON{MessageID: ids[0]}, nil
	})
}
