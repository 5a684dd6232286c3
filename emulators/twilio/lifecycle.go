package twilio

import (
	"net/url"
	"strconv"
)

// commit makes the draft a message and starts its life, unless its recipient has stopped the sender. The check and
// the creation are one step, so nothing is created after a STOP has been taken.
func (e *Emulator) commit(draft Message) (Message, *refusal) {
	m := draft
	m.SID = newSID("SM")
	m.CreatedAt = e.cfg.Clock.Now()
	first := StatusQueued
	if m.ServiceSID != "" {
		first = StatusAccepted
	}
	m.become(first, m.CreatedAt)

	e.mu.Lock()
	if e.optedOut[subscription{e.scopes[m.From], m.To}] {
		e.mu.Unlock()
		return draft, bad(21610, draft)
	}
	created := e.keepLocked(m)
	e.mu.Unlock()

	e.report(Event{Kind: EventCreated, Message: created})
	if !m.silent {
		e.live(created)
	}
	return created, nil
}

// keepLocked adds m to the record and returns its own copy.
func (e *Emulator) keepLocked(m Message) Message {
	e.messages = append(e.messages, &m)
	e.bySID[m.SID] = &m
	return m.snapshot()
}

// live sets every step of a new message's life on the clock. `sending` is a status without a callback, and the
// initial status has none either.
func (e *Emulator) live(m Message) {
	at, fate := e.cfg.Receipts, e.director.fate(m)
	if m.Status == StatusAccepted {
		e.work.after(at.Queued, func() { e.advance(m.SID, StatusQueued, 0) })
	}
	if fate.Final == StatusFailed {
		e.work.after(at.Sent, func() { e.advance(m.SID, StatusFailed, fate.Code) })
		return
	}
	e.work.after(at.Sent, func() {
		e.advance(m.SID, StatusSending, 0)
		e.advance(m.SID, StatusSent, 0)
	})
	if fate.Final != StatusSent {
		e.work.after(at.Delivered, func() { e.advance(m.SID, fate.Final, fate.Code) })
	}
}

// advance moves a message on and posts its callback.
func (e *Emulator) advance(sid string, status Status, code int) {
	e.mu.Lock()
	m := e.bySID[sid]
	m.become(status, e.cfg.Clock.Now())
	m.ErrorCode = code
	now := m.snapshot()
	e.mu.Unlock()

	e.report(Event{Kind: EventStatus, Message: now, Code: code})
	if now.StatusCallback != "" && status != StatusSending {
		e.callback(now)
	}
}

// callback posts the receipt of m.Status, as often and as late as the script says.
func (e *Emulator) callback(m Message) {
	fault := e.director.callback(m)
	if fault.Drop {
		e.recordCallback(m, Delivery{
			At: e.cfg.Clock.Now(), MessageSID: m.SID, MessageStatus: m.Status, URL: m.StatusCallback, Dropped: true,
		})
		return
	}
	for range fault.Duplicate + 1 {
		e.work.after(fault.Delay, func() { e.enqueue(m) })
	}
}

// enqueue posts the callback once the message's earlier ones have ended, so that a clock that jumps over several
// steps at once does not reorder them by accident.
func (e *Emulator) enqueue(m Message) {
	done := make(chan struct{})
	e.mu.Lock()
	previous := e.lastPost[m.SID]
	e.lastPost[m.SID] = done
	e.mu.Unlock()

	e.work.spawn(func() {
		if previous != nil {
			<-previous
		}
		e.recordCallback(m, e.post(e.ctx, m, m.StatusCallback, e.receipt(m)))
		close(done)
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.lastPost[m.SID] == done {
			delete(e.lastPost, m.SID)
		}
	})
}

func (e *Emulator) recordCallback(m Message, d Delivery) {
	e.mu.Lock()
	e.callbacks = append(e.callbacks, d)
	e.mu.Unlock()
	e.report(Event{Kind: EventCallback, Message: m, Post: d})
}

// receipt is the form of a status callback.
func (e *Emulator) receipt(m Message) url.Values {
	form := url.Values{
		"AccountSid": {m.AccountSID}, "ApiVersion": {"2010-04-01"}, "From": {m.From}, "To": {m.To},
		"MessageSid": {m.SID}, "SmsSid": {m.SID}, "MessageStatus": {string(m.Status)}, "SmsStatus": {string(m.Status)},
	}
	if m.ServiceSID != "" {
		form.Set("MessagingServiceSid", m.ServiceSID)
	}
	if m.ErrorCode != 0 {
		form.Set("ErrorCode", strconv.Itoa(m.ErrorCode))
	}
	if m.Status == StatusDelivered || m.Status == StatusUndelivered {
		form.Set("RawDlrDoneDate", m.UpdatedAt.UTC().Format("0601021504"))
	}
	return form
}
