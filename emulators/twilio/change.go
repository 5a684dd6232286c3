package twilio

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// notComplete is Twilio's refusal to change a message that has not come to its end.
var notComplete = &refusal{http.StatusConflict, 20009, "Resource not complete"}

// update redacts a message: an empty Body deletes its text. No message here is scheduled, so none can be canceled. Source:
// https://www.twilio.com/docs/messaging/api/message-resource#update-a-message-resource
func (e *Emulator) update(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxRequest)
	if err := r.ParseForm(); err != nil {
		refuse(w, refusal{http.StatusBadRequest, 20001, "The request body cannot be read"})
		return
	}
	if no := unplayed(r.PostForm, "Body", "Status"); no != nil {
		refuse(w, *no)
		return
	}
	e.change(w, r, func(m *Message) *refusal { return redact(m, r.PostForm) }, func(m Message) {
		e.report(Event{Kind: EventRedacted, Message: m})
		writeJSON(w, http.StatusOK, e.resource(m))
	})
}

func redact(m *Message, form url.Values) *refusal {
	switch {
	case form.Has("Status") && form.Get("Status") != "canceled":
		return &refusal{http.StatusBadRequest, 20001, "Status can only be set to canceled"}
	case form.Has("Status"):
		return &refusal{http.StatusBadRequest, 20001, "The message cannot be canceled: it is not scheduled"}
	case !form.Has("Body"):
		return &refusal{http.StatusBadRequest, 20001, "There is nothing to update: Body or Status is required"}
	case form.Get("Body") != "":
		return &refusal{http.StatusBadRequest, 20001, "Body can only be redacted: it must be empty"}
	case !m.complete():
		return notComplete
	}
	m.Body = ""
	return nil
}

// remove deletes a message.
func (e *Emulator) remove(w http.ResponseWriter, r *http.Request) {
	e.change(w, r, func(m *Message) *refusal {
		if !m.complete() {
			return notComplete
		}
		delete(e.bySID, m.SID)
		e.messages = slices.DeleteFunc(e.messages, func(kept *Message) bool { return kept == m })
		return nil
	}, func(m Message) {
		e.report(Event{Kind: EventRemoved, Message: m})
		w.WriteHeader(http.StatusNoContent)
	})
}

// change applies work to the message that the path names, under the lock, and then answers with what it is now.
func (e *Emulator) change(w http.ResponseWriter, r *http.Request, work func(*Message) *refusal, answer func(Message)) {
	sid, _ := strings.CutSuffix(r.PathValue("file"), ".json")
	e.mu.Lock()
	m, found := e.bySID[sid]
	found = found && m.AccountSID == callerOf(r).SID
	var no *refusal
	var now Message
	if found {
		if no = work(m); no == nil {
			m.UpdatedAt = e.cfg.Clock.Now()
		}
		now = m.snapshot()
	}
	e.mu.Unlock()
	switch {
	case !found:
		notFound(w, r)
	case no != nil:
		refuse(w, *no)
	default:
		answer(now)
	}
}

// complete reports whether nothing more happens to a message. For a carrier without receipts, a sent message is complete.
func (m *Message) complete() bool {
	switch m.Status {
	case StatusSent, StatusDelivered, StatusUndelivered, StatusFailed, StatusReceived:
		return true
	case StatusAccepted, StatusQueued, StatusSending:
	}
	return false
}
