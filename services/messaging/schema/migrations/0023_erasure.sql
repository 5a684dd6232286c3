-- +goose NO TRANSACTION
-- +goose Up

-- Expand only: a release that knows none of this goes on working while one that does runs. Each statement is its own transaction; all of them
-- may be run again.

-- Which rows a person has, whoever of the two ends they are: an erasure and an export read them all.
DROP INDEX CONCURRENTLY IF EXISTS sms_messages_by_person;
CREATE INDEX CONCURRENTLY sms_messages_by_person
    ON sms_messages (org_id, (CASE direction WHEN 'inbound' THEN from_number ELSE to_number END));

-- When the words and the number of a row were taken out of it. The row stays: its key keeps a message single, and its SID keeps what Twilio
-- still tells of it from being somebody else's.
ALTER TABLE sms_messages ADD COLUMN IF NOT EXISTS erased_at timestamptz;

-- One-time codes that still have their words.
DROP INDEX CONCURRENTLY IF EXISTS sms_outbound_jobs_codes;
CREATE INDEX CONCURRENTLY sms_outbound_jobs_codes ON sms_outbound_jobs (processed_at)
    WHERE event_type = 'otp' AND processed_at IS NOT NULL AND payload ->> 'body' <> '';

-- The STOP of people: their number is not kept any more. key_id is of the key that made the pseudonym: under another key none would be found.
CREATE TABLE IF NOT EXISTS suppressions (
    org_id     uuid        NOT NULL,
    pseudonym  text        NOT NULL CHECK (pseudonym <> ''),
    key_id     text        NOT NULL CHECK (key_id <> ''),
    created_at timestamptz NOT NULL,
    PRIMARY KEY (org_id, pseudonym)
);
CREATE INDEX IF NOT EXISTS suppressions_by_key ON suppressions (org_id, key_id);

-- The profiles that are being erased or were: nothing is sent in their name, by no process that still has one of their texts in its hands.
CREATE TABLE IF NOT EXISTS erased_profiles (
    org_id     uuid        NOT NULL,
    profile_id uuid        NOT NULL,
    pseudonym  text        NOT NULL CHECK (pseudonym <> ''),
    began_at   timestamptz NOT NULL,
    erased_at  timestamptz,
    PRIMARY KEY (org_id, profile_id)
);

-- What is left of the ledger of an erased person. Its hashes would tell the number to whoever tries them all with the times and the
-- messages, so they are in lines alone: of each line time, state, source, hashes, its digest and that of its actor, encrypted under
-- PSEUDONYM_KEY (AES-256-GCM), which holds the other columns too.
CREATE TABLE IF NOT EXISTS erased_ledgers (
    id        uuid        PRIMARY KEY, -- consents.ledger_id: by this name signed anchors know it
    org_id    uuid        NOT NULL,
    pseudonym text        NOT NULL CHECK (pseudonym <> ''),
    erased_at timestamptz NOT NULL,
    state     text        NOT NULL,
    length    bigint      NOT NULL CHECK (length >= 0),
    broken_at bigint,     -- where the chain did not hold when it was erased
    lines     bytea       NOT NULL
);
CREATE INDEX IF NOT EXISTS erased_ledgers_by_pseudonym ON erased_ledgers (org_id, pseudonym, erased_at);

-- +goose StatementBegin
DO $$
DECLARE
    held text;
BEGIN
    FOREACH held IN ARRAY ARRAY['suppressions', 'erased_profiles', 'erased_ledgers'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', held);
        EXECUTE format('DROP POLICY IF EXISTS tenant ON %I', held);
        EXECUTE format('CREATE POLICY tenant ON %I TO messaging_tenant USING (org_id = current_org_id())', held);
        EXECUTE format('DROP POLICY IF EXISTS worker ON %I', held);
        EXECUTE format('CREATE POLICY worker ON %I TO messaging_worker USING (true)', held);
    END LOOP;
END
$$;
-- +goose StatementEnd

-- What is left is evidence too.
REVOKE UPDATE, DELETE ON erased_ledgers FROM messaging_tenant, messaging_worker;

-- erase_person takes a person's words and number out of everything but the ledger, and deletes the ledger; the caller has kept its links.
-- It runs under the lock on the phone. Messages are of the phone, or of the profile: so are those of a number that the person had before.
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

-- A receipt that comes after the erasure is kept without what it says of the person.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION receipt_of_erased() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM sms_messages m WHERE m.id = NEW.message_id AND m.erased_at IS NOT NULL) THEN
        NEW.raw := '{}';
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE OR REPLACE TRIGGER sms_receipts_of_erased BEFORE INSERT ON sms_receipts FOR EACH ROW
    WHEN (NEW.message_id IS NOT NULL) EXECUTE FUNCTION receipt_of_erased();

-- +goose Down

DROP TRIGGER IF EXISTS sms_receipts_of_erased ON sms_receipts;
DROP FUNCTION IF EXISTS receipt_of_erased();
DROP FUNCTION IF EXISTS erase_person(uuid, text, uuid, text, timestamptz);
DROP TABLE IF EXISTS erased_ledgers;
DROP TABLE IF EXISTS erased_profiles;
DROP TABLE IF EXISTS suppressions;
DROP INDEX CONCURRENTLY IF EXISTS sms_outbound_jobs_codes;
ALTER TABLE sms_messages DROP COLUMN IF EXISTS erased_at;
DROP INDEX CONCURRENTLY IF EXISTS sms_messages_by_person;
