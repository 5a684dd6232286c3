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

	"github.com/twilio/twilio-go/client"
	openapi "github.com/twilio/twilio-go/rest/api/v2010"

	"paceline.internal/platform/process"
)

const (
	// listPage sets how many messages one page of a listing has, and listPages how many pages are read at most: two thousand
	// texts to one person. A listing that is longer is an error, because its end may hold what is looked for.
	listPage  = 100
	listPages = 20
	// maxPage bounds what is read of a page: a message of 1600 characters comes back in less than 16 KiB.
	maxPage = listPage * 16 << 10
)

// ErrNotFound means that Twilio has no message with that SID.
var ErrNotFound = errors.New("twilio: there is no such message")

// Stored is a message as Twilio has it.
type Stored struct {
	SID       string
	Status    string // Twilio's word, unread
	Direction string // outbound-api for what Send made
	To        string // E.164
	Body      string // empty when the account does not let Twilio keep it
	ErrorCode int    // 0 when there is none
	CreatedAt time.Time
}

// Outbound reports whether a program or Twilio sent it, and not a person.
func (s Stored) Outbound() bool { return strings.HasPrefix(s.Direction, "outbound") }

// Reply reports whether it answers a message of a person's, by Twilio itself or through TwiML: Send never makes one.
func (s Stored) Reply() bool { return s.Direction == "outbound-reply" }

// Fetch reads one message, within the timeout and the caller's context. ErrNotFound is Twilio's own word that there is none;
// every other error says nothing about the message.
func (c *Client) Fetch(ctx context.Context, sid string) (Stored, error) {
	if sid == "" || !alphanumeric(sid) {
		return Stored{}, ErrNotFound // twilio-go would put it into the path as it is
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	call, handler := c.exchange(ctx, c.origin, maxAnswer)
	found, err := openapi.NewApiService(handler).FetchMessage(sid, nil)
	switch r := call.result(); {
	case r.status == http.StatusNotFound && refusedAsUnknown(err):
		return Stored{}, ErrNotFound
	case r.status != http.StatusOK || err != nil:
		return Stored{}, lookupError("fetch a message", r, err)
	}
	stored, err := read(found)
	if err == nil && stored.SID != sid {
		err = errors.New("twilio: another message was answered than the one asked for")
	}
	return stored, err
}

// List reads every message to a number that Twilio created at since or later, each page within the timeout, and all within the
// caller's context: a person to whom much was sent has many pages. It is the whole of them or an error, never a part. The filter is the
// recipient alone: Twilio's only dates to filter by are of sending, and a message that is still queued there has none. For the same reason
// it reads to the last page: Twilio sorts by the date of sending, and does not say where a message without one stands, so no older message
// shows that ours cannot come after it.
func (c *Client) List(ctx context.Context, to string, since time.Time) ([]Stored, error) {
	// The pages are asked for by path and query as Twilio gives them, through twilio-go's client but past its methods: these
	// drop every ".digits" from a query's values, and a page token may hold some.
	next := "/2010-04-01/Accounts/" + c.account + "/Messages.json?" +
		url.Values{"To": {to}, "PageSize": {strconv.Itoa(listPage)}}.Encode()
	var all []Stored
	for range listPages {
		messages, following, err := c.page(ctx, next, to)
		if err != nil {
			return nil, err
		}
		process.Progress(ctx)
		for _, m := range messages {
			if !m.CreatedAt.Before(since.Truncate(time.Second)) { // Twilio's times have whole seconds
				all = append(all, m)
			}
		}
		if following == "" {
			return all, nil
		}
		next = following
	}
	return nil, fmt.Errorf("twilio: more than %d messages to one recipient", listPage*listPages)
}

// page reads one page of a listing and where the next one is; empty after the last.
func (c *Client) page(ctx context.Context, path, to string) (messages []Stored, next string, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	call, handler := c.exchange(ctx, c.origin, maxPage)
	answer, err := handler.Get(c.origin.Scheme+"://"+c.origin.Host+path, nil, map[string]any{}, "")
	if r := call.result(); err != nil || r.status != http.StatusOK {
		return nil, "", lookupError("list messages", r, err)
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	var listed openapi.ListMessageResponse
	if err := json.NewDecoder(answer.Body).Decode(&listed); err != nil || listed.Messages == nil {
		return nil, "", errors.New("twilio: the list of messages cannot be read")
	}
	for i := range listed.Messages {
		m, err := read(&listed.Messages[i])
		if err != nil {
			return nil, "", err
		}
		if m.To != to {
			return nil, "", errors.New("twilio: the list of messages is not of the recipient asked for")
		}
		messages = append(messages, m)
	}
	next, err = c.following(value(listed.NextPageUri))
	return messages, next, err
}

// following checks where Twilio says that the next page is: below this account, so that the token goes nowhere else.
func (c *Client) following(uri string) (string, error) {
	if uri != "" && !strings.HasPrefix(uri, "/2010-04-01/Accounts/"+c.account+"/Messages.json?") {
		return "", errors.New("twilio: the next page of the list is somewhere else")
	}
	return uri, nil
}

// read takes a message of Twilio's. One that lacks what tells it from others is an error: it might be the one looked for.
func read(m *openapi.ApiV2010Message) (Stored, error) {
	created, err := time.Parse(time.RFC1123Z, value(m.DateCreated))
	if err != nil || value(m.Sid) == "" || value(m.To) == "" || value(m.Status) == "" || value(m.Direction) == "" {
		return Stored{}, errors.New("twilio: a message lacks its sid, recipient, status, direction or date")
	}
	s := Stored{
		SID: value(m.Sid), Status: value(m.Status), Direction: value(m.Direction), To: value(m.To), Body: value(m.Body),
		CreatedAt: created.UTC(),
	}
	if m.ErrorCode != nil {
		s.ErrorCode = *m.ErrorCode
	}
	return s, nil
}

// refusedAsUnknown tells Twilio's own 404 from that of a proxy in between, which says nothing.
func refusedAsUnknown(err error) bool {
	refusal, ok := errors.AsType[*client.TwilioRestError](err)
	return ok && refusal.Code == 20404
}

// lookupError says why a lookup failed, without quoting the answer or the address.
func lookupError(what string, r result, err error) error {
	if r.status == 0 {
		return fmt.Errorf("twilio: %s: %s", what, cause(err))
	}
	if known := meaning(r, err); known != nil {
		return fmt.Errorf("%w: %s: HTTP status %d", known, what, r.status)
	}
	return fmt.Errorf("twilio: %s: HTTP status %d without a usable answer", what, r.status)
}
