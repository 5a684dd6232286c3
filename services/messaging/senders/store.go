package senders

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"paceline.internal/platform/postgres"
	messagingv1 "paceline.internal/proto/gen/paceline/messaging/v1"
	"paceline.internal/services/messaging/edge"
	"paceline.internal/services/messaging/twilio"
)

// most bounds the senders of an organisation, and mostOfAccount those that one account has in all organisations.
const (
	most          = 50
	mostOfAccount = 500
	// organisationsPage bounds the organisations that are read at once. Onboarding bounds all that there are.
	organisationsPage = 1000
)

// Store keeps the senders.
type Store struct{ pool postgres.DB }

// NewStore works on a migrated database; the caller keeps owning the pool.
func NewStore(pool postgres.DB) *Store { return &Store{pool: pool} }

// stored is a row: a sender and what is sealed of it.
type stored struct {
	Sender

	sealed sealed
}

const columns = `id, org_id, name, account_sid, api_key_sid, coalesce(service_sid, ''), coalesce(number, ''), segments_per_second,
	countries, status, api_key_secret, auth_token, next_auth_token, version, created_at, updated_at, deleted_at`

func read(row pgx.CollectableRow) (s stored, err error) {
	var deleted *time.Time
	err = row.Scan(&s.ID, &s.OrgID, &s.Name, &s.AccountSID, &s.APIKeySID, &s.ServiceSID, &s.Number, &s.Rate, &s.Countries, &s.Status,
		&s.sealed.APIKeySecret, &s.sealed.AuthToken, &s.sealed.NextAuthToken, &s.Version, &s.CreatedAt, &s.UpdatedAt, &deleted)
	s.HasNext, s.DeletedAt = s.sealed.NextAuthToken != nil, edge.Value(deleted).UTC()
	s.CreatedAt, s.UpdatedAt = s.CreatedAt.UTC(), s.UpdatedAt.UTC()
	return s, err
}

// All of an organisation includes the deleted: what was sent with them still has their id.
const sqlOf = `select ` + columns + ` from senders where org_id = @org order by created_at, id`

func (s *Store) of(ctx context.Context, orgID uuid.UUID) (found []stored, err error) {
	defer edge.Mark(&err)
	return edge.Collect(ctx, s.pool, sqlOf, postgres.Args{"org": orgID}, read)
}

// sqlOfAccount reads those that are not deleted first, so that the limit leaves out the deleted.
const sqlOfAccount = `
select ` + columns + ` from senders where account_sid = @account order by deleted_at is not null, created_at, id limit @limit`

// ofAccount reads across organisations: an account may serve several.
func (s *Store) ofAccount(ctx context.Context, accountSID string) (found []stored, err error) {
	defer edge.Mark(&err)
	return edge.Collect(postgres.AcrossOrganisations(ctx), s.pool, sqlOfAccount,
		postgres.Args{"account": accountSID, "limit": mostOfAccount}, read)
}

// sqlMoved reads the senders of organisations that move to another deployment, or have moved: their rows are not visible.
const sqlMoved = `
select o.org_id::text, coalesce(s ->> 'number', ''), coalesce(s ->> 'service', '')
from organisations o cross join jsonb_array_elements(o.move -> 'senders') s
where o.move is not null and s ->> 'account' = @account`

func (s *Store) moved(ctx context.Context, accountSID string) (found []*messagingv1.CallbackSender, err error) {
	defer edge.Mark(&err)
	return edge.Collect(postgres.AcrossOrganisations(ctx), s.pool, sqlMoved, postgres.Args{"account": accountSID},
		func(row pgx.CollectableRow) (*messagingv1.CallbackSender, error) {
			of := &messagingv1.CallbackSender{}
			return of, row.Scan(&of.OrgId, &of.Number, &of.MessagingServiceSid)
		})
}

// sqlSealed reads what has credentials, in pages: all are looked at when a process starts.
const sqlSealed = `select ` + columns + ` from senders where auth_token is not null and id > @after order by id limit 500`

func (s *Store) sealedAfter(ctx context.Context, after uuid.UUID) (found []stored, err error) {
	defer edge.Mark(&err)
	return edge.Collect(postgres.AcrossOrganisations(ctx), s.pool, sqlSealed, postgres.Args{"after": after}, read)
}

// each calls do with every row that has credentials.
func (s *Store) each(ctx context.Context, do func(stored) error) error {
	after := uuid.Nil
	for {
		page, err := s.sealedAfter(ctx, after)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, row := range page {
			if err := do(row); err != nil {
				return err
			}
		}
		after = page[len(page)-1].ID
	}
}

const sqlInsert = `
insert into senders (id, org_id, name, account_sid, api_key_sid, service_sid, number, segments_per_second, countries, status,
	api_key_secret, auth_token, next_auth_token, version, created_at, updated_at)
values (@id, @org, @name, @account, @key, @service, @number, @rate, @countries, @status, @secret, @token, @next, @version, @at, @at)`

func (s *Store) insert(ctx context.Context, row stored) (err error) {
	defer edge.Mark(&err)
	_, err = s.pool.Exec(ctx, sqlInsert, argsOf(row))
	if postgres.IsUniqueViolation(err, "senders_number") || postgres.IsUniqueViolation(err, "senders_service") {
		return fmt.Errorf("%w: another sender has this number or messaging service", ErrClaimed)
	}
	return err
}

const sqlUpdate = `
update senders set name = @name, api_key_sid = @key, segments_per_second = @rate, countries = @countries, status = @status,
	api_key_secret = @secret, auth_token = @token, next_auth_token = @next, version = @version, updated_at = @at, deleted_at = @deleted
where id = @id and org_id = @org and deleted_at is null and version = @version::bigint - 1`

// update writes a row over the version before it, and reports whether that was still there.
func (s *Store) update(ctx context.Context, row stored) (done bool, err error) {
	defer edge.Mark(&err)
	tag, err := s.pool.Exec(ctx, sqlUpdate, argsOf(row))
	return tag.RowsAffected() > 0, err
}

func argsOf(row stored) postgres.Args {
	countries := row.Countries
	if countries == nil {
		countries = []string{}
	}
	return postgres.Args{
		"id": row.ID, "org": row.OrgID, "name": row.Name, "account": row.AccountSID, "key": row.APIKeySID, "service": edge.Null(row.ServiceSID),
		"number": edge.Null(row.Number), "rate": row.Rate, "countries": countries, "status": string(row.Status),
		"secret": row.sealed.APIKeySecret, "token": row.sealed.AuthToken, "next": row.sealed.NextAuthToken, "version": row.Version,
		"at": row.UpdatedAt, "deleted": edge.Null(row.DeletedAt),
	}
}

// sqlReseal changes nothing that is read, so the version stays: a process that knows the old form knows the same credentials.
const sqlReseal = `
update senders set api_key_secret = @secret, auth_token = @token, next_auth_token = @next
where id = @id and version = @version and deleted_at is null`

func (s *Store) reseal(ctx context.Context, row stored) (err error) {
	defer edge.Mark(&err)
	_, err = s.pool.Exec(postgres.AcrossOrganisations(ctx), sqlReseal, argsOf(row))
	return err
}

// sqlUsed reads the messages that are younger than the sender, by their index by age: an index by sender would cost every message, for a
// statement that few ever make.
const sqlUsed = `select exists (select from sms_messages where org_id = @org and id >= @since and sender_id = @id)`

// clockSkew is far above that between two processes that make ids.
const clockSkew = time.Hour

// since is the least id of what was made when an id of version 7 was, or a little before; uuid.Nil for any other id.
func since(id uuid.UUID) (least uuid.UUID) {
	if id.Version() != 7 {
		return uuid.Nil
	}
	at := binary.BigEndian.Uint64(id[:8])>>16 - uint64(clockSkew/time.Millisecond)
	binary.BigEndian.PutUint64(least[:8], at<<16)
	return least
}

// used reports whether a message names a sender.
func (s *Store) used(ctx context.Context, orgID, id uuid.UUID) (used bool, err error) {
	defer edge.Mark(&err)
	err = s.pool.QueryRow(ctx, sqlUsed, postgres.Args{"org": orgID, "id": id, "since": since(id)}).Scan(&used)
	return used, err
}

// One that moves to another deployment, or has moved, is the other one's to look after.
const sqlOrganisations = `
select distinct s.org_id from senders s
where s.deleted_at is null and s.org_id > @after
	and not exists (select from organisations o where o.org_id = s.org_id and o.move is not null)
order by s.org_id limit @limit`

// organisations returns which organisations have a sender, by their ids.
func (s *Store) organisations(ctx context.Context) (ids []uuid.UUID, err error) {
	defer edge.Mark(&err)
	ctx = postgres.AcrossOrganisations(ctx)
	for after := uuid.Nil; ; after = ids[len(ids)-1] {
		page, err := edge.Collect(ctx, s.pool, sqlOrganisations, postgres.Args{"after": after, "limit": organisationsPage},
			pgx.RowTo[uuid.UUID])
		if err != nil {
			return nil, err
		}
		if ids = append(ids, page...); len(page) < organisationsPage {
			return ids, nil
		}
	}
}

// sqlClaims finds the senders that have one of these numbers or messaging services, whatever organisation's.
const sqlClaims = `
select ` + columns + ` from senders where deleted_at is null and id <> @id and (number = any(@numbers::text[]) or service_sid = @service)`

func (s *Store) claims(ctx context.Context, id uuid.UUID, numbers []string, serviceSID string) (found []stored, err error) {
	defer edge.Mark(&err)
	return edge.Collect(postgres.AcrossOrganisations(ctx), s.pool, sqlClaims,
		postgres.Args{"id": id, "numbers": numbers, "service": serviceSID}, read)
}

// sqlHeard finds the senders that a person has heard from or written to, and the last word about consent that passed between the two: a
// STOP or START of the person, or Twilio's refusal because of a STOP. Null is the environment's.
const sqlHeard = `
select coalesce(sender_id, '00000000-0000-0000-0000-000000000000'), min(at),
	coalesce((array_agg(word order by said desc) filter (where word is not null))[1], ''),
	max(said) filter (where word is not null)
from (
	select sender_id, created_at as at, case when error_code = @opted_out then 'opt_out' end as word,
		coalesce(accepted_at, attempted_at, created_at) as said
	from sms_messages where org_id = @org and to_number = @phone and direction = 'outbound'
	union all
	select sender_id, created_at, case when consent_effect in ('opt_out', 'opt_in') then consent_effect end, created_at
	from sms_messages where org_id = @org and from_number = @phone and direction = 'inbound') m
group by sender_id`

func heard(ctx context.Context, c edge.Conn, orgID uuid.UUID, phone string) ([]acquaintance, error) {
	args := postgres.Args{"org": orgID, "phone": phone, "opted_out": twilio.CodeOptedOut}
	return edge.Collect(ctx, c, sqlHeard, args, func(row pgx.CollectableRow) (a acquaintance, err error) {
		var said *time.Time
		err = row.Scan(&a.sender, &a.since, &a.word, &said)
		a.said = edge.Value(said)
		return a, err
	})
}

func (s *Store) heard(ctx context.Context, orgID uuid.UUID, phone string) (all []acquaintance, err error) {
	defer edge.Mark(&err)
	return heard(ctx, s.pool, orgID, phone)
}

// BlockedElsewhere reports whether Twilio's refusal of a message from a sender says nothing new: the person has stopped that sender, and
// has written START to another one of the organisation since.
func BlockedElsewhere(ctx context.Context, c edge.Conn, orgID, senderID uuid.UUID, phone string) (bool, error) {
	known, err := heard(ctx, c, orgID, phone)
	return err == nil && blockedElsewhere(known, senderID), err
}
