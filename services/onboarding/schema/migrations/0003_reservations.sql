-- +goose Up
-- Deliveries that are being worked on (in_flight) or were (done). A row that has expired counts as absent; whoever
-- completes a reservation deletes some of those.
create table delivery_reservations (
    key        text        primary key check (key <> ''),
    state      text        not null check (state in ('in_flight', 'done')),
    owner      text        not null check (owner <> ''),
    expires_at timestamptz not null
);
create index delivery_reservations_expired on delivery_reservations (expires_at);

-- +goose Down
drop table delivery_reservations;
