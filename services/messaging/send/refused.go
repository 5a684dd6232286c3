package send

import (
	"context"
	"time"

	"github.com/google/uuid"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/messaging/edge"
	"paceline.internal/services/messaging/sms"
)

// Begun names the messages of a conversation that a run began.
type Begun struct {
	ProfileID uuid.UUID
	KeyPrefix string
}

// RefusedInRow says that the newest conversations of a run were refused, one after the other, until a person has acted.
type RefusedInRow struct {
	Code, Messages int // of the newest one, and how many there are
	Explanation    string
}

const (
	// mostBegun bounds the conversations that are looked at, and refusedInRow sets how many refusals stop a run. Fewer may be the numbers of
	// some people; many more would cost money and the sender's reputation.
	mostBegun, refusedInRow = 64, 16
	// silentAfter sets when a message without a receipt counts as one that got through: some carriers send none.
	silentAfter = 2 * time.Minute
)

// sqlNewestOfBegun reads the newest message of each conversation.
const sqlNewestOfBegun = `
select ` + Columns + ` from unnest(@profiles::uuid[], @prefixes::text[]) with ordinality b (profile, prefix, n)
cross join lateral (
    select ` + Columns + ` from sms_messages
    where org_id = @org and profile_id = b.profile and starts_with(idempotency_key, b.prefix)
    order by id desc limit 1) m
order by b.n`

// Refused reports whether the newest conversations, as many in a row as stop a run, were refused with a code that no retry mends. Messages
// that have not come to an end yet are passed over. ok is false when they were not.
func (s *Store) Refused(ctx context.Context, orgID uuid.UUID, begun []Begun, now time.Time) (r RefusedInRow, ok bool, err error) {
	if len(begun) < refusedInRow {
		return r, false, nil
	}
	defer edge.Mark(&err)
	profiles, prefixes := make([]uuid.UUID, len(begun)), make([]string, len(begun))
	for i, b := range begun {
		profiles[i], prefixes[i] = b.ProfileID, b.KeyPrefix
	}
	newest, err := edge.Collect(ctx, s.pool, sqlNewestOfBegun, postgres.Args{
		"org": orgID, "profiles": profiles, "prefixes": prefixes,
	}, ReadMessage)
	if err != nil {
		return r, false, err
	}
	for _, m := range newest {
		switch {
		case m.NeedsPerson():
			if r.Messages++; r.Messages == 1 {
				r.Code, r.Explanation = m.ErrorCode, explain(m.ErrorCode)
			}
		case !m.underWay(now):
			return r, r.Messages >= refusedInRow, nil
		}
	}
	return r, r.Messages >= refusedInRow, nil
}

// underWay reports whether it may still become known that a message was refused.
func (m Message) underWay(now time.Time) bool {
	switch m.Status {
	case sms.Accepted, sms.Queued, sms.Sent:
		return now.Sub(m.AcceptedAt) < silentAfter
	case sms.Sending, sms.Unknown, sms.Throttled, sms.Parked:
		return true
	case sms.Rejected, sms.Failed, sms.Undelivered, sms.Delivered, sms.GivenUp, sms.Received:
	}
	return false
}
