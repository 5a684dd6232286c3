-- +goose NO TRANSACTION
-- +goose Up

-- What is evidence is appended only, by the grants too (docs/adr/0049): the login that serves can add to it and read it, and is not the owner
-- of the table, so it cannot take the triggers off either. A release that serves as the owner goes on as before. Each statement is its own
-- transaction; all of them may be run again.
REVOKE UPDATE, DELETE ON consent_events, sms_looks FROM messaging_tenant, messaging_worker;
-- What Twilio reported is deleted once its time is over, and never changed.
REVOKE UPDATE ON sms_receipts FROM messaging_tenant, messaging_worker;
-- Of a call that is kept only its end is added; what is old is deleted by the service.
REVOKE UPDATE ON audit FROM messaging_tenant, messaging_worker;
GRANT UPDATE (outcome, profile_id, target_id) ON audit TO messaging_worker;
-- A phone's state and the head of its chain are never taken away.
REVOKE DELETE ON consents FROM messaging_tenant, messaging_worker;

-- A ledger has a name outside the database that says nothing about the phone. The default comes after the column, so that nothing is
-- rewritten: a ledger that is older gets its name when it is anchored first.
ALTER TABLE consents
    ADD COLUMN IF NOT EXISTS ledger_id uuid,
    -- How many of its lines signed anchors hold.
    ADD COLUMN IF NOT EXISTS anchored bigint NOT NULL DEFAULT 0;
ALTER TABLE consents ALTER COLUMN ledger_id SET DEFAULT gen_random_uuid();
DROP INDEX CONCURRENTLY IF EXISTS consents_by_ledger;
CREATE UNIQUE INDEX CONCURRENTLY consents_by_ledger ON consents (ledger_id) WHERE ledger_id IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS consents_to_anchor;
CREATE INDEX CONCURRENTLY consents_to_anchor ON consents (org_id, phone) WHERE anchored < chain_length;

-- The anchors that were written outside: which there are has to be known here, and what they say there. A row for each, for good.
CREATE TABLE IF NOT EXISTS ledger_anchors (
    number  bigint      PRIMARY KEY,
    at      timestamptz NOT NULL,
    ledgers integer     NOT NULL CHECK (ledgers > 0),
    hash    text        NOT NULL CHECK (length(hash) = 64)
);
ALTER TABLE ledger_anchors ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS worker ON ledger_anchors;
CREATE POLICY worker ON ledger_anchors TO messaging_worker USING (true);
REVOKE UPDATE, DELETE ON ledger_anchors FROM messaging_tenant, messaging_worker;

-- +goose Down

DROP TABLE IF EXISTS ledger_anchors;
DROP INDEX CONCURRENTLY IF EXISTS consents_to_anchor;
DROP INDEX CONCURRENTLY IF EXISTS consents_by_ledger;
ALTER TABLE consents DROP COLUMN IF EXISTS anchored, DROP COLUMN IF EXISTS ledger_id;
GRANT SELECT, INSERT, UPDATE, DELETE ON consents, consent_events, sms_receipts, sms_looks, audit TO messaging_tenant, messaging_worker;
