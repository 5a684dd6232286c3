package twilio

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	openapi "github.com/twilio/twilio-go/rest/api/v2010"

	"paceline.internal/platform/process"
)

const (
	// sentPages bounds a listing of what was sent since a time: a hundred thousand messages.
	sentPages = 400
	// undatedPages bounds the search for messages that Twilio has not handed on yet. No filter finds them, and Twilio does not say where they
	// stand among all others.
	undatedPages = 4
)

// Sent is a message that the account has sent, as Twilio has it.
type Sent struct {
	Stored

	From       string // empty as long as a messaging service has not chosen one
	ServiceSID string // the messaging service that it was sent through; may be empty
	Segments   int    // 0 where Twilio does not say
}

// ErrMoreSent is an account that has sent more than is listed.
var ErrMoreSent = errors.New("twilio: more than " + strconv.Itoa(sentPages*inboundPage) + " messages since")

// ListSent reads what the account has sent since a time, by Twilio's clock, in no order, each page within the timeout. Whole says that it
// is all: otherwise messages that Twilio still keeps in its queue may be missing, because the account has more messages than are read.
// With ErrMoreSent it returns the newest.
func (c *Client) ListSent(ctx context.Context, since time.Time) (sent []Sent, whole bool, err error) {
	since = since.Truncate(time.Second)
	path := "/2010-04-01/Accounts/" + c.account + "/Messages.json?"
	dated := url.Values{"PageSize": {strconv.Itoa(inboundPage)}, "DateSent>": {since.UTC().Format(time.RFC3339)}}
	known := map[string]bool{}
	collect := func(next string, pages int) (end bool, err error) {
		for range pages {
			if next, err = c.sentPage(ctx, next, func(m Sent) {
				if m.Outbound() && !m.Reply() && !m.CreatedAt.Before(since) && !known[m.SID] {
					known[m.SID], sent = true, append(sent, m)
				}
			}); err != nil || next == "" {
				return next == "", err
			}
		}
		return false, nil
	}
	all, err := collect(path+dated.Encode(), sentPages)
	if err != nil {
		return nil, false, err
	}
	whole, err = collect(path+url.Values{"PageSize": {strconv.Itoa(inboundPage)}}.Encode(), undatedPages)
	if err == nil && !all {
		err = fmt.Errorf("%w %s", ErrMoreSent, since.Format(time.RFC3339))
	}
	return sent, whole, err
}

// sentPage reads one page, and returns where the next one is.
func (c *Client) sentPage(ctx context.Context, page string, found func(Sent)) (next string, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	if page, err = c.following(page); err != nil {
		return "", err
	}
	var listed openapi.ListMessageResponse
	if err := c.get(ctx, c.origin, page, "list sent messages", &listed); err != nil {
		return "", err
	}
	if listed.Messages == nil {
		return "", errors.New("twilio: the list of messages cannot be read")
	}
	process.Progress(ctx)
	for i := range listed.Messages {
		m, err := read(&listed.Messages[i])
		if err != nil {
			return "", err
		}
		found(Sent{
			Stored: m, From: value(listed.Messages[i].From), ServiceSID: value(listed.Messages[i].MessagingServiceSid),
			Segments: count(listed.Messages[i].NumSegments),
		})
	}
	return c.following(value(listed.NextPageUri))
}
