-- +goose NO TRANSACTION
-- +goose Up
-- What ends, and by what it is found (docs/privacy.md). Expand only, beside the sends: each statement is its own transaction, and all of them may be
-- run again. Every new index is of columns that a message on its way does not change.
-- Messages with words, which are taken out when their time is over, and the records without them, which go when their own is.
DROP INDEX CONCURRENTLY IF EXISTS sms_messages_with_words;
CREATE INDEX CONCURRENTLY sms_messages_with_words ON sms_messages (created_at) WHERE body <> '';
DROP INDEX CONCURRENTLY IF EXISTS sms_messages_without_words;
CREATE INDEX CONCURRENTLY sms_messages_without_words ON sms_messages (created_at) WHERE body = '';
DROP INDEX CONCURRENTLY IF EXISTS sms_messages_by_recipient;
CREATE INDEX CONCURRENTLY sms_messages_by_recipient ON sms_messages (org_id, to_number) WHERE direction = 'outbound';
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
-- What is append-only goes through these alone: evidence with its message, and a ledger as a whole.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('app.retention', true) = 'on' THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END
$$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION forget_messages(gone uuid[]) RETURNS SETOF uuid LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM set_config('app.retention', 'on', true);
    DELETE FROM sms_looks WHERE message_id = ANY (gone);
    PERFORM set_config('app.retention', '', true);
    DELETE FROM sms_receipts WHERE message_id = ANY (gone);
    DELETE FROM consent_replies WHERE message_id = ANY (gone);
    RETURN QUERY DELETE FROM sms_messages WHERE id = ANY (gone) RETURNING id;
END
$$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION forget_ledger(of_org uuid, of_phone text) RETURNS SETOF text LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM set_config('app.retention', 'on', true);
    DELETE FROM consent_events WHERE org_id = of_org AND phone = of_phone;
    PERFORM set_config('app.retention', '', true);
    RETURN QUERY DELETE FROM consents WHERE org_id = of_org AND phone = of_phone RETURNING phone;
END
$$;
-- +goose StatementEnd
REVOKE EXECUTE ON FUNCTION forget_messages(uuid[]), forget_ledger(uuid, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION forget_messages(uuid[]), forget_ledger(uuid, text) TO messaging_worker;

-- +goose Down
DROP FUNCTION IF EXISTS forget_ledger(uuid, text);
DROP FUNCTION IF EXISTS forget_messages(uuid[]);
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END
$$;
-- +goose StatementEnd
DROP INDEX CONCURRENTLY IF EXISTS reminder_preferences_by_message;
DROP INDEX CONCURRENTLY IF EXISTS consent_events_by_message;
DROP INDEX CONCURRENTLY IF EXISTS consents_by_age;
DROP INDEX CONCURRENTLY IF EXISTS consent_replies_by_age;
DROP INDEX CONCURRENTLY IF EXISTS sms_receipts_by_age;
DROP INDEX CONCURRENTLY IF EXISTS sms_messages_by_recipient;
DROP INDEX CONCURRENTLY IF EXISTS sms_messages_without_words;
DROP INDEX CONCURRENTLY IF EXISTS sms_messages_with_words;
