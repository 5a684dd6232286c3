-- +goose NO TRANSACTION
-- +goose Up

-- What the login that serves may take away or choose (docs/security-and-privacy.md). Expand only: a release that knows none of this goes on working while
-- one that does runs. Each statement is its own transaction; all of them may be run again.

-- The number of a line is the database's: it says which line came first. The columns are all but those that triggers and
-- defaults fill: the chain, and who called. A column that comes later has to be granted too.
-- One block, so that the service can write at every moment.
-- +goose StatementBegin
DO $$
BEGIN
    REVOKE INSERT ON consent_events, sms_receipts, sms_looks FROM messaging_tenant, messaging_worker;
    GRANT INSERT (org_id, phone, at, state, source, words, sender, message_id, keyword_pack, rules_version, confirmed_by, confirmation)
        ON consent_events TO messaging_tenant, messaging_worker;
    GRANT INSERT (message_id, twilio_sid, status, error_code, raw, received_at) ON sms_receipts TO messaging_tenant, messaging_worker;
    GRANT INSERT (message_id, at, finding, detail, candidates) ON sms_looks TO messaging_tenant, messaging_worker;
END
$$;
-- +goose StatementEnd

-- How old a row is, the database's own clock decides in what follows: a time that the caller names would be no floor. A row that is too young
-- stays without an error: the clocks of the service and of the database may differ by a moment, and the next pass takes it.

-- Rows of audit younger than 30 days, the least of AUDIT_RETENTION. The pass of a replica that has it shorter leaves those rows.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION keep_young_rows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RETURN CASE WHEN current_user = (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = TG_RELID) THEN OLD END;
END
$$;
-- +goose StatementEnd
CREATE OR REPLACE TRIGGER audit_is_kept BEFORE DELETE ON audit FOR EACH ROW
    WHEN (OLD.at > now() - interval '30 days') EXECUTE FUNCTION keep_young_rows();

-- Receipts likewise, 30 days being the least of RECEIPTS_RETENTION. What forgets a message runs as the owner and takes its receipts along.
CREATE OR REPLACE TRIGGER sms_receipts_are_kept BEFORE DELETE ON sms_receipts FOR EACH ROW
    WHEN (OLD.received_at > now() - interval '30 days') EXECUTE FUNCTION keep_young_rows();

-- The end of a call is added once. An erasure takes the number out of it as the owner.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION refuse_change_of_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_user = (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = TG_RELID) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'the end of a call is in audit already' USING ERRCODE = 'restrict_violation';
END
$$;
-- +goose StatementEnd
CREATE OR REPLACE TRIGGER audit_ends_once BEFORE UPDATE ON audit FOR EACH ROW
    WHEN (OLD.outcome IS NOT NULL) EXECUTE FUNCTION refuse_change_of_audit();

-- A message goes by forget_messages alone; else it could be taken out and put in again, with another age.
REVOKE DELETE ON sms_messages FROM messaging_tenant, messaging_worker;

-- An actor that cannot be read would stop the anchors of its ledger, and an erasure.
ALTER TABLE consent_events DROP CONSTRAINT IF EXISTS actor_is_of_strings;
ALTER TABLE consent_events ADD CONSTRAINT actor_is_of_strings
    CHECK (actor IS NULL OR jsonb_typeof(actor) = 'object' AND NOT actor @? 'strict $.* ? (@.type() != "string")') NOT VALID;
ALTER TABLE consent_events VALIDATE CONSTRAINT actor_is_of_strings;

-- The anchors are numbered without a gap: after a number that somebody has jumped to there might be none.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION refuse_a_gap() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.number <> coalesce((SELECT max(number) FROM ledger_anchors), 0) + 1 THEN
        RAISE EXCEPTION 'anchor % is not the next one', NEW.number USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE OR REPLACE TRIGGER ledger_anchors_have_no_gap BEFORE INSERT ON ledger_anchors FOR EACH ROW EXECUTE FUNCTION refuse_a_gap();

-- When a message was begun says how long it is kept, so it does not change.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION refuse_another_age() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_user = (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = TG_RELID) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'created_at of % does not change', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END
$$;
-- +goose StatementEnd
CREATE OR REPLACE TRIGGER sms_messages_keep_their_age BEFORE UPDATE OF created_at ON sms_messages FOR EACH ROW
    WHEN (NEW.created_at IS DISTINCT FROM OLD.created_at) EXECUTE FUNCTION refuse_another_age();

-- The record of a message is kept for a year at the least, as CONSENT_RETENTION is; and so is a ledger, after its last line and the last
-- message to its phone.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION forget_messages(gone uuid[]) RETURNS SETOF uuid LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    old uuid[] := ARRAY(SELECT id FROM sms_messages WHERE id = ANY (gone) AND created_at < now() - interval '365 days');
BEGIN
    PERFORM set_config('app.erasing', 'DELETE sms_looks', true);
    DELETE FROM sms_looks WHERE message_id = ANY (old);
    PERFORM set_config('app.erasing', '', true);
    DELETE FROM sms_receipts WHERE message_id = ANY (old);
    DELETE FROM consent_replies WHERE message_id = ANY (old);
    RETURN QUERY DELETE FROM sms_messages WHERE id = ANY (old) RETURNING id;
END
$$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION forget_ledger(of_org uuid, of_phone text, forgotten timestamptz) RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    year_ago timestamptz := now() - interval '365 days';
BEGIN
    -- The last line decides, not the state in its row, which the caller could have written: an opt-out is never forgotten.
    IF EXISTS (SELECT FROM consents c WHERE c.org_id = of_org AND c.phone = of_phone AND (c.state <> 'opted_in' OR c.carrier_blocks))
        OR (SELECT e.state FROM consent_events e WHERE e.org_id = of_org AND e.phone = of_phone ORDER BY e.id DESC LIMIT 1) <> 'opted_in'
        OR EXISTS (SELECT FROM consent_events e WHERE e.org_id = of_org AND e.phone = of_phone AND e.at > year_ago)
        OR EXISTS (SELECT FROM sms_messages m
            WHERE m.org_id = of_org AND m.to_number = of_phone AND m.direction = 'outbound' AND m.attempted_at > year_ago)
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

-- The account that an id of WhatsApp names, which is a number: 'wamid.' and, in base64, three bytes and then the number. Null for what names
-- none: as an index calls it, it must not fail.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION whatsapp_account(id text) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog AS $$
DECLARE
    said text := translate(rtrim(substr(id, 7), '='), '-_', '+/');
BEGIN
    RETURN substring(encode(decode(rpad(said, (length(said) + 3) / 4 * 4, '='), 'base64'), 'escape') FROM '[0-9]{7,15}');
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- What a person wrote is found by this index, and what was sent to them by that of the caps: one of both is one more to write for each change of
-- a message.
DROP INDEX CONCURRENTLY IF EXISTS sms_messages_from_phone;
CREATE INDEX CONCURRENTLY sms_messages_from_phone ON sms_messages (org_id, from_number) WHERE direction = 'inbound';
DROP INDEX CONCURRENTLY IF EXISTS sms_messages_by_person;

-- What an erasure finds besides messages: texts of the queue, and receipts of messages that are none of ours.
DROP INDEX CONCURRENTLY IF EXISTS sms_outbound_jobs_to;
CREATE INDEX CONCURRENTLY sms_outbound_jobs_to ON sms_outbound_jobs (org_id, (payload ->> 'to'));
DROP INDEX CONCURRENTLY IF EXISTS sms_receipts_unmatched_to;
CREATE INDEX CONCURRENTLY sms_receipts_unmatched_to ON sms_receipts ((raw ->> 'To')) WHERE message_id IS NULL;
DROP INDEX CONCURRENTLY IF EXISTS sms_receipts_unmatched_from;
CREATE INDEX CONCURRENTLY sms_receipts_unmatched_from ON sms_receipts ((raw ->> 'From')) WHERE message_id IS NULL;
DROP INDEX CONCURRENTLY IF EXISTS sms_receipts_unmatched_whatsapp;
CREATE INDEX CONCURRENTLY sms_receipts_unmatched_whatsapp ON sms_receipts (whatsapp_account(twilio_sid))
    WHERE message_id IS NULL AND twilio_sid LIKE 'wamid.%';

-- erase_person as 0023 has it, but for these indexes, for receipts of messages that are none of ours, and for what it demands of its caller. It
-- takes a person's words and number out of everything but the ledger, and deletes the ledger; the caller has kept its links. It runs under the
-- lock on the phone. Messages are of the phone, or of the profile: so are those of a number that the person had before. Each of these, others, has
-- a pseudonym in aliases: what was sent to it goes on counting for its caps.
DROP FUNCTION IF EXISTS erase_person(uuid, text, uuid, text, timestamptz);
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION erase_person(
    of_org uuid, of_phone text, of_profile uuid, alias text, erased timestamptz, others text[], aliases text[]
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    theirs uuid[] := ARRAY(
        SELECT id FROM sms_messages WHERE org_id = of_org AND to_number = of_phone AND direction = 'outbound'
        UNION
        SELECT id FROM sms_messages WHERE org_id = of_org AND from_number = of_phone AND direction = 'inbound'
        UNION
        SELECT id FROM sms_messages WHERE org_id = of_org AND profile_id = of_profile);
    digits text := substr(of_phone, 2);
    -- As WhatsApp names them: in Brazil without the 9 that mobile numbers have had since 2016, in Mexico with the 1 that they had until 2019.
    accounts text[] := ARRAY[digits, regexp_replace(digits, '^(55..)9([6-9].{7})$', '\1\2'), regexp_replace(digits, '^52(.{10})$', '521\1')];
BEGIN
    -- The erasure of the profile, what is left of the lines, and an opt-out are kept before any of it goes.
    IF NOT EXISTS (SELECT FROM erased_profiles p WHERE p.org_id = of_org AND p.profile_id = of_profile AND p.pseudonym = alias)
        OR EXISTS (SELECT FROM consent_events e WHERE e.org_id = of_org AND e.phone = of_phone)
            AND NOT EXISTS (SELECT FROM erased_ledgers l JOIN consents c ON c.org_id = l.org_id AND c.phone = of_phone
                WHERE l.org_id = of_org AND l.pseudonym = alias AND l.id = coalesce(c.ledger_id, l.id) AND l.erased_at = erased
                    AND l.length = (SELECT count(*) FROM consent_events e WHERE e.org_id = of_org AND e.phone = of_phone))
        OR EXISTS (SELECT FROM consents c WHERE c.org_id = of_org AND c.phone = of_phone AND c.state = 'opted_out')
            AND NOT EXISTS (SELECT FROM suppressions s WHERE s.org_id = of_org AND s.pseudonym = alias)
    THEN
        RAISE EXCEPTION 'the ledger of the phone is not kept' USING ERRCODE = 'restrict_violation';
    END IF;
    PERFORM set_config('app.erasing', 'DELETE consent_events', true);
    DELETE FROM consent_events WHERE org_id = of_org AND phone = of_phone;
    PERFORM set_config('app.erasing', 'UPDATE sms_looks', true);
    UPDATE sms_looks SET detail = '' WHERE message_id = ANY (theirs) AND finding IN ('failed', 'resolved'); -- an operator's words
    PERFORM set_config('app.erasing', '', true);
    DELETE FROM consents WHERE org_id = of_org AND phone = of_phone;
    DELETE FROM consent_replies WHERE message_id = ANY (theirs) OR org_id = of_org AND phone = of_phone;
    DELETE FROM reminder_preferences WHERE org_id = of_org AND phone = of_phone;
    DELETE FROM sms_outbound_jobs
    WHERE org_id = of_org AND (payload ->> 'to' = of_phone OR payload ? 'profile_id' AND payload ->> 'profile_id' = of_profile::text);
    -- WhatsApp's ids hold the number, in base64.
    UPDATE sms_receipts SET raw = '{}', twilio_sid = CASE WHEN twilio_sid LIKE 'wamid.%' THEN 'erased:' || id ELSE twilio_sid END
    WHERE message_id = ANY (theirs) AND (raw <> '{}' OR twilio_sid LIKE 'wamid.%');
    -- Receipts of messages that are none of ours name no organisation: they are emptied of every organisation.
    UPDATE sms_receipts SET raw = '{}' WHERE message_id IS NULL AND (raw ->> 'To' = of_phone OR raw ->> 'From' = of_phone);
    UPDATE sms_receipts SET raw = '{}', twilio_sid = 'erased:' || id
    WHERE message_id IS NULL AND twilio_sid LIKE 'wamid.%' AND whatsapp_account(twilio_sid) = ANY (accounts);
    UPDATE sms_messages SET body = '', body_hash = decode(repeat('00', 32), 'hex'), erased_at = coalesce(erased_at, erased),
        from_number = CASE direction WHEN 'inbound' THEN coalesce(aliases[array_position(others, from_number)], alias) ELSE from_number END,
        to_number = CASE direction WHEN 'outbound' THEN coalesce(aliases[array_position(others, to_number)], alias) ELSE to_number END,
        twilio_sid = CASE WHEN twilio_sid LIKE 'wamid.%' THEN 'erased:' || id ELSE twilio_sid END,
        -- Keys of ours are made of ids; any other is the caller's, who may have put anything into it.
        idempotency_key = CASE WHEN idempotency_key IS NULL OR idempotency_key LIKE 'onboarding:%' OR idempotency_key LIKE 'outbound:%'
            THEN idempotency_key ELSE 'erased:' || id END
    WHERE id = ANY (theirs) AND erased_at IS NULL;
    DELETE FROM event_outbox WHERE org_id = of_org AND phone = of_phone;
    -- An id of a request may be the client's.
    UPDATE audit SET phone = NULL, request_id = '' WHERE org_id = of_org AND (phone = of_phone OR profile_id = of_profile);
    DELETE FROM holds WHERE org_id = of_org AND phone = of_phone;
END
$$;
-- +goose StatementEnd
REVOKE EXECUTE ON FUNCTION erase_person(uuid, text, uuid, text, timestamptz, text[], text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION erase_person(uuid, text, uuid, text, timestamptz, text[], text[]) TO messaging_worker;

-- +goose Down

CREATE INDEX CONCURRENTLY IF NOT EXISTS sms_messages_by_person
    ON sms_messages (org_id, (CASE direction WHEN 'inbound' THEN from_number ELSE to_number END));
DROP INDEX CONCURRENTLY IF EXISTS sms_messages_from_phone;
DROP FUNCTION IF EXISTS erase_person(uuid, text, uuid, text, timestamptz, text[], text[]);
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION erase_person(of_org uuid, of_phone text, of_profile uuid, alias text, erased timestamptz)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    theirs uuid[] := ARRAY(
        SELECT id FROM sms_messages
        WHERE org_id = of_org AND (CASE direction WHEN 'inbound' THEN from_number ELSE to_number END) = of_phone
        UNION
        SELECT id FROM sms_messages WHERE org_id = of_org AND profile_id = of_profile);
BEGIN
    -- What is left of the lines is kept before they go, and so is an opt-out.
    IF EXISTS (SELECT FROM consent_events e WHERE e.org_id = of_org AND e.phone = of_phone)
            AND NOT EXISTS (SELECT FROM erased_ledgers l WHERE l.org_id = of_org AND l.pseudonym = alias)
        OR EXISTS (SELECT FROM consents c WHERE c.org_id = of_org AND c.phone = of_phone AND c.state = 'opted_out')
            AND NOT EXISTS (SELECT FROM suppressions s WHERE s.org_id = of_org AND s.pseudonym = alias)
    THEN
        RAISE EXCEPTION 'the ledger of the phone is not kept' USING ERRCODE = 'restrict_violation';
    END IF;
    PERFORM set_config('app.erasing', 'DELETE consent_events', true);
    DELETE FROM consent_events WHERE org_id = of_org AND phone = of_phone;
    PERFORM set_config('app.erasing', 'UPDATE sms_looks', true);
    UPDATE sms_looks SET detail = '' WHERE message_id = ANY (theirs) AND finding IN ('failed', 'resolved'); -- an operator's words
    PERFORM set_config('app.erasing', '', true);
    DELETE FROM consents WHERE org_id = of_org AND phone = of_phone;
    DELETE FROM consent_replies WHERE message_id = ANY (theirs) OR org_id = of_org AND phone = of_phone;
    DELETE FROM reminder_preferences WHERE org_id = of_org AND phone = of_phone;
    DELETE FROM sms_outbound_jobs
    WHERE org_id = of_org AND (payload ->> 'to' = of_phone OR payload ? 'profile_id' AND payload ->> 'profile_id' = of_profile::text);
    -- WhatsApp's ids hold the number, in base64.
    UPDATE sms_receipts SET raw = '{}', twilio_sid = CASE WHEN twilio_sid LIKE 'wamid.%' THEN 'erased:' || id ELSE twilio_sid END
    WHERE message_id = ANY (theirs) AND (raw <> '{}' OR twilio_sid LIKE 'wamid.%');
    UPDATE sms_receipts SET raw = '{}' WHERE message_id IS NULL AND of_phone IN (raw ->> 'To', raw ->> 'From');
    UPDATE sms_messages SET body = '', body_hash = decode(repeat('00', 32), 'hex'), erased_at = coalesce(erased_at, erased),
        from_number = CASE direction WHEN 'inbound' THEN alias ELSE from_number END,
        to_number = CASE direction WHEN 'outbound' THEN alias ELSE to_number END,
        twilio_sid = CASE WHEN twilio_sid LIKE 'wamid.%' THEN 'erased:' || id ELSE twilio_sid END,
        -- Keys of ours are made of ids; any other is the caller's, who may have put anything into it.
        idempotency_key = CASE WHEN idempotency_key IS NULL OR idempotency_key LIKE 'onboarding:%' OR idempotency_key LIKE 'outbound:%'
            THEN idempotency_key ELSE 'erased:' || id END
    WHERE id = ANY (theirs) AND erased_at IS NULL;
    DELETE FROM event_outbox WHERE org_id = of_org AND phone = of_phone;
    UPDATE audit SET phone = NULL WHERE org_id = of_org AND phone = of_phone;
    DELETE FROM holds WHERE org_id = of_org AND phone = of_phone;
END
$$;
-- +goose StatementEnd
REVOKE EXECUTE ON FUNCTION erase_person(uuid, text, uuid, text, timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION erase_person(uuid, text, uuid, text, timestamptz) TO messaging_worker;
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
DROP INDEX CONCURRENTLY IF EXISTS sms_receipts_unmatched_whatsapp;
DROP INDEX CONCURRENTLY IF EXISTS sms_receipts_unmatched_from;
DROP INDEX CONCURRENTLY IF EXISTS sms_receipts_unmatched_to;
DROP INDEX CONCURRENTLY IF EXISTS sms_outbound_jobs_to;
DROP FUNCTION IF EXISTS whatsapp_account(text);
DROP TRIGGER IF EXISTS sms_messages_keep_their_age ON sms_messages;
DROP FUNCTION IF EXISTS refuse_another_age();
DROP TRIGGER IF EXISTS ledger_anchors_have_no_gap ON ledger_anchors;
DROP FUNCTION IF EXISTS refuse_a_gap();
ALTER TABLE consent_events DROP CONSTRAINT IF EXISTS actor_is_of_strings;
GRANT DELETE ON sms_messages TO messaging_tenant, messaging_worker;
DROP TRIGGER IF EXISTS audit_ends_once ON audit;
DROP FUNCTION IF EXISTS refuse_change_of_audit();
DROP TRIGGER IF EXISTS sms_receipts_are_kept ON sms_receipts;
DROP TRIGGER IF EXISTS audit_is_kept ON audit;
DROP FUNCTION IF EXISTS keep_young_rows();
GRANT INSERT ON consent_events, sms_receipts, sms_looks TO messaging_tenant, messaging_worker;
