-- +goose NO TRANSACTION
-- +goose Up
-- What ends, and by what it is found (docs/privacy.md). Expand only, beside the sends: each statement is its own transaction, and all of them may be
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
-- What is append-only goes through these alone: evidence with its message, and a ledger as a whole. Only the owner of the tables passes, whose
-- rights the functions have, and only while it says what it does.
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
CREATE OR REPLACE FUNCTION forget_ledger(of_org uuid, of_phone text) RETURNS SETOF text LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM set_config('app.erasing', 'DELETE consent_events', true);
    DELETE FROM consent_events WHERE org_id = of_org AND phone = of_phone;
    PERFORM set_config('app.erasing', '', true);
    RETURN QUERY DELETE FROM consents WHERE org_id = of_org AND phone = of_phone RETURNING phone;
END
$$;
-- +goose StatementEnd
REVOKE EXECUTE ON FUNCTION forget_messages(uuid[]), forget_ledger(uuid, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION forget_messages(uuid[]), forget_ledger(uuid, text) TO messaging_worker;

-- +goose Down
DROP FUNCTION IF EXISTS forget_ledger(uuid, text);
DROP FUNCTION IF EXISTS forget_messages(uuid[]);
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
