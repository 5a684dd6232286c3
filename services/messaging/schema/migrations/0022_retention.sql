-- +goose NO TRANSACTION
-- +goose Up
-- What ends, and by what it is found (docs/security-and-privacy.md). Expand only, while messages are sent: each statement is its own transaction, and all of them may be
-- run again. Every new index is of columns that a message on its way does not change.
-- Messages with words, which are taken out when their time is over, and the records without them, which go when their own is.
DROP INDEX CONCURRENTLY IF EXISTS sms_messages_with_words;
CREATE INDEX CONCURRENTLY sms_messages_with_words ON sms_messages (created_at) WHERE body <> '';
DROP INDEX CONCURRENTLY IF EXISTS sms_messages_without_words;
CREATE INDEX CONCURRENTLY sms_messages_without_words ON sms_messages (created_at) WHERE body = '';
DROP INDEX CONCURRENTLY IF EXISTS sms_receipts_by_age;
CREATE INDEX CONCURRENTLY sms_receipts_by_age ON sms_receipts (received_at);
DROP INDEX CONCURRENTLY IF EXISTS consent_replies_by_age;
CREATE INDEX CONCURRENTLY consent_replies_by_age ON consent_replies (created_at);
DROP INDEX CONCURRENTLY IF EXISTS consents_by_age;
CREATE INDEX CONCURRENTLY consents_by_age ON consents (updated_at) WHERE state = 'opted_in' AND NOT carrier_blocks;
-- A message is not deleted while one of these names it.
DROP INDEX CONCURRENTLY IF EXISTS consent_events_by_message;
CREATE INDEX CONCURRENTLY consent_events_by_message ON consent_events (message_id) WHERE message_id IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS reminder_preferences_by_message;
CREATE INDEX CONCURRENTLY reminder_preferences_by_message ON reminder_preferences (message_id) WHERE message_id IS NOT NULL;
-- What is left of a ledger that was too old: by its name signed anchors know it, and they hold its witnesses, one after each line.
CREATE TABLE IF NOT EXISTS forgotten_ledgers (
    ledger_id    uuid        PRIMARY KEY,
    org_id       uuid        NOT NULL,
    forgotten_at timestamptz NOT NULL,
    witnesses    bytea[]     NOT NULL
);
ALTER TABLE forgotten_ledgers ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS tenant ON forgotten_ledgers;
CREATE POLICY tenant ON forgotten_ledgers TO messaging_tenant USING (org_id = current_org_id());
DROP POLICY IF EXISTS worker ON forgotten_ledgers;
CREATE POLICY worker ON forgotten_ledgers TO messaging_worker USING (true);
REVOKE UPDATE, DELETE ON forgotten_ledgers FROM messaging_tenant, messaging_worker;

-- What is append-only goes through these alone: evidence with its message, and a ledger as a whole. Only the owner of the tables passes: the
-- functions have its rights, and only while they say what they do.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION refuse_all_but_ours() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP || ' ' || TG_TABLE_NAME = current_setting('app.erasing', true)
        AND current_user = (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = TG_RELID) THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END
$$;
-- +goose StatementEnd
CREATE OR REPLACE TRIGGER consent_events_append_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON consent_events
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_all_but_ours();
CREATE OR REPLACE TRIGGER sms_looks_append_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON sms_looks
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_all_but_ours();
-- What consent.Witnesses says of a ledger.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION consent_witnesses(of_org uuid, of_phone text) RETURNS bytea[] LANGUAGE plpgsql STABLE AS $$
DECLARE
    line    consent_events;
    digest  bytea := decode(repeat('00', 32), 'hex');
    witness bytea := decode(repeat('00', 32), 'hex');
    said_by bytea;
    every   bytea[] := '{}';
BEGIN
    FOR line IN SELECT * FROM consent_events WHERE org_id = of_org AND phone = of_phone ORDER BY id LOOP
        digest := consent_line_hash(line, cardinality(every) + 1, digest);
        said_by := sha256(convert_to(netstring(coalesce(line.actor ->> 'subject', '')) || netstring(coalesce(line.actor ->> 'role', ''))
            || netstring(coalesce(line.actor ->> 'client_address', '')) || netstring(coalesce(line.actor ->> 'request_id', '')), 'UTF8'));
        witness := sha256(convert_to(netstring('paceline-witness-1') || netstring(encode(witness, 'hex')) || netstring(encode(digest, 'hex'))
            || netstring(encode(said_by, 'hex')), 'UTF8'));
        every := every || witness;
    END LOOP;
    RETURN every;
END
$$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION forget_messages(gone uuid[]) RETURNS SETOF uuid LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM set_config('app.erasing', 'DELETE sms_looks', true);
    DELETE FROM sms_looks WHERE message_id = ANY (gone);
    PERFORM set_config('app.erasing', '', true);
    DELETE FROM sms_receipts WHERE message_id = ANY (gone);
    DELETE FROM consent_replies WHERE message_id = ANY (gone);
    RETURN QUERY DELETE FROM sms_messages WHERE id = ANY (gone) RETURNING id;
END
$$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION forget_ledger(of_org uuid, of_phone text, forgotten timestamptz) RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    -- The last line decides, not the state in its row, which the caller could have written: an opt-out is never forgotten.
    IF EXISTS (SELECT FROM consents c WHERE c.org_id = of_org AND c.phone = of_phone AND (c.state <> 'opted_in' OR c.carrier_blocks))
        OR (SELECT e.state FROM consent_events e WHERE e.org_id = of_org AND e.phone = of_phone ORDER BY e.id DESC LIMIT 1) <> 'opted_in'
    THEN
        RETURN;
    END IF;
    INSERT INTO forgotten_ledgers (ledger_id, org_id, forgotten_at, witnesses)
    SELECT c.ledger_id, c.org_id, forgotten, consent_witnesses(of_org, of_phone) FROM consents c
    WHERE c.org_id = of_org AND c.phone = of_phone AND c.ledger_id IS NOT NULL;
    PERFORM set_config('app.erasing', 'DELETE consent_events', true);
    DELETE FROM consent_events WHERE org_id = of_org AND phone = of_phone;
    PERFORM set_config('app.erasing', '', true);
    RETURN QUERY DELETE FROM consents WHERE org_id = of_org AND phone = of_phone RETURNING phone;
END
$$;
-- +goose StatementEnd
REVOKE EXECUTE ON FUNCTION forget_messages(uuid[]), forget_ledger(uuid, text, timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION forget_messages(uuid[]), forget_ledger(uuid, text, timestamptz) TO messaging_worker;

-- +goose Down
DROP FUNCTION IF EXISTS forget_ledger(uuid, text, timestamptz);
DROP FUNCTION IF EXISTS forget_messages(uuid[]);
DROP FUNCTION IF EXISTS consent_witnesses(uuid, text);
DROP TABLE IF EXISTS forgotten_ledgers;
CREATE OR REPLACE TRIGGER consent_events_append_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON consent_events
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE OR REPLACE TRIGGER sms_looks_append_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON sms_looks
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
DROP FUNCTION IF EXISTS refuse_all_but_ours();
DROP INDEX CONCURRENTLY IF EXISTS reminder_preferences_by_message;
DROP INDEX CONCURRENTLY IF EXISTS consent_events_by_message;
DROP INDEX CONCURRENTLY IF EXISTS consents_by_age;
DROP INDEX CONCURRENTLY IF EXISTS consent_replies_by_age;
DROP INDEX CONCURRENTLY IF EXISTS sms_receipts_by_age;
DROP INDEX CONCURRENTLY IF EXISTS sms_messages_without_words;
DROP INDEX CONCURRENTLY IF EXISTS sms_messages_with_words;
