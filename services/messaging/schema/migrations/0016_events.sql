-- +goose Up

-- What the host application is told, for onboarding to fetch (MessagingService.ListEvents): ids and numbers, never a text. A row is deleted
-- once onboarding has it.
CREATE TABLE event_outbox (
    id           bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id     uuid        NOT NULL,
    org_id       uuid        NOT NULL,
    type         text        NOT NULL,
    profile_id   uuid,
    -- Whose it is, for onboarding to say who that is; it goes no further.
    phone        text        NOT NULL,
    time         timestamptz NOT NULL,
    causation_id text        NOT NULL,
    data         jsonb       NOT NULL CHECK (jsonb_typeof(data) = 'object')
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE event_outbox ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY worker ON event_outbox TO messaging_worker USING (true);

-- The types that onboarding asks for: none until it does, so that nothing piles up while its release does not.
CREATE TABLE event_types (type text PRIMARY KEY);
ALTER TABLE event_types ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY worker ON event_types TO messaging_worker USING (true);

-- A UUIDv7 of an instant.
CREATE FUNCTION uuid_of(at timestamptz) RETURNS uuid LANGUAGE sql VOLATILE
    RETURN encode(set_byte(overlay(uuid_send(gen_random_uuid()) PLACING substring(int8send(floor(extract(epoch FROM at) * 1000)::bigint) FROM 3)
        FROM 1 FOR 6), 6, 112 | (get_byte(uuid_send(gen_random_uuid()), 6) & 15)), 'hex')::uuid;

-- These run as their owner, who is in both roles: whoever may change a row may have its event written. A message may be taken and delivered in
-- one change, when its receipt is quicker than the answer to its send.
-- +goose StatementBegin
CREATE FUNCTION message_is_told() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    was text;
    accepted boolean := NEW.accepted_at IS NOT NULL;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        was := OLD.status;
        accepted := accepted AND OLD.accepted_at IS NULL;
    END IF;
    INSERT INTO event_outbox (event_id, org_id, type, profile_id, phone, time, causation_id, data)
    SELECT uuid_of(told.at), NEW.org_id, told.type, NEW.profile_id, CASE NEW.direction WHEN 'inbound' THEN NEW.from_number ELSE NEW.to_number END,
        told.at, told.cause, jsonb_strip_nulls(jsonb_build_object('message_id', NEW.id, 'status', told.status, 'twilio_sid', NEW.twilio_sid,
            'error_code', CASE WHEN told.status <> 'accepted' THEN NEW.error_code END, 'segments', NEW.segments))
    FROM (VALUES
        -- Onboarding's keys are made of ids; any other key is the caller's.
        ('message.accepted', 'accepted', NEW.accepted_at,
            CASE WHEN NEW.idempotency_key LIKE 'onboarding:%' THEN NEW.idempotency_key ELSE 'message:' || NEW.id END, accepted),
        ('message.received', 'received', NEW.created_at, 'message:' || NEW.id, NEW.status = 'received'),
        ('message.delivered', 'delivered', NEW.updated_at, 'message:' || NEW.id, NEW.status = 'delivered'),
        ('message.undelivered', NEW.status, NEW.updated_at, 'message:' || NEW.id,
            NEW.status IN ('undelivered', 'failed', 'rejected', 'given_up'))) told (type, status, at, cause, holds)
    JOIN event_types t USING (type)
    WHERE told.holds AND (told.status = 'accepted' OR was IS DISTINCT FROM NEW.status);
    RETURN NULL;
END
$$;

-- Only a line that changes what is in force, or is the first.
CREATE FUNCTION consent_is_told() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO event_outbox (event_id, org_id, type, profile_id, phone, time, causation_id, data)
    SELECT uuid_of(NEW.at), NEW.org_id, t.type, (SELECT m.profile_id FROM sms_messages m WHERE m.id = NEW.message_id), NEW.phone, NEW.at,
        CASE WHEN NEW.message_id IS NULL THEN 'consent:' || NEW.source ELSE 'message:' || NEW.message_id END,
        jsonb_strip_nulls(jsonb_build_object('source', NEW.source, 'message_id', NEW.message_id))
    FROM event_types t
    WHERE t.type = 'consent.' || NEW.state AND NEW.state IS DISTINCT FROM (SELECT e.state FROM consent_events e
        WHERE e.org_id = NEW.org_id AND e.phone = NEW.phone AND e.id < NEW.id ORDER BY e.id DESC LIMIT 1);
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER sms_messages_changed_told AFTER UPDATE OF status, accepted_at ON sms_messages FOR EACH ROW
    WHEN (OLD.accepted_at IS NULL AND NEW.accepted_at IS NOT NULL OR NEW.status IS DISTINCT FROM OLD.status
        AND NEW.status IN ('delivered', 'undelivered', 'failed', 'rejected', 'given_up'))
    EXECUTE FUNCTION message_is_told();
CREATE TRIGGER sms_messages_begun_told AFTER INSERT ON sms_messages FOR EACH ROW
    WHEN (NEW.status = 'received' OR NEW.accepted_at IS NOT NULL OR NEW.status = 'rejected')
    EXECUTE FUNCTION message_is_told();
CREATE TRIGGER consent_events_told AFTER INSERT ON consent_events FOR EACH ROW EXECUTE FUNCTION consent_is_told();

-- +goose Down

DROP TRIGGER consent_events_told ON consent_events;
DROP TRIGGER sms_messages_begun_told ON sms_messages;
DROP TRIGGER sms_messages_changed_told ON sms_messages;
DROP FUNCTION consent_is_told();
DROP FUNCTION message_is_told();
DROP FUNCTION uuid_of(timestamptz);
DROP TABLE event_types;
DROP TABLE event_outbox;
