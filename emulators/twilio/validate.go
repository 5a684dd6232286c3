package twilio

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

const maxBody = 1600 // characters of a message

// Twilio's magic numbers, https://www.twilio.com/docs/iam/test-credentials. As a sender each fails in its way, and
// the last one succeeds without ever calling back; as a recipient each fails in its way.
const magicSender = "+15005550006"

func magicFrom(number string) int {
	switch number {
	case "+15005550001":
		return 21212
	case "+15005550007":
		return 21606
	case "+15005550008":
		return 21611
	default:
		return 0
	}
}

func magicTo(number string) int {
	switch number {
	case "+15005550001":
		return 21211
	case "+15005550002":
		return 21612
	case "+15005550003":
		return 21408
	case "+15005550004":
		return 21610
	case "+15005550009":
		return 21614
	default:
		return 0
	}
}

// draft reads a create request into a message without identity, or says what is wrong with it, in Twilio's order.
func (e *Emulator) draft(caller *Account, form url.Values) (Message, *refusal) {
	m := Message{
		AccountSID: caller.SID, To: form.Get("To"), From: form.Get("From"), ServiceSID: form.Get("MessagingServiceSid"),
		Body: form.Get("Body"), StatusCallback: form.Get("StatusCallback"), Direction: DirectionAPI,
	}
	if no := unplayed(form, "To", "From", "MessagingServiceSid", "Body", "StatusCallback"); no != nil {
		return m, no
	}
	m.Segments = segments(m.Body)
	if code := caller.defect(&m); code != 0 {
		return m, bad(code, m)
	}
	if m.ServiceSID != "" && m.From == "" {
		m.From = caller.sender(m.ServiceSID, m.To)
	}
	m.silent = m.From == magicSender
	return m, nil
}

// defect is the code of the first thing wrong with m, 0 if nothing is.
func (a *Account) defect(m *Message) int {
	pool, service := a.Services[m.ServiceSID]
	own := a.owns(m.From)
	switch {
	case m.To == "":
		return 21604
	case m.From == "" && m.ServiceSID == "":
		return 21603
	case m.Body == "":
		return 21602
	case utf8.RuneCountInString(m.Body) > maxBody:
		return 21617
	case m.StatusCallback != "" && !callable(m.StatusCallback):
		return 21609
	case m.ServiceSID != "" && !service:
		return 21705
	case m.ServiceSID != "" && len(pool) == 0:
		return 21704
	case m.From != "" && magicFrom(m.From) != 0:
		return magicFrom(m.From)
	case m.From != "" && !isE164(m.From):
		return 21212
	case m.From != "" && !own && m.From != magicSender:
		return 21606
	case !isE164(m.To):
		return 21211
	default:
		return magicTo(m.To)
	}
}

// callable reports whether Twilio would take raw as a callback's URL. A host with an underscore is refused.
func callable(raw string) bool {
	u, err := url.Parse(raw)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" &&
		!strings.Contains(u.Hostname(), "_")
}

// isE164 reports whether s is a plus sign and 7 to 15 digits, the first not zero.
func isE164(s string) bool {
	digits, plus := strings.CutPrefix(s, "+")
	if !plus || len(digits) < 7 || len(digits) > 15 || digits[0] == '0' {
		return false
	}
	return strings.Trim(digits, "0123456789") == ""
}

// bad is the refusal for code. Like Twilio's own texts, some of these name the number.
func bad(code int, m Message) *refusal {
	return &refusal{status: http.StatusBadRequest, code: code, message: meaning(code, m)}
}

func meaning(code int, m Message) string {
	switch code {
	case 21211:
		return "Invalid 'To' Phone Number: " + m.To
	case 21212:
		return "Invalid From Number (caller ID): " + m.From
	case 21408:
		return "Permission to send an SMS has not been enabled for the region indicated by the 'To' number: " + m.To
	case 21602:
		return "Message body is required."
	case 21603:
		return "A 'From' phone number is required."
	case 21604:
		return "A 'To' phone number is required."
	case 21606:
		return "The From phone number " + m.From + " is not a valid, SMS-capable inbound phone number or short code for your account."
	case 21609:
		return "The StatusCallback URL " + m.StatusCallback + " is not a valid URL."
	case 21610:
		return "Attempt to send to unsubscribed recipient"
	case 21611:
		return "This 'From' number has exceeded the maximum number of queued messages"
	case 21612:
		return "The 'To' phone number: " + m.To + ", is not currently reachable using the 'From' phone number: " + m.From + " via SMS."
	case 21614:
		return "'To' number: " + m.To + ", is not a valid mobile number"
	case 21617:
		return "The concatenated message body exceeds the 1600 character limit."
	case 21704:
		return "The Messaging Service contains no phone numbers."
	case 21705:
		return "The Messaging Service Sid " + m.ServiceSID + " is invalid."
	default:
		return "Bad request"
	}
}

func moreInfo(code int) string { return "https://www.twilio.com/docs/errors/" + strconv.Itoa(code) }
