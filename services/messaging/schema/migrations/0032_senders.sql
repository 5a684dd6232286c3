-- +goose Up

-- What an organisation sends from, next to the sender of the environment. The credentials are sealed with the keyset of the environment
-- and are gone once the sender is deleted; the row stays for what was sent with it.
CREATE TABLE senders (
    id                  uuid             PRIMARY KEY,
    org_id              uuid             NOT NULL,
    name                text             NOT NULL,
    account_sid         text             NOT NULL CHECK (account_sid ~ '^AC[0-9a-f]{32}$'),
    api_key_sid         text             NOT NULL CHECK (api_key_sid ~ '^SK[0-9a-f]{32}$'),
    service_sid         text             CHECK (service_sid ~ '^MG[0-9a-f]{32}$'),
    number              text             CHECK (number ~ '^\+[1-9][0-9]{6,14}$'),
    segments_per_second double precision NOT NULL CHECK (segments_per_second BETWEEN 0.01 AND 1000),
    countries           text[]           NOT NULL,
    status              text             NOT NULL CHECK (status IN ('active', 'disabled')),
    api_key_secret      bytea,
    auth_token          bytea,
    next_auth_token     bytea,
    version             bigint           NOT NULL CHECK (version > 0),
    created_at          timestamptz      NOT NULL,
    updated_at          timestamptz      NOT NULL,
    deleted_at          timestamptz,
    CHECK (service_sid IS NOT NULL OR number IS NOT NULL),
    CHECK (status = 'disabled' OR api_key_secret IS NOT NULL AND auth_token IS NOT NULL),
    CHECK (deleted_at IS NULL OR status = 'disabled' AND api_key_secret IS NULL AND auth_token IS NULL AND next_auth_token IS NULL)
);
CREATE INDEX senders_by_org ON senders (org_id, created_at, id);
CREATE INDEX senders_by_account ON senders (account_sid);
-- One organisation alone hears what is written to a number, whichever organisation asks.
CREATE UNIQUE INDEX senders_number ON senders (number) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX senders_service ON senders (service_sid) WHERE deleted_at IS NULL;

ALTER TABLE senders ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON senders TO messaging_tenant USING (org_id = current_org_id());
CREATE POLICY worker ON senders TO messaging_worker USING (true);

-- The sender of a message; null for that of the environment. A release that knows nothing of this looks for a message in doubt in the
-- environment's account, where it never was: it may not conclude from that that Twilio does not have it. So whoever makes a message ready to
-- be sent again names the sender that it asked.
ALTER TABLE sms_messages ADD COLUMN sender_id uuid, ADD COLUMN throttled_sender uuid;
ALTER TABLE sms_messages ADD CONSTRAINT sms_messages_asked_its_sender
    CHECK (status <> 'throttled' OR sender_id IS NOT DISTINCT FROM throttled_sender) NOT VALID;

-- +goose Down
ALTER TABLE sms_messages DROP COLUMN throttled_sender, DROP COLUMN sender_id;
DROP TABLE senders;
