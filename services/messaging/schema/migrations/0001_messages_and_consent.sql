-- +goose Up

-- Whether we may text a number. A missing row means that nobody has texted it and it has never texted us.
CREATE TABLE consents (
    org_id     uuid        NOT NULL,
    phone      text        NOT NULL CHECK (phone ~ '^\+[1-9][0-9]{6,14}$'),
    state      text        NOT NULL CHECK (state IN ('opted_in', 'opted_out')),
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (org_id, phone)
);

-- Every text, out and in. An outbound row is the idempotency record of its key: it is written before Twilio is called.
CREATE TABLE sms_messages (
    id              uuid        PRIMARY KEY,
    org_id          uuid        NOT NULL,
    profile_id      uuid,
    direction       text        NOT NULL CHECK (direction IN ('outbound', 'inbound')),
    from_number     text        NOT NULL,
    to_number       text        NOT NULL,
    body            text        NOT NULL,
    body_hash       bytea       NOT NULL CHECK (length(body_hash) = 32),
    idempotency_key text        CHECK (length(idempotency_key) BETWEEN 1 AND 200),
    status          text        NOT NULL,
    twilio_sid      text        UNIQUE CHECK (twilio_sid <> ''),
    error_code      integer,
    segments        integer     NOT NULL CHECK (segments >= 0),
    correlation_id  text        NOT NULL,
    -- The attempt that holds or last held the row, and until when nobody else may make one.
    attempt_token   uuid,
    lease_until     timestamptz,
    attempts        integer     NOT NULL CHECK (attempts >= 0),
    accepted_at     timestamptz,
    -- What an inbound text did to consent, so that every repeat of it gets the same answer.
    consent_effect  text        CHECK (consent_effect IN ('none', 'opt_out', 'opt_in', 'help')),
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    UNIQUE (org_id, idempotency_key),
    CONSTRAINT outbound_has_a_key_and_an_attempt CHECK (
        direction <> 'outbound'
        OR (idempotency_key IS NOT NULL AND attempt_token IS NOT NULL AND lease_until IS NOT NULL AND consent_effect IS NULL)
    ),
    CONSTRAINT outbound_has_a_sid_exactly_when_twilio_has_it CHECK (
        direction <> 'outbound'
        OR (status IN ('sending', 'throttled', 'unknown', 'rejected') AND twilio_sid IS NULL AND accepted_at IS NULL)
        OR (status IN ('accepted', 'queued', 'sent', 'failed', 'undelivered', 'delivered')
            AND twilio_sid IS NOT NULL AND accepted_at IS NOT NULL)
    ),
    CONSTRAINT inbound_is_received_with_its_effect CHECK (
        direction <> 'inbound'
        OR (status = 'received' AND twilio_sid IS NOT NULL AND consent_effect IS NOT NULL AND idempotency_key IS NULL)
    )
);

-- ListMessages, newest first: ids are UUIDv7. The unique constraints above serve the key and the SID.
CREATE INDEX sms_messages_by_org ON sms_messages (org_id, id DESC);
CREATE INDEX sms_messages_by_profile ON sms_messages (org_id, profile_id, id DESC) WHERE profile_id IS NOT NULL;

-- What Twilio reported, word for word, each distinct report once.
CREATE TABLE sms_receipts (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    message_id  uuid        REFERENCES sms_messages (id),
    twilio_sid  text        NOT NULL CHECK (twilio_sid <> ''),
    status      text        NOT NULL,
    error_code  integer     NOT NULL,
    raw         jsonb       NOT NULL,
    received_at timestamptz NOT NULL,
    UNIQUE (twilio_sid, status, error_code)
);

CREATE INDEX sms_receipts_by_message ON sms_receipts (message_id);

-- The ledger of consent: who, in what words, to which sender, when.
CREATE TABLE consent_events (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id     uuid        NOT NULL,
    phone      text        NOT NULL,
    at         timestamptz NOT NULL,
    state      text        NOT NULL CHECK (state IN ('opted_in', 'opted_out')),
    source     text        NOT NULL CHECK (source IN ('first_send', 'inbound', 'operator', 'twilio_21610')),
    words      text        NOT NULL,
    sender     text        NOT NULL,
    message_id uuid        REFERENCES sms_messages (id),
    -- The version of the keywords by which an inbound text was read; empty for another source.
    keyword_pack text      NOT NULL DEFAULT '',
    CONSTRAINT an_operator_gives_a_reason CHECK (source <> 'operator' OR words <> ''),
    CONSTRAINT an_inbound_event_names_its_message CHECK (source <> 'inbound' OR message_id IS NOT NULL),
    CONSTRAINT an_inbound_event_names_its_keywords CHECK ((source = 'inbound') = (keyword_pack <> '')),
    FOREIGN KEY (org_id, phone) REFERENCES consents (org_id, phone)
);

CREATE INDEX consent_events_by_phone ON consent_events (org_id, phone, id);

-- +goose StatementBegin
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END
$$;
-- +goose StatementEnd

CREATE TRIGGER consent_events_append_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON consent_events
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- +goose Down
DROP TABLE consent_events;
DROP FUNCTION refuse_change();
DROP TABLE sms_receipts;
DROP TABLE sms_messages;
DROP TABLE consents;
