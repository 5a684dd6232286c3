package inbound

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"paceline.internal/platform/phone"
	"paceline.internal/platform/queue"
	"paceline.internal/services/onboarding/conversation"
)

// numberless begins the writer of a WhatsApp message that names no number; WhatsApp's id of the person follows. It is also the subject of
// the message's job.
const numberless = "whatsapp:"

// ErrNumberless reports a message of a person without a known number: nothing can be sent to them, and the owner of its consent cannot be
// told. It is taken up again when their number comes with one of their messages.
var ErrNumberless = errors.New("WhatsApp gave no phone number of the sender, and no message before has told whose id it is; " +
	"read the words: if they are a STOP, record it for the person's number")

// writerOf returns the writer of a message as the person is stored, whichever form the carrier goes on with.
func writerOf(from string) string {
	if strings.HasPrefix(from, numberless) {
		return from
	}
	return phone.Canonical(from)
}

// numberWriter gives a message without a number the number of the person that its id belongs to; ErrNumberless.
func (in *Service) numberWriter(ctx context.Context, m *Message, orgID string) error {
	user, missing := strings.CutPrefix(m.From, numberless)
	if !missing {
		return nil
	}
	if user == "" {
		return ErrNumberless
	}
	number, err := in.Store.NumberOfUser(ctx, orgID, user)
	if err != nil {
		return err
	}
	if number == "" {
		return ErrNumberless
	}
	m.From = number
	return nil
}

// learnUser stores the number of a WhatsApp id, when that is new. What this id wrote before is recorded first, so that a STOP among
// it counts before anything else is sent; then its jobs are done again, in their order. What fails is repeated with the message.
func (in *Service) learnUser(ctx context.Context, m Message) error {
	if m.UserID == "" || strings.HasPrefix(m.From, numberless) {
		return nil
	}
	orgID := cmp.Or(m.OrgID, in.OrgID)
	known, err := in.Store.NumberOfUser(ctx, orgID, m.UserID)
	if err != nil || known == m.From {
		return err
	}
	before, err := in.Store.FailedOf(ctx, orgID, numberless+m.UserID, conversation.EventWhatsApp)
	if err != nil {
		return err
	}
	for _, j := range before {
		old, err := replyIn(j)
		if err != nil {
			continue // its job says so
		}
		old.Message.From = m.From
		if _, _, err := in.record(ctx, &old); err != nil && !hopeless(err) {
			return fmt.Errorf("record what the writer wrote before: %w", err)
		}
	}
	return in.Store.LearnUser(ctx, Learned{OrgID: orgID, Phone: m.From, UserID: m.UserID, Jobs: before, At: in.Now()})
}

// Learned says that an id of WhatsApp belongs to a number, and the jobs that waited for it.
type Learned struct {
	OrgID, Phone, UserID string
	Jobs                 []queue.Job
	At                   time.Time
}
