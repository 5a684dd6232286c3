package kapso

import (
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/gateway/route"
	numbers "paceline.internal/platform/phone"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// scalar is a string, or a number as it is written: ids and timestamps come as either.
type scalar string

// UnmarshalJSON implements json.Unmarshaler.
func (s *scalar) UnmarshalJSON(body []byte) error {
	var text string
	if err := json.Unmarshal(body, &text); err == nil {
		*s = scalar(route.Storable(text))
		return nil
	}
	var number json.Number
	if err := json.Unmarshal(body, &number); err != nil {
		return errors.New("neither a string nor a number")
	}
	*s = scalar(number)
	return nil
}

// event has the fields that we read of an event. Those that only explain are left as they came, so that a change in them loses
// no STOP.
type event struct {
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
		Image    media `json:"image"`
		Video    media `json:"video"`
		Document media `json:"document"`
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

type media struct {
	Caption string `json:"caption"`
}

// phoneNumberID returns the WhatsApp number that the event is about.
func (e *event) phoneNumberID() string {
	for _, id := range []scalar{e.PhoneNumberID, e.Conversation.PhoneNumberID, e.Message.Kapso.PhoneNumberID} {
		if id != "" {
			return string(id)
		}
	}
	return ""
}

// text reads a person's message. Its id is WhatsApp's and not the delivery's, since Kapso delivers a message of a failed
// batch again by itself. Messages that our side sent from another device and those of an import of old conversations
// are ignored: an answer of last year does not count.
func (e *event) text(hook route.Webhook, orgID string) (route.Webhook, error) {
	m := &e.Message
	if err := route.CheckEventID("message.id", string(m.ID)); err != nil {
		return route.Webhook{}, err
	}
	if m.Kapso.Direction == "outbound" || m.Kapso.Origin == "history_sync" || m.Type == "reaction" && m.Reaction.Emoji == "" {
		hook.Result = route.ResultIgnored
		return hook, nil
	}
	from, user := e.person(), e.user()
	if from == "" { // kept all the same: it may be a STOP
		from = numberless + user
	}
	number := e.phoneNumberID()
	if err := route.CheckEventID("phone_number_id", number); err != nil {
		return route.Webhook{}, err
	}
	request := &onboardingv1.ReceiveMessageRequest{
		From: from, To: "whatsapp:" + number, Body: e.words(), OrgId: orgID,
		Whatsapp: &onboardingv1.WhatsAppMessage{MessageId: string(m.ID), Type: m.Type, UserId: user},
	}
	if at, err := strconv.ParseInt(string(m.Timestamp), 10, 64); err == nil && at > 0 && at <= maxUnixTime {
		request.Whatsapp.SentAt = &timestamppb.Timestamp{Seconds: at}
	}
	if m.Kapso.HasMedia || slices.Contains([]string{"image", "video", "audio", "document", "sticker"}, m.Type) {
		request.Media = 1
	}
	hook.Request = request
	return hook, nil
}

// maxUnixTime is the last second that a Timestamp can be, in the year 9999.
const maxUnixTime = 253402300799

// words returns the words of the person. A pressed button says its title, a picture its caption, a reaction its emoji; a place, a
// contact or a voice says nothing that can be read, like a picture that comes by MMS.
func (e *event) words() string {
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

// person returns the number of the sender, in E.164; empty when WhatsApp does not say.
func (e *event) person() string {
	for _, number := range []scalar{e.Message.From, e.Conversation.PhoneNumber, e.Message.Kapso.PhoneNumber} {
		if phone := phoneOf(string(number)); phone != "" {
			return phone
		}
	}
	return ""
}

// numberless begins the sender of a message from which WhatsApp has left out the number; its id of the person follows, if it has one.
const numberless = "whatsapp:"

// userID matches WhatsApp's id of a person for one business: a country and an opaque part, such as
// US.13491208655302741918 (Meta, Business-scoped user IDs). It stands in other fields, or in place of the number.
var userID = regexp.MustCompile(`^[A-Z]{2}\.[A-Za-z0-9.]{1,128}$`)

// user returns WhatsApp's id of the person; empty when there is none.
func (e *event) user() string {
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

// status reads a receipt of one of our messages.
func (e *event) status(hook route.Webhook, status string) (route.Webhook, error) {
	m := &e.Message
	if err := route.CheckEventID("message.id", string(m.ID)); err != nil {
		return route.Webhook{}, err
	}
	if m.Kapso.Direction == "inbound" {
		hook.Result = route.ResultIgnored
		return hook, nil
	}
	code, errs := e.failure()
	var signedBy []string // no other organisation may say anything about its messages
	if hook.OrgID != "" {
		signedBy = []string{hook.OrgID}
	}
	hook.Request = &messagingv1.RecordStatusRequest{
		SignedByOrgIds: signedBy, TwilioSid: string(m.ID), Status: status, ErrorCode: code, Raw: map[string]string{
			"source": "kapso", "message_id": string(m.ID), "status": status, "error_code": strconv.Itoa(int(code)),
			"errors": string(errs), "phone_number_id": e.phoneNumberID(), "at": string(m.Timestamp),
		},
	}
	return hook, nil
}

// failure returns Meta's last error in the history of the message, if there is one that can be read.
func (e *event) failure() (code int32, errs json.RawMessage) {
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
