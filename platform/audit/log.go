package audit

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	"paceline.internal/platform/postgres"
	"paceline.internal/platform/rpc"
	"paceline.internal/platform/telemetry"
	auditv1 "paceline.internal/proto/gen/paceline/audit/v1"
)

// Log is the table audit of a service, which its migrations make.
type Log struct {
	db     postgres.DB
	shared *postgres.Combiner // calls that come together share a commit
	now    func() time.Time
}

// New returns the log in a migrated database.
func New(db postgres.DB, now func() time.Time) *Log {
	return &Log{db: db, shared: postgres.NewCombiner(db), now: now}
}

const sqlKeep = `
insert into audit (id, at, org_id, subject, role, client_address, request_id, method, profile_id, target_id, phone)
select u.id, u.at, u.org_id, u.subject, u.role, u.client, u.request, u.method, nullif(u.profile, '')::uuid, nullif(u.target, '')::uuid,
    nullif(u.phone, '')
from unnest(@id::uuid[], @at::timestamptz[], @org::uuid[], @subject::text[], @role::text[], @client::text[], @request::text[],
    @method::text[], @profile::text[], @target::text[], @phone::text[]) as
    u (id, at, org_id, subject, role, client, request, method, profile, target, phone)`

// sqlEnded adds what the answer of a call says beyond its request.
const sqlEnded = `
update audit a
set outcome = u.outcome, profile_id = coalesce(a.profile_id, nullif(u.profile, '')::uuid),
    target_id = coalesce(a.target_id, nullif(u.target, '')::uuid)
from unnest(@id::uuid[], @outcome::text[], @profile::text[], @target::text[]) as u (id, outcome, profile, target)
where a.id = u.id and a.id = any(@id::uuid[])`

// Keep is rpc.Keep.
func (l *Log) Keep(ctx context.Context, call rpc.Call) (func(context.Context, codes.Code, rpc.About) error, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	err = l.do(ctx, id, sqlKeep, postgres.Args{
		"id": id, "at": l.now(), "org": cmp.Or(call.Caller.OrgID, call.About.OrgID, uuid.Nil.String()),
		"subject": call.Caller.Subject, "role": string(call.Caller.Role),
		"client": call.Caller.Client, "request": telemetry.RequestID(ctx), "method": call.Method,
		"profile": call.About.ProfileID, "target": call.About.TargetID, "phone": call.About.Phone,
	})
	return func(ctx context.Context, outcome codes.Code, about rpc.About) error {
		return l.do(ctx, id, sqlEnded, postgres.Args{
			"id": id, "outcome": outcome.String(), "profile": about.ProfileID, "target": about.TargetID,
		})
	}, err
}

// do writes for whatever caller: a person may not read who looked at them, so none of them may write it either.
func (l *Log) do(ctx context.Context, id uuid.UUID, sql string, args postgres.Args) error {
	err := l.shared.Do(postgres.AcrossOrganisations(ctx), id.String(), postgres.Statement{SQL: sql, Args: args})
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return nil
}

// Filter chooses entries of one organisation. An empty field chooses all.
type Filter struct {
	OrgID     string
	Subject   string
	Method    string
	ProfileID string
	TargetID  string
	Phone     string
	Changes   bool      // only calls of methods that change something
	Since     time.Time // and later
	Until     time.Time // and not itself
	Behind    Place     // only what comes behind it
	Limit     int
}

// Place is the position of an entry in the list: newest first.
type Place struct {
	At time.Time
	ID string
}

// sqlPlannedNow plans a list for its own filters.
const sqlPlannedNow = `select set_config('plan_cache_mode', 'force_custom_plan', true)`

const sqlList = `
select id::text, at, subject, role, client_address, request_id, method, coalesce(profile_id::text, '') as profile_id,
    coalesce(target_id::text, '') as target_id, coalesce(phone, '') as phone, coalesce(outcome, '') as outcome
from audit
where org_id = @org::uuid and (@subject::text = '' or subject = @subject) and (@method::text = '' or method = @method)
  and (@profile::text = '' or profile_id = nullif(@profile, '')::uuid) and (@target::text = '' or target_id = nullif(@target, '')::uuid)
  and (@phone::text = '' or phone = @phone) and (not @changes::boolean or method = any(@changing::text[]))
  and (@since::timestamptz is null or at >= @since) and (@until::timestamptz is null or at < @until)
  and (@behind::text = '' or (at, id) < (@behind_at::timestamptz, nullif(@behind, '')::uuid))
order by at desc, id desc limit @limit`

// List reads entries, newest first.
func (l *Log) List(ctx context.Context, f Filter) (found []*auditv1.AuditEntry, err error) {
	var batch pgx.Batch
	batch.Queue(sqlPlannedNow)
	batch.Queue(sqlList, postgres.Args{
		"org": f.OrgID, "subject": f.Subject, "method": f.Method, "profile": f.ProfileID, "target": f.TargetID, "phone": f.Phone,
		"since": orNull(f.Since), "until": orNull(f.Until), "behind": f.Behind.ID, "behind_at": orNull(f.Behind.At), "limit": f.Limit,
		"changes": f.Changes, "changing": changing(),
	}).Query(func(rows pgx.Rows) (err error) {
		found, err = pgx.CollectRows(rows, entry)
		return err
	})
	if err := l.db.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, fmt.Errorf("list the audit: %w", err)
	}
	return found, nil
}

func entry(row pgx.CollectableRow) (*auditv1.AuditEntry, error) {
	e := &auditv1.AuditEntry{Actor: &auditv1.Actor{}}
	var at time.Time
	err := row.Scan(&e.AuditId, &at, &e.Actor.Subject, &e.Actor.Role, &e.Actor.ClientAddress, &e.Actor.RequestId, &e.Method,
		&e.ProfileId, &e.TargetId, &e.Phone, &e.Outcome)
	e.At = timestamppb.New(at)
	return e, err
}

func orNull(at time.Time) any {
	if at.IsZero() {
		return nil
	}
	return at
}
