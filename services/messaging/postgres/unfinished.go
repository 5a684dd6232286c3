package postgres

import (
	"context"

	"github.com/google/uuid"

	"paceline.internal/platform/postgres"
)

// sqlUnfinished reads one of each kind by its index. A message that Twilio did not process is not among them: the outbound queue,
// whose text is found here too, or the caller asks for it again.
const sqlUnfinished = `
select coalesce(m.id::text, '') as message_id, coalesce(m.status, '') as status, coalesce((
    select j.id::text from sms_outbound_jobs j
    where j.org_id = @org and j.payload ? 'profile_id' and j.payload ->> 'profile_id' = @profile::uuid::text
      and j.status in ('pending', 'processing') order by j.id desc limit 1), '') as text_id
from (select) one left join lateral (
    select id, status from sms_messages
    where to_number = @phone and org_id = @org and direction = 'outbound' and status in ('sending', 'unknown', 'parked') limit 1) m on true`

// Unfinished is what is not at its end of a person: a message to their phone, and a text of the queue for their profile. Empty is none.
type Unfinished struct{ MessageID, Status, TextID string }

// Unfinished finds what is not at its end of a person.
func (s *Store) Unfinished(ctx context.Context, orgID, profileID uuid.UUID, phone string) (found Unfinished, err error) {
	defer mark(&err)
	err = s.pool.QueryRow(ctx, sqlUnfinished, postgres.Args{"org": orgID, "profile": profileID, "phone": phone}).
		Scan(&found.MessageID, &found.Status, &found.TextID)
	return found, err
}
