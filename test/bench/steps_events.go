package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"paceline.internal/deploy/stack"
	"paceline.internal/platform/rpc"
)

// events is what becomes of the events of a build; none says that they are kept, as the product does it, and posted nowhere.
type events string

const (
	subscribed events = "subscribed" // each is posted to a subscriber, too
	unwritten  events = "no events"  // none is written
)

func (e events) environ(environ map[string]string) {
	switch e {
	case subscribed:
		environ["EVENTS_ALLOW_PRIVATE_TARGETS"] = "127.0.0.0/8"
	case unwritten:
		environ["EVENTS_RETENTION"] = "0"
	}
}

// subscribe has every event posted to a stub.
func (p *place) subscribe(ctx context.Context, to string, now time.Time) error {
	token, err := stack.Secrets{APIJWT: apiKey}.APIToken("bench", stack.OrgID, rpc.RoleOperator, now, time.Minute)
	if err != nil {
		return err
	}
	body := strings.NewReader(`{"url":"` + to + `"}`)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.origin+"/v1/event-subscriptions", body)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := p.client.Do(request)
	if err != nil {
		return err
	}
	if err := response.Body.Close(); err != nil || response.StatusCode/100 != 2 {
		return errors.Join(err, fmt.Errorf("subscribe to events: %s", response.Status))
	}
	return nil
}

// hear takes an event.
func (s *stubs) hear(w http.ResponseWriter, _ *http.Request) {
	s.heard.Add(1)
	w.WriteHeader(http.StatusNoContent)
}
