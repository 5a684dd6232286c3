package postgres

import (
	"context"

	"github.com/google/uuid"

	"paceline.internal/platform/postgres"
	"paceline.internal/services/messaging/send"
	"paceline.internal/services/messaging/sms"
)

const sqlMessage = sqlByID + ` and org_id = @org`

// Message reads one message of an organisation; send.ErrMessageNotFound when it has no such message.
func (s *Store) Message(ctx context.Context, orgID, id uuid.UUID) (m send.Message, err error) {
	defer mark(&err)
	m, found, err := message(ctx, s.pool, sqlMessage, postgres.Args{"org": orgID, "id": id})
	if err == nil && !found {
		err = send.ErrMessageNotFound
	}
	return m, err
}

// Each of the filters has its index; one query for all would have none.
const (
	sqlNewest          = `select ` + columns + ` from sms_messages where org_id = @org and id < @before order by id desc limit @limit`
	sqlNewestOfProfile = `select ` + columns + ` from sms_messages
		where org_id = @org and profile_id = @profile and (@status::text is null or status = @status) and id < @before
		order by id desc limit @limit`
	sqlOfKey = sqlByKey + ` and (@profile::uuid is null or profile_id = @profile) and (@status::text is null or status = @status)
		and id < @before limit @limit`
	// Statuses that are rare among a million messages have an index of their own, which its condition has to name.
	sqlNewestOfRare = `select ` + columns + ` from sms_messages
		where org_id = @org and status = @status and status not in ('delivered', 'received') and id < @before
		order by id desc limit @limit`
	sqlNewestOfStatus = `select ` + columns + ` from sms_messages
		where org_id = @org and status = @status and id < @before order by id desc limit @limit`
)

// Messages lists messages of an organisation, newest first.
func (s *Store) Messages(ctx context.Context, q send.Query) (found []send.Message, err error) {
	defer mark(&err)
	sql := sqlNewest
	switch {
	case q.Key != "":
		sql = sqlOfKey
	case q.ProfileID != uuid.Nil:
		sql = sqlNewestOfProfile
	case q.Status == sms.Delivered, q.Status == sms.Received:
		sql = sqlNewestOfStatus
	case q.Status != "":
		sql = sqlNewestOfRare
	}
	return messages(ctx, s.pool, sql, postgres.Args{
		"org": q.OrgID, "profile": null(q.ProfileID), "key": q.Key, "status": null(string(q.Status)), "before": q.Before, "limit": q.Limit,
	})
}
