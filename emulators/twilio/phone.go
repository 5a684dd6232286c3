package twilio

import (
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"mime"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// ErrNotOwned is returned for a message to a number that no account owns.
var ErrNotOwned = errors.New("twilio emulator: the number texted to is not of an account")

// Incoming is a message that a person's phone sends.
type Incoming struct {
	From, To   string
	Body       string  // may be empty if there is media
	Media      []Media // makes it an MMS
	OptOutType string  // Twilio's reading of it under Advanced Opt-Out
}

// Receive is a person's phone sending body to one of the accounts' numbers; see ReceiveText.
func (e *Emulator) Receive(ctx context.Context, from, to, body string) (Delivery, error) {
	return e.ReceiveText(ctx, Incoming{From: from, To: to, Body: body})
}

// ReceiveText is a person's phone sending something to one of the accounts' numbers. It keeps the opt-out list, posts the text
// to the inbound URL and plays the TwiML that comes back. It returns once that is done; what happened to the post is in
// the Delivery. The only error is ErrNotOwned.
func (e *Emulator) ReceiveText(ctx context.Context, in Incoming) (Delivery, error) {
	scope, owner := e.scopes[in.To], e.ownerOf(in.To)
	if owner == nil {
		return Delivery{}, ErrNotOwned
	}
	m := Message{
		SID: newSID("SM"), AccountSID: owner.SID, To: in.To, From: in.From, Body: in.Body, Media: slices.Clone(in.Media),
		OptOutType: in.OptOutType,
		Direction:  DirectionInbound, Segments: segments(in.Body), CreatedAt: e.cfg.Clock.Now(),
	}
	if len(m.Media) > 0 {
		m.SID, m.Segments = newSID("MM"), 1
	}
	if scope != in.To {
		m.ServiceSID = scope
	}
	m.become(StatusReceived, m.CreatedAt)
	e.mu.Lock()
	m = e.keepLocked(m)
	target := cmp.Or(e.accountURL[m.AccountSID], e.inboundURL)
	e.mu.Unlock()
	e.report(Event{Kind: EventInbound, Message: m})
	e.obey(m)

	d := Delivery{At: m.CreatedAt, MessageSID: m.SID, MessageStatus: m.Status}
	if d.Dropped = e.director.inbound(m).Drop; d.Dropped {
		d.URL, target = target, ""
	}
	if target != "" && e.work.begin() {
		defer e.work.end()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(e.ctx, cancel)()
		d = e.post(ctx, m, target, e.inboundForm(m))
	}
	e.mu.Lock()
	e.inbound = append(e.inbound, d)
	e.mu.Unlock()
	e.report(Event{Kind: EventPosted, Message: m, Post: d})
	e.play(m, d)
	return d, nil
}

// inboundForm is the form of an inbound message's webhook.
func (e *Emulator) inboundForm(m Message) url.Values {
	form := url.Values{
		"AccountSid": {m.AccountSID}, "ApiVersion": {"2010-04-01"}, "From": {m.From}, "To": {m.To}, "Body": {m.Body},
		"MessageSid": {m.SID}, "SmsSid": {m.SID}, "SmsMessageSid": {m.SID}, "SmsStatus": {string(m.Status)},
		"NumMedia": {strconv.Itoa(len(m.Media))}, "NumSegments": {strconv.Itoa(m.Segments)},
		"FromCity": {""}, "FromState": {""}, "FromZip": {""}, "FromCountry": {"US"},
		"ToCity": {""}, "ToState": {""}, "ToZip": {""}, "ToCountry": {"US"},
	}
	for i, media := range m.Media {
		form.Set("MediaUrl"+strconv.Itoa(i), media.URL)
		form.Set("MediaContentType"+strconv.Itoa(i), media.ContentType)
	}
	if m.ServiceSID != "" {
		form.Set("MessagingServiceSid", m.ServiceSID)
	}
	if m.OptOutType != "" {
		form.Set("OptOutType", m.OptOutType)
	}
	return form
}

// obey keeps the opt-out list and answers keywords as the carrier does, before the application gets the message.
// A keyword is the whole message, in any case; "STOP please" is none.
//
// Source: https://support.twilio.com/hc/en-us/articles/223134027
func (e *Emulator) obey(m Message) {
	var stop bool
	switch strings.ToUpper(strings.TrimSpace(m.Body)) {
	case "STOP", "STOPALL", "UNSUBSCRIBE", "CANCEL", "END", "QUIT", "REVOKE", "OPTOUT":
		stop = true
	case "START", "YES", "UNSTOP":
	case "HELP", "INFO":
		if !e.OptedOut(m.From, m.To) {
			e.carrierReply(m, "Reply STOP to unsubscribe. Msg&Data Rates May Apply.")
		}
		return
	default:
		return
	}
	if !e.subscribe(m, !stop) {
		return // no change, so the carrier sends nothing
	}
	if stop {
		e.report(Event{Kind: EventOptedOut, Message: m})
		e.carrierReply(m, "You have successfully been unsubscribed. You will not receive any more messages "+
			"from this number. Reply START to resubscribe.")
		return
	}
	e.report(Event{Kind: EventOptedIn, Message: m})
	e.carrierReply(m, "You have successfully been re-subscribed to messages from this number. "+
		"Reply HELP for help. Reply STOP to unsubscribe. Msg&Data Rates May Apply.")
}

// subscribe records whether messages may be sent to the phone, and reports whether that is a change.
func (e *Emulator) subscribe(m Message, wanted bool) bool {
	who := subscription{e.scopes[m.To], m.From}
	e.mu.Lock()
	defer e.mu.Unlock()
	changed := e.optedOut[who] == wanted
	if wanted {
		delete(e.optedOut, who)
	} else {
		e.optedOut[who] = true
	}
	return changed
}

// carrierReply is Twilio's own answer to a keyword, which reaches even a phone that has stopped.
func (e *Emulator) carrierReply(to Message, body string) {
	now := e.cfg.Clock.Now()
	m := Message{
		SID: newSID("SM"), AccountSID: to.AccountSID, To: to.From, From: to.To, ServiceSID: to.ServiceSID, Body: body, Direction: DirectionReply,
		Carrier: true, Segments: segments(body), CreatedAt: now,
	}
	for _, s := range []Status{StatusQueued, StatusSent, StatusDelivered} {
		m.become(s, now)
	}
	e.mu.Lock()
	m = e.keepLocked(m)
	e.mu.Unlock()
	e.report(Event{Kind: EventCreated, Message: m})
}

// twiml is the part of a reply that sends messages: <Response><Message>text</Message></Response>, the text bare or in <Body>.
type twiml struct {
	XMLName  xml.Name `xml:"Response"`
	Messages []struct {
		Text   string   `xml:",chardata"`
		Bodies []string `xml:"Body"`
	} `xml:"Message"`
}

// play sends the messages of the webhook's TwiML back to the phone. An answer that is not TwiML is only a warning:
// 11200 for a failed delivery, 12300 for a wrong content type, 12100 for a document that cannot be read.
func (e *Emulator) play(inbound Message, d Delivery) {
	if len(d.Attempts) == 0 {
		return
	}
	warn := func(code int) { e.report(Event{Kind: EventWarning, Message: inbound, Post: d, Code: code}) }
	if d.StatusCode < 200 || d.StatusCode > 299 || d.Attempts[len(d.Attempts)-1].Failure != "" {
		warn(11200)
		return
	}
	if strings.TrimSpace(d.Body) == "" {
		return
	}
	kind, _, err := mime.ParseMediaType(d.contentType)
	if err != nil || kind != "text/xml" && kind != "application/xml" {
		warn(12300)
		return
	}
	var doc twiml
	if xml.Unmarshal([]byte(d.Body), &doc) != nil {
		warn(12100)
		return
	}
	for _, message := range doc.Messages {
		text := strings.TrimSpace(strings.Join(append(message.Bodies, message.Text), ""))
		e.reply(inbound, text)
	}
}

// reply sends one TwiML message, or refuses it as the API would.
func (e *Emulator) reply(inbound Message, text string) {
	draft := Message{
		AccountSID: inbound.AccountSID, To: inbound.From, From: inbound.To, ServiceSID: inbound.ServiceSID, Body: text, Direction: DirectionReply,
		Segments: segments(text),
	}
	var no *refusal
	if code := e.account(inbound.AccountSID).defect(&draft); code != 0 {
		no = bad(code, draft)
	} else {
		_, no = e.commit(draft)
	}
	if no != nil {
		e.report(Event{Kind: EventRefused, Message: draft, Code: no.code})
	}
}
