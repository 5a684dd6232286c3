-- +goose Up

-- The ledger becomes a chain per phone: each line has the hash of the one before it. The database writes it, in a trigger, so that
-- every way to write a line is chained, also those of the release before; consent.Verify computes the same without it. Expand only:
-- nothing here reads or writes the rows that there are. Lines that are older than this keep no hash, for nothing may
-- be changed in the ledger: what seals them is the hash of all of them, which 0006 keeps with the consent, or, if it has not come
-- so far, the first new line.
ALTER TABLE consent_events
    ADD COLUMN seq           bigint,
    ADD COLUMN rules_version text NOT NULL DEFAULT '',
    -- Who told the person that their word was heard: 'carrier' for Twilio's own reply, 'paceline' for a text of ours, which is in
    -- confirmation; empty for nobody.
    ADD COLUMN confirmed_by  text NOT NULL DEFAULT '',
    ADD COLUMN confirmation  text NOT NULL DEFAULT '',
    ADD COLUMN prev_hash     bytea,
    ADD COLUMN hash          bytea;

ALTER TABLE consent_events DROP CONSTRAINT consent_events_source_check;
ALTER TABLE consent_events ADD CONSTRAINT consent_events_source_check
    CHECK (source IN ('first_send', 'inbound', 'operator', 'twilio_21610', 'confirmation')) NOT VALID;
ALTER TABLE consent_events ADD CONSTRAINT consent_events_confirmation_check
    CHECK (confirmed_by IN ('', 'carrier', 'paceline') AND (confirmation <> '') = (confirmed_by = 'paceline')) NOT VALID;

ALTER TABLE consents
    ADD COLUMN chain_length bigint NOT NULL DEFAULT 0,
    -- The hash of the last line; null while there are only lines without one.
    ADD COLUMN chain_head   bytea,
    -- Whether Twilio itself refuses to text this phone, as far as we have heard: it blocks on its own words, and only the person's
    -- START lifts that.
    ADD COLUMN carrier_blocks boolean NOT NULL DEFAULT false;

-- A field as it is hashed.
CREATE FUNCTION netstring(field text) RETURNS text LANGUAGE sql IMMUTABLE
    RETURN octet_length(convert_to(field, 'UTF8'))::text || ':' || field || ',';

-- The hash of a line as number seq after one with the hash prev; consent.Line.Digest says what it is made of.
CREATE FUNCTION consent_line_hash(e consent_events, seq bigint, prev bytea) RETURNS bytea LANGUAGE sql STABLE
    RETURN sha256(convert_to(netstring('paceline-consent-1') || netstring(e.org_id::text) || netstring(e.phone) || netstring(seq::text)
        || netstring(trunc(extract(epoch FROM e.at) * 1000000)::bigint::text) || netstring(e.state) || netstring(e.source)
        || netstring(e.words) || netstring(e.sender) || netstring(coalesce(e.message_id::text, '')) || netstring(e.keyword_pack)
        || netstring(e.rules_version) || netstring(e.confirmed_by) || netstring(e.confirmation) || netstring(encode(prev, 'hex')), 'UTF8'));

-- How many lines a phone has, and the hash of the last one.
-- +goose StatementBegin
CREATE FUNCTION consent_chain(of_org uuid, of_phone text, OUT length bigint, OUT head bytea) LANGUAGE plpgsql STABLE AS $$
DECLARE
    line consent_events;
BEGIN
    length := 0;
    head := decode(repeat('00', 32), 'hex');
    FOR line IN SELECT * FROM consent_events WHERE org_id = of_org AND phone = of_phone ORDER BY id LOOP
        length := length + 1;
        head := consent_line_hash(line, length, head);
    END LOOP;
END
$$;

-- Every writer of a line holds the lock on the phone's consent by now; it is taken again for one who does not.
CREATE FUNCTION chain_consent_event() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    length bigint;
    head   bytea;
BEGIN
    SELECT c.chain_length, c.chain_head INTO length, head
        FROM consents c WHERE c.org_id = NEW.org_id AND c.phone = NEW.phone FOR NO KEY UPDATE;
    IF head IS NULL THEN
        SELECT c.length, c.head INTO length, head FROM consent_chain(NEW.org_id, NEW.phone) c;
    END IF;
    NEW.seq := length + 1;
    NEW.prev_hash := head;
    NEW.hash := consent_line_hash(NEW, NEW.seq, head);
    UPDATE consents c SET chain_length = NEW.seq, chain_head = NEW.hash WHERE c.org_id = NEW.org_id AND c.phone = NEW.phone;
    RETURN NEW;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER consent_events_chained BEFORE INSERT ON consent_events FOR EACH ROW EXECUTE FUNCTION chain_consent_event();

-- What a text of a person is answered with by ourselves, because Twilio does not know the words: the confirmation of an opt-out, or
-- help. The row is written together with the text; who sends it comes after.
CREATE TABLE consent_replies (
    message_id      uuid        PRIMARY KEY REFERENCES sms_messages (id),
    org_id          uuid        NOT NULL,
    phone           text        NOT NULL,
    kind            text        NOT NULL CHECK (kind IN ('stop', 'help')),
    body            text        NOT NULL,
    idempotency_key text        NOT NULL,
    created_at      timestamptz NOT NULL,
    expires_at      timestamptz NOT NULL,
    -- When it is tried next; null once it is settled.
    due_at          timestamptz,
    outcome         text        NOT NULL DEFAULT ''
);

CREATE INDEX consent_replies_due ON consent_replies (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX consent_replies_by_phone ON consent_replies (org_id, phone, created_at);

-- A text that may be an opt-out, which an operator has to judge.
ALTER TABLE sms_messages DROP CONSTRAINT sms_messages_consent_effect_check;
ALTER TABLE sms_messages ADD CONSTRAINT sms_messages_consent_effect_check
    CHECK (consent_effect IN ('none', 'opt_out', 'opt_in', 'help', 'overtaken', 'doubtful')) NOT VALID;

-- +goose Down

UPDATE sms_messages SET consent_effect = 'none' WHERE consent_effect = 'doubtful';
ALTER TABLE sms_messages DROP CONSTRAINT sms_messages_consent_effect_check;
ALTER TABLE sms_messages ADD CONSTRAINT sms_messages_consent_effect_check
    CHECK (consent_effect IN ('none', 'opt_out', 'opt_in', 'help', 'overtaken'));
DROP TABLE consent_replies;
DROP TRIGGER consent_events_chained ON consent_events;
DROP FUNCTION chain_consent_event();
DROP FUNCTION consent_chain(uuid, text);
DROP FUNCTION consent_line_hash(consent_events, bigint, bytea);
DROP FUNCTION netstring(text);
ALTER TABLE consents DROP COLUMN chain_length, DROP COLUMN chain_head, DROP COLUMN carrier_blocks;
-- What was confirmed stays in the ledger: nothing is taken out of it, and the older release shows a source that it does not know.
ALTER TABLE consent_events DROP CONSTRAINT consent_events_source_check;
ALTER TABLE consent_events ADD CONSTRAINT consent_events_source_check
    CHECK (source IN ('first_send', 'inbound', 'operator', 'twilio_21610')) NOT VALID;
ALTER TABLE consent_events DROP CONSTRAINT consent_events_confirmation_check;
ALTER TABLE consent_events
    DROP COLUMN seq, DROP COLUMN rules_version, DROP COLUMN confirmed_by, DROP COLUMN confirmation, DROP COLUMN prev_hash, DROP COLUMN hash;
