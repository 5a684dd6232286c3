package session

// TicketReason is why a ticket was opened.
type TicketReason string

// Reasons of tickets.
const (
	Asked      TicketReason = "asked"     // the person asked for a person
	Unclaimed  TicketReason = "unclaimed" // nothing else answers the text
	Unclear    TicketReason = "unclear"   // an answer stayed unclear
	HandOver   TicketReason = "hand_over" // the flow hands over
	Distress   TicketReason = "distress"  // words of distress; a safety hold is on
	ByOperator TicketReason = "operator"  // by hand
)

// TicketReasons lists every reason, as calls write it.
func TicketReasons() []string {
	return []string{string(Asked), string(Unclaimed), string(Unclear), string(HandOver), string(Distress), string(ByOperator)}
}
