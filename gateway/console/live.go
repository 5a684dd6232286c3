package console

import (
	"context"
	"net/http"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"paceline.internal/gateway/console/signin"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

const (
	// liveEvery is the least time between two news of a page: a burst of events is one news.
	liveEvery = 300 * time.Millisecond
	// liveSilent is the silence after which a page gets news or a comment, and liveWrite the time that it has to
	// take one.
	liveSilent = 20 * time.Second
	liveWrite  = 5 * time.Second

	// liveUser is the time between two news of a person's page: they may not read events, so their pages ask again and again.
	liveUser = 5 * time.Second

	// topicAll are the events of all people.
	topicAll = "all"
	// topicInbox begins the topic of the inbox: its tickets, the texts of all people, for any may be in its list, and all of the person
	// that is named behind it by id. What writes no event, such as a note or an answer that is refused, it is told by the clock.
	topicInbox = "inbox:"
	// news is the text that a page gets.
	news = "data: new\n\n"
)

// changed reports whether a person is not as the stream saw them last, and keeps how they are now: to hold and to release write no event.
// One that cannot be read may have changed, which the page finds out.
func (c *Console) changed(ctx context.Context, id string, last **onboardingv1.Profile) bool {
	before := *last
	got, err := c.services.Onboarding.GetProfile(ctx, &onboardingv1.GetProfileRequest{ProfileId: id})
	*last = got.GetProfile()
	return err != nil || !proto.Equal(before, *last)
}

// concerns reports whether an event makes a page of a topic old.
func concerns(topic string, e *onboardingv1.Event) bool {
	person, inbox := strings.CutPrefix(topic, topicInbox)
	return topic == topicAll || person != "" && e.GetSubject() == person ||
		inbox && (strings.HasPrefix(e.GetType(), "ticket.") || e.GetType() == "message.received")
}

// live tells a page, by server-sent events, that something of its topic has happened, until it goes away, its session ends or the process
// stops. What has happened it asks for itself. The topic is a person's id, the inbox, or "all". A page of a person is told so every
// liveUser.
func (c *Console) live(w http.ResponseWriter, r *http.Request) {
	who := signin.SessionFrom(r.Context())
	ctx, cancel := context.WithTimeout(r.Context(), who.Expires.Sub(c.now()))
	defer cancel()
	topic := r.URL.Query().Get("topic")
	happened, err := c.follow(ctx)
	if err != nil {
		c.fail(w, r, err)
		return
	}
	defer func() {
		cancel()
		for range happened { // until the receiver has ended
		}
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would keep the events to itself
	control := http.NewResponseController(w)
	write := func(text string) bool {
		if control.SetWriteDeadline(time.Now().Add(liveWrite)) != nil { //nolint:forbidigo // the deadline of a connection is the machine's
			return false
		}
		_, err := w.Write([]byte(text)) //nolint:gosec // one of two constants, whatever the topic is
		return err == nil && control.Flush() == nil
	}
	// Where all stands still there is no event, and what is overdue grows.
	every, restless := liveSilent, topic == topicAll || strings.HasPrefix(topic, topicInbox)
	if who.Role == rpc.RoleUser {
		every, restless = liveUser, true
	}
	silent, soon := time.NewTicker(every), time.NewTimer(liveEvery)
	defer silent.Stop()
	defer soon.Stop()
	soon.Stop()
	waiting := false
	var last *onboardingv1.Profile
	ok := write(news) // at once: something may have happened since the page was drawn, or while the stream was away
	for ok {
		select {
		case e, more := <-happened:
			if !more {
				return
			}
			if !waiting && concerns(topic, e) {
				waiting = true
				soon.Reset(liveEvery)
			}
		case <-soon.C:
			waiting = false
			ok = write(news)
		case <-silent.C:
			if restless || c.changed(ctx, topic, &last) {
				ok = write(news)
			} else {
				ok = write(": nothing new\n\n")
			}
		}
	}
}
