-- +goose Up

-- A number has one stored form (platform/phone, Canonical; docs/adr/0057). Of the old forms only Argentina's without the 9 could be enrolled.
-- Where both forms are people already, both stay. Messaging is told of the holds again, under the number that they have now.
UPDATE profiles p
SET phone = '+549' || substr(p.phone, 4), hold_told = CASE WHEN p.hold_version > 0 THEN 0 ELSE p.hold_told END
WHERE p.phone ~ '^\+54[1-3][0-9]{9}$'
    AND NOT EXISTS (SELECT FROM profiles o WHERE o.org_id = p.org_id AND o.phone = '+549' || substr(p.phone, 4));

-- +goose Down
SELECT 1;
