package twilio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	openapi "github.com/twilio/twilio-go/rest/api/v2010"
	messagingapi "github.com/twilio/twilio-go/rest/messaging/v1"
)

const (
	// inboundPage sets how many messages one page of a listing of inbound ones has.
	inboundPage = 250
	// sendersPage sets how many senders of a service one page has, and senderPages how many pages are read at most. By
	// default a service has up to 400 numbers.
	sendersPage = 500
	senderPages = 20
	// dateSlack sets how far beyond the end of a span Twilio is asked for. Its documentation knows the bounds of DateSent as
	// days, although it takes times: were one taken for its day, the list would have more than was asked for, and never less.
	dateSlack = 24 * time.Hour
)

// Incoming is a message of a person, as Twilio has it.
type Incoming struct {
	SID        string
	From, To   string
	ServiceSID string // the messaging service that To belonged to; may be empty
	Body       string
	Segments   int
	Media      int
	SentAt     time.Time // when Twilio got it, in whole seconds
}

// ListInbound reads one page of what people texted to a number in a span of time, the newest first, within the timeout and
// the caller's context, and where the next page is: to be given back, empty after the last. A page may have no message.
func (c *Client) ListInbound(
	ctx context.Context, to string, since, until time.Time, page string,
) (messages []Incoming, next string, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	if page == "" {
		page = "/2010-04-01/Accounts/" + c.account + "/Messages.json?" + url.Values{
			"To": {to}, "PageSize": {strconv.Itoa(inboundPage)},
			"DateSent>": {since.UTC().Format(time.RFC3339)}, "DateSent<": {until.Add(dateSlack).UTC().Format(time.RFC3339)},
		}.Encode()
	}
	if page, err = c.following(page); err != nil {
		return nil, "", err
	}
	var listed openapi.ListMessageResponse
	if err := c.get(ctx, c.origin, page, "list inbound messages", &listed); err != nil {
		return nil, "", err
	}
	if listed.Messages == nil {
		return nil, "", errors.New("twilio: the list of messages cannot be read")
	}
	for i := range listed.Messages {
		m, inbound, err := readIncoming(&listed.Messages[i])
		if err != nil {
			return nil, "", err
		}
		if m.To != to {
			return nil, "", errors.New("twilio: the list of messages is not of the number asked for")
		}
		if inbound && !m.SentAt.Before(since.Truncate(time.Second)) && !m.SentAt.After(until) {
			messages = append(messages, m)
		}
	}
	next, err = c.following(value(listed.NextPageUri))
	return messages, next, err
}

// readIncoming takes a message of Twilio's and reports whether a person sent it. One that lacks what it takes to be answered
// is an error: it might be a STOP.
func readIncoming(m *openapi.ApiV2010Message) (in Incoming, inbound bool, err error) {
	in = Incoming{
		SID: value(m.Sid), From: value(m.From), To: value(m.To), ServiceSID: value(m.MessagingServiceSid), Body: value(m.Body),
		Segments: count(m.NumSegments), Media: count(m.NumMedia),
	}
	if in.SID == "" || in.To == "" || value(m.Direction) == "" {
		return in, false, errors.New("twilio: a message lacks its sid, recipient or direction")
	}
	if value(m.Direction) != "inbound" {
		return in, false, nil
	}
	date := value(m.DateSent)
	if date == "" {
		date = value(m.DateCreated)
	}
	at, err := time.Parse(time.RFC1123Z, date)
	if err != nil || in.From == "" {
		return in, true, errors.New("twilio: an inbound message lacks its sender or date")
	}
	in.SentAt = at.UTC()
	return in, true, nil
}

// count reads one of Twilio's numbers, which are strings; what is none counts as zero.
func count(text *string) int {
	n, err := strconv.Atoi(value(text))
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// ServiceNumbers are the phone numbers and short codes of a messaging service, as it is now: all of them, or an error.
func (c *Client) ServiceNumbers(ctx context.Context, serviceSID string) ([]string, error) {
	if !alphanumeric(serviceSID) {
		return nil, errors.New("twilio: the SID of the service has a character that is neither letter nor digit")
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var all []string
	for _, collection := range []string{"PhoneNumbers", "ShortCodes"} {
		path := "/v1/Services/" + serviceSID + "/" + collection + "?"
		senders, err := c.senders(ctx, path)
		if err != nil {
			return nil, err
		}
		all = append(all, senders...)
	}
	return all, nil
}

func (c *Client) senders(ctx context.Context, path string) ([]string, error) {
	next := path + url.Values{"PageSize": {strconv.Itoa(sendersPage)}}.Encode()
	all := []string{}
	for range senderPages {
		var listed struct {
			PhoneNumbers []messagingapi.MessagingV1PhoneNumber    `json:"phone_numbers"`
			ShortCodes   []messagingapi.MessagingV1ShortCode      `json:"short_codes"`
			Meta         messagingapi.ListAlphaSenderResponseMeta `json:"meta"`
		}
		if err := c.get(ctx, messagingOrigin(c.origin), next, "list the senders of the messaging service", &listed); err != nil {
			return nil, err
		}
		if listed.PhoneNumbers == nil && listed.ShortCodes == nil {
			return nil, errors.New("twilio: the list of senders cannot be read")
		}
		for _, n := range listed.PhoneNumbers {
			all = append(all, value(n.PhoneNumber))
		}
		for _, code := range listed.ShortCodes {
			all = append(all, value(code.ShortCode))
		}
		if value(listed.Meta.NextPageUrl) == "" {
			return all, nil
		}
		// Twilio gives a whole URL. Only its path and query are followed, below what was asked for: the token goes nowhere else.
		following, err := url.Parse(*listed.Meta.NextPageUrl)
		if err != nil || following.EscapedPath()+"?" != path {
			return nil, errors.New("twilio: the next page of the senders is somewhere else")
		}
		next = path + following.RawQuery
	}
	return nil, fmt.Errorf("twilio: more than %d senders in one messaging service", sendersPage*senderPages)
}

// messagingOrigin returns where messaging services are asked about: at Twilio its own host, in every region, and at an
// emulator or a proxy the same.
func messagingOrigin(api *url.URL) *url.URL {
	rest, isAPI := strings.CutPrefix(api.Host, "api.")
	if !isAPI || !strings.HasSuffix(api.Hostname(), ".twilio.com") {
		return api
	}
	return &url.URL{Scheme: api.Scheme, Host: "messaging." + rest}
}

// get reads one JSON document, by path and query as they are: see List for why twilio-go's own methods are not used.
func (c *Client) get(ctx context.Context, origin *url.URL, path, what string, into any) (err error) {
	call, handler := c.exchange(ctx, origin, inboundPage*16<<10)
	answer, err := handler.Get(origin.Scheme+"://"+origin.Host+path, nil, map[string]any{}, "")
	if r := call.result(); err != nil || r.status != http.StatusOK {
		return lookupError(what, r, err)
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	if json.NewDecoder(answer.Body).Decode(into) != nil {
		return fmt.Errorf("twilio: %s: the answer cannot be read", what)
	}
	return nil
}
