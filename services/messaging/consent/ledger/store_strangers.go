package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/messaging/edge"
	"paceline.internal/services/messaging/sms"
)

// strangersAtOnce bounds the numbers that one call of EraseStrangers erases.
const strangersAtOnce = 50

// sqlStrangers finds numbers that are kept of an organisation, wherever they are. Those of its people are gone by then.
const sqlStrangers = `
select phone from (
	(select to_number as phone from sms_messages where org_id = @org and direction = 'outbound' and erased_at is null limit @limit)
	union (select from_number from sms_messages where org_id = @org and direction = 'inbound' and erased_at is null limit @limit)
	union (select phone from consents where org_id = @org limit @limit)
	union (select phone from holds where org_id = @org limit @limit)
	union (select phone from reminder_preferences where org_id = @org limit @limit)
	union (select payload ->> 'to' from sms_outbound_jobs where org_id = @org and payload ->> 'to' <> '' limit @limit)
) p order by phone limit @limit`

// EraseStrangers erases some of the numbers that are left of an organisation that has ended, as a person is erased, and reports whether
// there may be more. ErrPseudonymKey.
func (s *Store) EraseStrangers(ctx context.Context, orgID uuid.UUID, at time.Time) (more bool, err error) {
	phones, err := s.strangers(ctx, orgID)
	if err != nil {
		return false, err
	}
	for _, text := range phones {
		phone, err := sms.ExactPhone(text) // rows of the first release have forms that are stored no more
		if err != nil {
			return false, fmt.Errorf("a number of an organisation that has ended: %w", err)
		}
		// An id that is always the same for the number, and says nothing without the key.
		pseudonym := uuid.NewSHA1(orgID, []byte(s.Pseudonyms.Of(orgID.String(), phone.String())))
		if _, err := s.ErasePerson(ctx, Person{OrgID: orgID, ProfileID: pseudonym, Phone: phone}, at); err != nil {
			return false, err
		}
	}
	return len(phones) > 0, nil
}

func (s *Store) strangers(ctx context.Context, orgID uuid.UUID) (phones []string, err error) {
	defer edge.Mark(&err)
	return edge.Collect(ctx, s.pool, sqlStrangers, postgres.Args{"org": orgID, "limit": strangersAtOnce}, pgx.RowTo[string])
}
