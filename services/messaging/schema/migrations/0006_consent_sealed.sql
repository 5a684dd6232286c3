-- +goose NO TRANSACTION
-- +goose Up

-- What reads the whole tables, while messages are sent. It may break off anywhere and be run again.
ALTER TABLE consent_events VALIDATE CONSTRAINT consent_events_source_check;
ALTER TABLE consent_events VALIDATE CONSTRAINT consent_events_confirmation_check;
ALTER TABLE sms_messages VALIDATE CONSTRAINT sms_messages_consent_effect_check;

-- Seals the ledgers of before, a few at a time, so that no send waits for long: the hash over all lines of a phone is kept with its
-- consent, and the lines themselves stay as they are. One that is locked at the moment is sealed by its next line. Whom Twilio
-- blocks follows from their last line, as far as that tells.
-- +goose StatementBegin
DO $$
DECLARE
    last_org   uuid := '00000000-0000-0000-0000-000000000000';
    last_phone text := '';
BEGIN
    LOOP
        WITH page AS (
            SELECT org_id, phone FROM consents
            WHERE (org_id, phone) > (last_org, last_phone) ORDER BY org_id, phone LIMIT 500
        ), unsealed AS (
            SELECT c.org_id, c.phone FROM consents c JOIN page USING (org_id, phone)
            WHERE c.chain_head IS NULL FOR NO KEY UPDATE OF c SKIP LOCKED
        ), sealed AS (
            UPDATE consents c SET
                (chain_length, chain_head) = (SELECT h.length, h.head FROM consent_chain(c.org_id, c.phone) h),
                carrier_blocks = coalesce((
                    SELECT e.source = 'twilio_21610' OR (e.source = 'inbound' AND e.state = 'opted_out' AND upper(btrim(e.words, E' \t\r\n'))
                        IN ('STOP', 'STOPALL', 'UNSUBSCRIBE', 'CANCEL', 'END', 'QUIT', 'REVOKE', 'OPTOUT'))
                    FROM consent_events e WHERE e.org_id = c.org_id AND e.phone = c.phone ORDER BY e.id DESC LIMIT 1), false)
            FROM unsealed u WHERE c.org_id = u.org_id AND c.phone = u.phone
        )
        SELECT org_id, phone INTO last_org, last_phone FROM page ORDER BY org_id DESC, phone DESC LIMIT 1;
        EXIT WHEN NOT FOUND;
        COMMIT;
    END LOOP;
END
$$;
-- +goose StatementEnd

-- +goose Down

SELECT 1;
