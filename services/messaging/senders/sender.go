// Package senders keeps what organisations send from: the sender of the environment, and those that are stored with sealed credentials. It
// chooses the sender of a person and makes the clients of the accounts.
package senders

import (
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
)

// What the verbs of this package refuse. No text holds a credential.
var (
	// ErrNoSender means that the organisation has no active sender.
	ErrNoSender = errors.New("the organisation has no sender: DEFAULT_ORG_ID owns the one of the environment; store another one with " +
		"POST /v1/senders, or set a disabled one to active")
	// ErrUnknownSender means that no organisation owns the number that a message was sent to.
	ErrUnknownSender = errors.New("no organisation owns the number that this text was sent to")
	// ErrNotFound means that the organisation has no such sender.
	ErrNotFound = errors.New("there is no such sender")
	// ErrRefused means that Twilio does not take a credential.
	ErrRefused = errors.New("Twilio refuses the credentials") //nolint:staticcheck // a name
	// ErrNotOfAccount means that the account has no such messaging service or number.
	ErrNotOfAccount = errors.New("not of this Twilio account")
	// ErrClaimed means that another sender has the number or the messaging service.
	ErrClaimed = errors.New("claimed by another sender")
	// ErrInUse means that a sender cannot be deleted: people know its number, and their STOP to it must be heard.
	ErrInUse = errors.New("texts went through this sender, and a STOP to it must be heard: set its status to disabled instead")
	// ErrNoKeyset means that no credentials can be sealed.
	ErrNoKeyset = errors.New("SENDER_KEYSET is not set, so no credentials can be kept: run messaging keyset, and give what it prints to " +
		"messaging as SENDER_KEYSET")
)

// Status tells a sender that sends from a disabled one, which still hears.
type Status string

// The statuses.
const (
	Active   Status = "active"
	Disabled Status = "disabled"
)

// Sender is one sender of an organisation. The one of the environment has no ID.
type Sender struct {
	ID         uuid.UUID
	OrgID      uuid.UUID
	Name       string
	AccountSID string
	APIKeySID  string
	ServiceSID string // preferred for sending; may be empty when Number is not
	Number     string // E.164; may be empty when ServiceSID is not
	Rate       float64
	Countries  []string // that it is used for first; empty for all
	Status     Status
	HasNext    bool // a second auth token is kept
	Version    int64
	CreatedAt  time.Time
	UpdatedAt  time.Time
	DeletedAt  time.Time // zero as long as it is not
}

// From returns what Twilio is told to send from.
func (s Sender) From() string {
	if s.ServiceSID != "" {
		return s.ServiceSID
	}
	return s.Number
}

// has reports whether a message to a number, or through a messaging service, is to this sender.
func (s Sender) has(number, serviceSID string) bool {
	return s.DeletedAt.IsZero() && (s.Number != "" && s.Number == number || s.ServiceSID != "" && s.ServiceSID == serviceSID)
}

// acquaintance is a sender that a person has heard from or written to.
type acquaintance struct {
	sender uuid.UUID // uuid.Nil is the environment's
	since  time.Time
	word   string    // the last about consent: opt_out, which Twilio blocks this sender for, or opt_in; empty for none
	said   time.Time // when; zero without a word
}

const (
	optOut = "opt_out"
	optIn  = "opt_in"
)

// inOrder returns the senders that a person knows in the order in which they text them: the one that the person first heard from or wrote
// to first. Once the person has stopped one and written START to another since, that other one comes first: Twilio keeps blocking the
// stopped one, for it knows nothing of organisations.
func inOrder(known []acquaintance) []uuid.UUID {
	known = slices.Clone(known)
	slices.SortFunc(known, func(a, b acquaintance) int { return a.since.Compare(b.since) })
	ids := make([]uuid.UUID, 0, len(known))
	if i := restarted(known); i >= 0 {
		ids = append(ids, known[i].sender)
	}
	for _, a := range known {
		if !slices.Contains(ids, a.sender) {
			ids = append(ids, a.sender)
		}
	}
	return ids
}

// restarted is the index of the sender that has the person's last word, if that is START, and they have stopped another one; else -1.
func restarted(known []acquaintance) int {
	last := -1
	for i, a := range known {
		if a.word != "" && (last < 0 || a.said.After(known[last].said)) {
			last = i
		}
	}
	if last < 0 || known[last].word != optIn || !slices.ContainsFunc(known, func(a acquaintance) bool { return a.word == optOut }) {
		return -1
	}
	return last
}

// blockedElsewhere is BlockedElsewhere of what is known.
func blockedElsewhere(known []acquaintance, sender uuid.UUID) bool {
	i := restarted(known)
	return i >= 0 && slices.ContainsFunc(known, func(a acquaintance) bool { return a.sender == sender && a.word == optOut })
}

// choose picks the sender of a person out of those of an organisation, oldest first: the active one that the person first heard from or
// wrote to, in the order of heard; else the oldest that names their country; else the oldest that names none; else the oldest.
func choose(all []Sender, heard []uuid.UUID, country string) (Sender, error) {
	active := slices.DeleteFunc(slices.Clone(all), func(s Sender) bool { return s.Status != Active || !s.DeletedAt.IsZero() })
	if len(active) == 0 {
		return Sender{}, ErrNoSender
	}
	for _, id := range heard {
		if i := slices.IndexFunc(active, func(s Sender) bool { return s.ID == id }); i >= 0 {
			return active[i], nil
		}
	}
	named := func(s Sender) bool { return country != "" && slices.Contains(s.Countries, country) }
	if i := slices.IndexFunc(active, named); i >= 0 {
		return active[i], nil
	}
	if i := slices.IndexFunc(active, func(s Sender) bool { return len(s.Countries) == 0 }); i >= 0 {
		return active[i], nil
	}
	return active[0], nil
}
