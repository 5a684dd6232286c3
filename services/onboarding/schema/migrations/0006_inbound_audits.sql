-- +goose Up
-- How far what people texted to a sender has been compared with Twilio's own record of it. Whoever sweeps holds the lease; the mark
-- moves once everything that was found is stored.
create table inbound_audits (
    org_id      uuid        not null,
    sender      text        not null check (sender <> ''),
    swept_until timestamptz not null,
    swept_at    timestamptz,
    due_at      timestamptz not null,
    -- Of the last sweep: how many texts Twilio has, and how many of them had never come. And these of all sweeps.
    listed      integer     not null default 0 check (listed >= 0),
    found       integer     not null default 0 check (found >= 0),
    found_total bigint      not null default 0 check (found_total >= 0),
    lease_token uuid,
    lease_until timestamptz,
    primary key (org_id, sender),
    constraint inbound_audits_lease check ((lease_token is null) = (lease_until is null))
);

-- +goose Down
drop table inbound_audits;
