package send

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"paceline.internal/services/messaging/sms"
)

// Receipt is one delivery report of Twilio. It may come late, twice, out of order, and before Twilio's own answer.
type Receipt struct {
	MessageID uuid.UUID // from the callback URL; uuid.Nil when that names none
	SID       string
	Status    string // Twilio's word, unread
	ErrorCode int    // 0 when there is none
	Raw       map[string]string
	At        time.Time // when it reached us
	Account   string    // that signed it; empty for that of the environment, and of WhatsApp
	// SignedBy are the organisations with a token that signed it; none for all of the account. An organisation that keeps a token which
	// another one has replaced says nothing about the other's messages.
	SignedBy []uuid.UUID
	// Senders lists the senders of the account: the receipt says nothing about a message of any other.
	Senders []uuid.UUID
}

// of reports whether the receipt's account has sent a message, for an organisation that can sign for it.
func (r Receipt) of(m Message) bool {
	return slices.Contains(r.Senders, m.SenderID) && (len(r.SignedBy) == 0 || slices.Contains(r.SignedBy, m.OrgID))
}

// OptsOut reports whether the failure is the recipient's opt-out at Twilio, which arrives this way when Advanced
// Opt-Out is on.
func (r Receipt) OptsOut() bool { return meansOptedOut(r.ErrorCode) }

// Recorded is the change that a receipt has made.
type Recorded struct {
	Message *Message // the one that it is about; nil when it is not ours
	Changed bool     // whether it said anything new
	Settled bool     // whether the message was in doubt before
}

// RecordStatus keeps a receipt and merges it into its message. It reports whether there is such a message. Repeats and
// words that we do not know change nothing and are no errors.
func (s *Service) RecordStatus(ctx context.Context, r Receipt) (matched bool, err error) {
	if r.SID == "" || r.Status == "" || r.At.IsZero() {
		return false, fmt.Errorf("%w: a receipt needs twilio_sid, status and the time of its arrival", sms.ErrInvalid)
	}
	r.SID, r.Status = Storable(r.SID), Storable(r.Status)
	raw := make(map[string]string, len(r.Raw))
	for name, value := range r.Raw {
		raw[Storable(name)] = Storable(value)
	}
	r.Raw = raw
	if r.Senders, err = s.Senders.InAccount(ctx, r.Account); err != nil {
		return false, fmt.Errorf("find the senders of the receipt's account: %w", err)
	}
	recorded, err := s.Evidence.RecordReceipt(ctx, r)
	if err != nil {
		return false, fmt.Errorf("record the receipt: %w", err)
	}
	attrs := []slog.Attr{
		slog.String("twilio_sid", shown(r.SID)), slog.String("reported", r.Status), slog.Int("error_code", r.ErrorCode),
		slog.Bool("changed", recorded.Changed),
	}
	if recorded.Message != nil {
		_, end := s.Conversations.Begin(ctx, "messaging.receipt", conversationOf(recorded.Message.Key))
		defer end()
		attrs = append(attrs, recorded.Message.Attr())
	}
	s.Log.LogAttrs(ctx, slog.LevelInfo, "messaging.sms_receipt_recorded", attrs...)
	s.Metrics.receipt(ctx, recorded)
	if recorded.Settled {
		s.Metrics.settled(ctx, SettledByReceipt)
	}
	return recorded.Message != nil, nil
}

// conversationOf returns the session of the key of a message, onboarding:PROFILE:SESSION:STEP, or the goal of goal:GOAL; empty for other
// messages. The trace of a conversation has its id (telemetry.Conversations), and Twilio's callback brings no trace along.
func conversationOf(key string) string {
	parts := strings.SplitN(key, ":", 4)
	switch {
	case len(parts) == 4 && parts[0] == "onboarding":
		return parts[2]
	case len(parts) == 2 && parts[0] == "goal":
		return parts[1]
	}
	return ""
}
