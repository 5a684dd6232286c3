package send

import (
	"crypto/sha256"
	"time"

	"github.com/google/uuid"

	"paceline.internal/services/messaging/senders"
	"paceline.internal/services/messaging/sms"
	"paceline.internal/services/messaging/twilio"
)

// UnclaimedFor sets how long a message that was found at Twilio waits for the send that made it. Whoever asked for it asks again within
// minutes. A send does not say when it was due, and later the same words are another message, such as tomorrow's reminder.
const UnclaimedFor = 15 * time.Minute

// unclaimedKeys begins the keys of messages that were found at Twilio, as long as the right one is not known.
const unclaimedKeys = "readback:"

// Unclaimed makes a message of what Twilio has and the database had lost. Twilio knows no keys: the send of the same words to the same
// person, which comes again, gives it one.
func Unclaimed(sent twilio.Sent, from senders.Sender, at time.Time) Message {
	m := Message{
		ID: uuid.Must(uuid.NewV7()), OrgID: from.OrgID, SenderID: from.ID, Direction: Outbound, From: sent.From, To: sent.To, Body: sent.Body,
		BodyHash: sha256.Sum256([]byte(sent.Body)), Key: unclaimedKeys + sent.SID, Status: sms.Unknown,
		Segments: sms.Segments(sent.Body).Count, AttemptToken: uuid.Must(uuid.NewRandom()), AttemptedAt: sent.CreatedAt,
		LeaseUntil: sent.CreatedAt, Attempts: 1, UnknownPolicy: ConfirmAbsentThenResend, CreatedAt: sent.CreatedAt,
	}
	if m.From == "" {
		m.From = from.From()
	}
	if m.Body == "" {
		m.Segments = sent.Segments
	}
	return m.take(sent.Stored, at)
}

// isSendOf reports whether a message at Twilio may be what an attempt has sent: it has the words, or as many segments where Twilio does not
// show them.
func isSendOf(m Message, a Attempt) bool {
	if m.Body == "" {
		return m.Segments == 0 || m.Segments == a.Segments // a messaging service counts them later
	}
	return says(twilio.Stored{Body: m.Body}, string(a.Body))
}

// Lost returns which of the messages at Twilio no row is about. A row without a SID keeps one of them that has its words: it is
// in doubt, and is settled by Twilio's list as ever.
func Lost(sent []twilio.Sent, known map[string]bool, doubtful []Message) (lost []twilio.Sent) {
	taken := make([]bool, len(doubtful))
	for _, s := range sent {
		if known[s.SID] || inDoubt(s, doubtful, taken) {
			continue
		}
		lost = append(lost, s)
	}
	return lost
}

// inDoubt reports whether a message may be that of a row in doubt which no other one is taken for.
func inDoubt(sent twilio.Sent, doubtful []Message, taken []bool) bool {
	for i, m := range doubtful {
		if !taken[i] && m.To == sent.To && (sent.Body == "" || says(sent.Stored, m.Body)) && !sent.CreatedAt.Before(m.earliest()) {
			taken[i] = true
			return true
		}
	}
	return false
}
