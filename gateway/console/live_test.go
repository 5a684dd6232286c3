package console

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"paceline.internal/gateway/console/signin"
	"paceline.internal/platform/rpc"
	onboardingv1 "paceline.internal/proto/gen/paceline/onboarding/v1"
)

// stream is a page that listens.
type stream struct {
	*httptest.ResponseRecorder

	mu sync.Mutex
}

func (s *stream) SetWriteDeadline(time.Time) error { return nil }

func (s *stream) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ResponseRecorder.Write(text)
}

// news counts how often the page was told that it is old.
func (s *stream) news() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(s.Body.String(), news)
}

func TestPersonsPageLearnsOfAHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{answers: map[string]func(proto.Message) (proto.Message, error){}, asked: map[string][]proto.Message{}}
		held := false
		s.answers["GetProfile"] = func(proto.Message) (proto.Message, error) {
			p := ana()
			p.Hold = held
			return &onboardingv1.GetProfileResponse{Profile: p}, nil
		}
		c := &Console{now: time.Now, services: Services{Onboarding: onboardingv1.NewOnboardingServiceClient(s)}}
		c.follow = func(ctx context.Context) (<-chan *onboardingv1.Event, error) {
			events := make(chan *onboardingv1.Event)
			context.AfterFunc(ctx, func() { close(events) })
			return events, nil
		}
		ctx := signin.WithSession(t.Context(), signin.Session{Role: rpc.RoleOperator, Expires: time.Now().Add(time.Hour)}) //nolint:forbidigo // the bubble's
		page := &stream{ResponseRecorder: httptest.NewRecorder()}
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, root+"/live?topic="+anasID, nil)
		go c.live(page, r)

		wait := func(d time.Duration) int {
			<-time.NewTimer(d).C
			synctest.Wait()
			return page.news()
		}
		first := wait(liveSilent + time.Second)
		require.Equal(t, first, wait(3*liveSilent), "nothing happens")
		s.mu.Lock()
		held = true
		s.mu.Unlock()
		require.Equal(t, first+1, wait(liveSilent))
		require.Equal(t, first+1, wait(3*liveSilent))
		wait(time.Hour) // the session ends, and the stream with it
	})
}

func TestAPageIsToldOfTheEventsOfItsTopic(t *testing.T) {
	t.Parallel()
	t.Run("S3_28_APersonsPageOfTheirsAlone", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) { require.Equal(t, 1, newsOf(t, anasID)) })
	})
	t.Run("S3_28_AListOfEveryone", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) { require.Equal(t, 2, newsOf(t, topicAll)) })
	})
}

func TestTheInboxIsToldOfTicketsAndOfItsPerson(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		topic, kind, of string
		want            bool
	}{
		{topicInbox, "ticket.opened", anasID, true},
		{topicInbox, "message.received", anasID, true},
		{topicInbox, "message.delivered", anasID, false},
		{topicInbox + anasID, "message.delivered", anasID, true},
		{topicInbox + anasID, "session.advanced", sessionID, false},
		{anasID, "ticket.opened", sessionID, false},
	} {
		require.Equal(t, tt.want, concerns(tt.topic, &onboardingv1.Event{Type: tt.kind, Subject: tt.of}), tt)
	}
}

// newsOf counts how often a page of a topic is told that it is old: by an event of another, then by two of Ana that come together, long before
// a page is told by the clock.
func newsOf(t *testing.T, topic string) int {
	t.Helper()
	events := make(chan *onboardingv1.Event)
	c := &Console{now: time.Now, follow: func(ctx context.Context) (<-chan *onboardingv1.Event, error) {
		context.AfterFunc(ctx, func() { close(events) })
		return events, nil
	}}
	ctx, leave := context.WithCancel(t.Context())
	ctx = signin.WithSession(ctx, signin.Session{Role: rpc.RoleOperator, Expires: time.Now().Add(time.Hour)}) //nolint:forbidigo // the bubble's
	page := &stream{ResponseRecorder: httptest.NewRecorder()}
	go c.live(page, httptest.NewRequestWithContext(ctx, http.MethodGet, root+"/live?topic="+topic, nil))
	synctest.Wait()
	first := page.news()
	for _, together := range [][]string{{sessionID}, {anasID, anasID}} {
		for _, subject := range together {
			events <- &onboardingv1.Event{Subject: subject}
		}
		<-time.NewTimer(2 * liveEvery).C
	}
	synctest.Wait()
	told := page.news() - first
	leave()
	synctest.Wait()
	return told
}
