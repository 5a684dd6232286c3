-- +goose Up

-- A number has one stored form (platform/phone, Canonical; docs/adr/0057). What was kept under an old form goes on to hold under the stored
-- one: an opt-out gets a line in that ledger, unless the person has opted in there since; a hold and reminders that are off are copied. What
-- was stored stays, for replicas of the release before.
-- +goose StatementBegin
CREATE FUNCTION stored_form(phone text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN phone ~ '^\+55[0-9]{2}[6-9][0-9]{7}$' THEN left(phone, 5) || '9' || substr(phone, 6)
        WHEN phone ~ '^\+521[0-9]{10}$' THEN '+52' || substr(phone, 5)
        WHEN phone ~ '^\+54[1-3][0-9]{9}$' THEN '+549' || substr(phone, 4)
        WHEN phone ~ '^\+229[24569][0-9]{7}$' THEN '+22901' || substr(phone, 5)
        ELSE phone
    END
$$;
-- +goose StatementEnd

WITH old AS (
    SELECT o.org_id, stored_form(o.phone) AS phone, o.updated_at
    FROM consents o
    WHERE o.state = 'opted_out' AND stored_form(o.phone) <> o.phone AND NOT EXISTS (
        SELECT FROM consent_events e WHERE e.org_id = o.org_id AND e.phone = stored_form(o.phone)
            AND (e.state = 'opted_out' OR e.source IN ('inbound', 'operator')) AND e.at >= o.updated_at)
), changed AS (
    INSERT INTO consents AS c (org_id, phone, state, updated_at)
    SELECT org_id, phone, 'opted_out', updated_at FROM old
    ON CONFLICT (org_id, phone) DO UPDATE SET state = excluded.state, updated_at = greatest(c.updated_at, excluded.updated_at)
    RETURNING org_id, phone
)
INSERT INTO consent_events (org_id, phone, at, state, source, words, sender)
SELECT old.org_id, old.phone, old.updated_at, 'opted_out', 'operator', 'opted out under an older form of this number', ''
FROM old JOIN changed USING (org_id, phone);

INSERT INTO holds (org_id, phone, held, version, updated_at, unjudged_id, unjudged_at)
SELECT org_id, stored_form(phone), held, version, updated_at, unjudged_id, unjudged_at
FROM holds WHERE stored_form(phone) <> phone AND (held OR unjudged_id IS NOT NULL)
ON CONFLICT (org_id, phone) DO NOTHING;

INSERT INTO reminder_preferences (org_id, phone, off, said_at, source, message_id, keyword_pack, updated_at)
SELECT org_id, stored_form(phone), off, said_at, source, message_id, keyword_pack, updated_at
FROM reminder_preferences WHERE stored_form(phone) <> phone AND off
ON CONFLICT (org_id, phone) DO NOTHING;

-- +goose Down
DROP FUNCTION IF EXISTS stored_form(text);
