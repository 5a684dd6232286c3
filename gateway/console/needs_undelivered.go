package console

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"

	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
)

// undeliveredTexts lists the texts that Twilio took, that did not reach a person with an active session, and that are the newest of their
// conversation: nothing goes on by itself there. One after which the person wrote, or another text came, holds nothing up.
func (c *Console) undeliveredTexts(ctx context.Context, most int32) (needs []need, next string, err error) {
	var lost []*messagingv1.Message
	for _, at := range []string{"undelivered", "failed"} {
		out, err := c.services.Messaging.ListMessages(ctx, &messagingv1.ListMessagesRequest{Status: at, PageSize: (most + 1) / 2})
		if err != nil {
			return nil, "", err
		}
		lost, next = append(lost, out.GetMessages()...), next+out.GetNextPageToken()
	}
	ids := make([]string, len(lost))
	for i, m := range lost {
		ids[i] = m.GetProfileId()
	}
	people := c.profilesOf(ctx, ids)
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(namedAtOnce)
	for _, m := range lost {
		if people[m.GetProfileId()].GetState().GetStatus() != "active" {
			continue
		}
		group.Go(func() error {
			n, err := c.holdsUp(ctx, m)
			mu.Lock()
			defer mu.Unlock()
			if n != nil {
				needs = append(needs, *n)
			}
			return err
		})
	}
	return needs, next, group.Wait()
}

// holdsUp returns the need of a text that did not reach its person; nil where the conversation has gone on.
func (c *Console) holdsUp(ctx context.Context, m *messagingv1.Message) (*need, error) {
	newest, err := c.services.Messaging.ListMessages(ctx, &messagingv1.ListMessagesRequest{ProfileId: m.GetProfileId(), PageSize: 1})
	if err != nil || len(newest.GetMessages()) == 0 || newest.GetMessages()[0].GetMessageId() != m.GetMessageId() {
		return nil, err
	}
	n := &need{
		Kind: "undelivered", ID: m.GetMessageId(), At: m.GetCreatedAt().AsTime(), Profile: m.GetProfileId(),
		Gates: root + "/why/messages/" + m.GetMessageId(),
	}
	g, err := c.lost(ctx, m.GetMessageId())
	if g != nil {
		n.Why = g.GetFact() + ". → " + g.GetChange()
	}
	return n, err
}
