package gateway

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	numbers "paceline.internal/platform/phone"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// Kapso's webhooks, by docs.kapso.ai (Webhooks: Overview, Security, Message events, Advanced; read 2026-11) and by its own
// references in github.com/gokapso/agent-skills (integrate-whatsapp/references/webhooks-reference.md, webhooks-event-types.md):
//
//   - X-Webhook-Signature is the HMAC-SHA256 of the raw body under the webhook's secret key, in hex.
//   - X-Webhook-Event names the event, such as whatsapp.message.received. X-Idempotency-Key is unique per event.
//   - X-Webhook-Payload-Version is v2 for new webhooks; v1 has another shape and the field whatsapp_config.
//   - With buffering the body is {"type", "batch": true, "data": [event, ...]}. After the last retry of a batch each of its
//     events is delivered by itself.
//   - Anything but a 200 within ten seconds is retried after 10, 40 and 90 seconds. The docs say "200" throughout; that a 202
//     counts as well is how webhooks are commonly taken, and if it did not, the repeats would be duplicates.
//   - Neither from nor phone_number are always there: a person with a user name is known by an id only (from_user_id, or in from itself).
const (
	headerKapsoSignature = "X-Webhook-Signature"
	headerKapsoEvent     = "X-Webhook-Event"
	headerKapsoKey       = "X-Idempotency-Key"
	headerKapsoBatch     = "X-Webhook-Batch"
	headerKapsoVersion   = "X-Webhook-Payload-Version"

	// maxKapsoBatch is Kapso's own largest batch.
	maxKapsoBatch = 100
)

// newKapso makes the source. An empty phoneNumberID takes the events of every number that signs with our secret.
func newKapso(keys webhookKeys, phoneNumberID string) source {
	k := kapso{phoneNumberID: phoneNumberID}
	return source{
		name: "kapso", keys: keys, limit: maxBody, places: newPlaces(maxCallbacks, 0), signature: kapsoSignature, read: k.read,
	}
}

func kapsoSignature(header http.Header) ([]byte, error) {
	text := header.Get(headerKapsoSignature)
	if text == "" {
		return nil, errors.New("the signature is missing")
	}
	mac, err := hex.DecodeString(text)
	if err != nil {
		return nil, errors.New("the signature is no hex")
	}
	return mac, nil
}

// kapso reads the events of one WhatsApp number.
type kapso struct{ phoneNumberID string }

// scalar is a string, or a number as it is written: ids and timestamps come as either.
type scalar string

// UnmarshalJSON implements json.Unmarshaler.
func (s *scalar) UnmarshalJSON(body []byte) error {
	var text string
	if err := json.Unmarshal(body, &text); err == nil {
		*s = scalar(storable(text))
		return nil
	}
	var number json.Number
	if err := json.Unmarshal(body, &number); err != nil {
		return errors.New("neither a string nor a number")
	}
	*s = scalar(number)
	return nil
}

// kapsoBody is a body: one event, or a batch of them.
type kapsoBody struct {
	Type  string            `json:"type"`  // of a batch
	Event string            `json:"event"` // of a project's event
	Batch bool              `json:"batch"`
	Data  []json.RawMessage `json:"data"`
}

// kapsoEvent is what we read of an event. The fields that only explain are left as they came, so that a change in them loses
// no STOP.
type kapsoEvent struct {
	PhoneNumberID scalar `json:"phone_number_id"`
	Conversation  struct {
		PhoneNumber   scalar `json:"phone_number"`
		PhoneNumberID scalar `json:"phone_number_id"`
		UserID        scalar `json:"business_scoped_user_id"`
	} `json:"conversation"`
	Contact struct {
		UserID scalar `json:"user_id"`
	} `json:"contact"`
	Message struct {
		ID         scalar `json:"id"`
		From       scalar `json:"from"`
		FromUserID scalar `json:"from_user_id"`
		UserID     scalar `json:"user_id"`
		Timestamp  scalar `json:"timestamp"`
		Type       string `json:"type"`
		Text       struct {
			Body string `json:"body"`
		} `json:"text"`
		Button struct {
			Text string `json:"text"`
		} `json:"button"`
		Interactive struct {
			ButtonReply struct {
				Title string `json:"title"`
			} `json:"button_reply"`
			ListReply struct {
				Title string `json:"title"`
			} `json:"list_reply"`
		} `json:"interactive"`
		Image    kapsoMedia `json:"image"`
		Video    kapsoMedia `json:"video"`
		Document kapsoMedia `json:"document"`
		Reaction struct {
			Emoji string `json:"emoji"`
		} `json:"reaction"`
		Kapso struct {
			Direction     string          `json:"direction"`
			Origin        string          `json:"origin"`
			PhoneNumber   scalar          `json:"phone_number"`
			PhoneNumberID scalar          `json:"phone_number_id"`
			HasMedia      bool            `json:"has_media"`
			Statuses      json.RawMessage `json:"statuses"`
		} `json:"kapso"`
	} `json:"message"`
}

type kapsoMedia struct {
	Caption string `json:"caption"`
}

const (
	kapsoReceived = "kapso.message.received"
	kapsoMessages = "kapso.message."
	kapsoNumbers  = "kapso.phone_number."
)

// kapsoStatuses are the events about a message of ours, and the status that each reports.
var kapsoStatuses = []string{"sent", "delivered", "read", "failed"}

// read implements source.
func (k kapso) read(header http.Header, body []byte) ([]webhook, error) {
	if version := header.Get(headerKapsoVersion); version != "" && version != "v2" {
		return nil, errors.New("only payload version v2 is read; set the webhook to it")
	}
	whole, err := keptObject(body)
	if err != nil {
		return nil, err
	}
	var outer kapsoBody
	if err := json.Unmarshal(whole, &outer); err != nil {
		return nil, errors.New("the body is no event of Kapso")
	}
	name, err := kapsoEventName(header.Get(headerKapsoEvent), outer)
	if err != nil {
		return nil, err
	}
	events := []json.RawMessage{whole}
	if outer.Batch || header.Get(headerKapsoBatch) == "true" {
		if events = outer.Data; len(events) == 0 || len(events) > maxKapsoBatch {
			return nil, fmt.Errorf("a batch has 1 to %d events", maxKapsoBatch)
		}
	}
	hooks := make([]webhook, 0, len(events))
	for i, event := range events {
		id := header.Get(headerKapsoKey)
		if len(events) > 1 && id != "" {
			id += "." + strconv.Itoa(i) // only of events that are no messages; those have ids of their own
		}
		hook, err := k.one(name, id, event)
		if err != nil {
			return nil, err
		}
		if text, ok := hook.request.(*onboardingv1.ReceiveMessageRequest); ok {
			text.Whatsapp.OfSeveral = len(events) > 1
		}
		hooks = append(hooks, hook)
	}
	return hooks, nil
}

// kapsoEventName is the event in our words: kapso.message.received for whatsapp.message.received. The body names it in a batch
// and in a project's event; where it does, it is signed, and the header may not say otherwise.
func kapsoEventName(header string, body kapsoBody) (string, error) {
	name := header
	for _, signed := range []string{body.Type, body.Event} {
		switch {
		case signed == "":
		case name == "":
			name = signed
		case name != signed:
			return "", errors.New("the header and the body name two events")
		}
	}
	name = "kapso." + strings.TrimPrefix(strings.TrimPrefix(name, "whatsapp."), "kapso.")
	return name, checkEventName(name)
}

// one reads one event.
func (k kapso) one(name, id string, body json.RawMessage) (webhook, error) {
	var event kapsoEvent
	if err := json.Unmarshal(body, &event); err != nil {
		return webhook{}, errors.New("the body is no event of Kapso")
	}
	hook := webhook{eventType: name}
	if !strings.HasPrefix(name, kapsoNumbers) && k.phoneNumberID != "" && event.phoneNumberID() != k.phoneNumberID {
		hook.result = resultUnknownPhone
		return hook, nil
	}
	status := strings.TrimPrefix(name, kapsoMessages)
	switch {
	case name == kapsoReceived:
		return event.text(hook)
	case slices.Contains(kapsoStatuses, status) && status != name:
		return event.status(hook, status)
	}
	if err := checkEventID(headerKapsoKey, id); err != nil {
		return webhook{}, err
	}
	subject := "" // what one person answers to a survey waits for no other's
	if strings.HasPrefix(name, kapsoNumbers) {
		subject = "kapso:" + event.phoneNumberID()
	}
	hook.request = enqueue("kapso", name, name+":"+id, subject, body)
	return hook, nil
}

// phoneNumberID is the WhatsApp number that the event is about.
func (e *kapsoEvent) phoneNumberID() string {
	for _, id := range []scalar{e.PhoneNumberID, e.Conversation.PhoneNumberID, e.Message.Kapso.PhoneNumberID} {
		if id != "" {
			return string(id)
		}
	}
	return ""
}

// text is a person's message. Its id is WhatsApp's and not the delivery's, since Kapso delivers a message of a failed
// batch again by itself. Messages that our side sent from another device and those of an import of old conversations
// are ignored: an answer of last year does not count.
func (e *kapsoEvent) text(hook webhook) (webhook, error) {
	m := &e.Message
	if err := checkEventID("message.id", string(m.ID)); err != nil {
		return webhook{}, err
	}
	if m.Kapso.Direction == "outbound" || m.Kapso.Origin == "history_sync" || m.Type == "reaction" && m.Reaction.Emoji == "" {
		hook.result = resultIgnored
		return hook, nil
	}
	from, user := e.person(), e.user()
	if from == "" { // kept all the same: it may be a STOP
		from = numberless + user
	}
	number := e.phoneNumberID()
	if err := checkEventID("phone_number_id", number); err != nil {
		return webhook{}, err
	}
	request := &onboardingv1.ReceiveMessageRequest{
		From: from, To: "whatsapp:" + number, Body: e.words(),
		Whatsapp: &onboardingv1.WhatsAppMessage{MessageId: string(m.ID), Type: m.Type, UserId: user},
	}
	if at, err := strconv.ParseInt(string(m.Timestamp), 10, 64); err == nil && at > 0 && at <= maxUnixTime {
		request.Whatsapp.SentAt = &timestamppb.Timestamp{Seconds: at}
	}
	if m.Kapso.HasMedia || slices.Contains([]string{"image", "video", "audio", "document", "sticker"}, m.Type) {
		request.Media = 1
	}
	hook.request = request
	return hook, nil
}

// maxUnixTime is the last second that a Timestamp can be, in the year 9999.
const maxUnixTime = 253402300799

// queuedText is a WhatsApp message as the release before takes it, which refuses a ReceiveMessage without a twilio_sid: as a job, under
// the key and with the payload that this release gives it too, so that either finds what the other has stored. It goes with the
// release after this one.
func queuedText(in *onboardingv1.ReceiveMessageRequest) *onboardingv1.EnqueueWebhookJobRequest {
	message, sentAt := in.GetWhatsapp(), ""
	if at := message.GetSentAt(); at != nil {
		sentAt = strconv.FormatInt(at.GetSeconds(), 10)
	}
	payload, err := json.Marshal(map[string]any{
		"twilio_sid": message.GetMessageId(), "from": in.GetFrom(), "to": in.GetTo(), "messaging_service_sid": "", "body": in.GetBody(),
		"segments": 0, "media": in.GetMedia(), "opt_out_type": "", "channel": "whatsapp", "type": message.GetType(), "sent_at": sentAt,
	})
	if err != nil { // strings and numbers have a JSON form
		panic(err)
	}
	return enqueue("kapso", kapsoReceived, kapsoReceived+":"+message.GetMessageId(), in.GetFrom(), payload)
}

// words are what the person said. A pressed button says its title, a picture its caption, a reaction its emoji; a place, a
// contact or a voice says nothing that can be read, like a picture that comes by MMS.
func (e *kapsoEvent) words() string {
	m := &e.Message
	switch m.Type {
	case "text":
		return m.Text.Body
	case "button":
		return m.Button.Text
	case "interactive":
		if m.Interactive.ButtonReply.Title != "" {
			return m.Interactive.ButtonReply.Title
		}
		return m.Interactive.ListReply.Title
	case "image":
		return m.Image.Caption
	case "video":
		return m.Video.Caption
	case "document":
		return m.Document.Caption
	case "reaction":
		return m.Reaction.Emoji
	}
	return ""
}

// person is whose message it is, E.164; empty when WhatsApp does not say.
func (e *kapsoEvent) person() string {
	for _, number := range []scalar{e.Message.From, e.Conversation.PhoneNumber, e.Message.Kapso.PhoneNumber} {
		if phone := phoneOf(string(number)); phone != "" {
			return phone
		}
	}
	return ""
}

// numberless begins the sender of a message from which WhatsApp has left out the number; its id of the person follows, if it has one.
const numberless = "whatsapp:"

// userID is the form of WhatsApp's id of a person for one business: a country and what has no meaning to us, such as
// US.13491208655302741918 (Meta, Business-scoped user IDs). It stands in fields of its own, or where the number would.
var userID = regexp.MustCompile(`^[A-Z]{2}\.[A-Za-z0-9.]{1,128}$`)

// user returns WhatsApp's id of the person; empty when there is none.
func (e *kapsoEvent) user() string {
	for _, id := range []scalar{
		e.Message.FromUserID, e.Message.UserID, e.Conversation.UserID, e.Contact.UserID, e.Message.From, e.Conversation.PhoneNumber,
	} {
		if userID.MatchString(string(id)) {
			return string(id)
		}
	}
	return ""
}

// phoneOf returns WhatsApp's name of an account as a phone number in E.164, in its stored form; empty when it is none.
func phoneOf(account string) string {
	e164, err := numbers.Read("+" + strings.TrimPrefix(account, "+"))
	if err != nil {
		return ""
	}
	return e164
}

// status is what became of a message of ours.
func (e *kapsoEvent) status(hook webhook, status string) (webhook, error) {
	m := &e.Message
	if err := checkEventID("message.id", string(m.ID)); err != nil {
		return webhook{}, err
	}
	if m.Kapso.Direction == "inbound" {
		hook.result = resultIgnored
		return hook, nil
	}
	code, errs := e.failure()
	hook.request = &messagingv1.RecordStatusRequest{
		TwilioSid: string(m.ID), Status: status, ErrorCode: code, Raw: map[string]string{
			"source": "kapso", "message_id": string(m.ID), "status": status, "error_code": strconv.Itoa(int(code)),
			"errors": string(errs), "phone_number_id": e.phoneNumberID(), "at": string(m.Timestamp),
		},
	}
	return hook, nil
}

// failure is Meta's last error in the history of the message, if there is one that can be read.
func (e *kapsoEvent) failure() (code int32, errs json.RawMessage) {
	var history []struct {
		Errors json.RawMessage `json:"errors"`
	}
	if json.Unmarshal(e.Message.Kapso.Statuses, &history) != nil {
		return 0, nil
	}
	for _, one := range slices.Backward(history) {
		var listed []struct {
			Code int32 `json:"code"`
		}
		if json.Unmarshal(one.Errors, &listed) == nil && len(listed) > 0 {
			return max(listed[0].Code, 0), one.Errors
		}
	}
	return 0, nil
}
