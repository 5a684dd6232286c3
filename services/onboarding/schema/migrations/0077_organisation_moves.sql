-- +goose Up

-- An organisation that is on its way to another deployment, or has gone there. "state" is leaving or left at the source, released once its rows
-- there may be erased, arriving at the target until it opens; paceline org move writes it. Whatever a replica believes, an organisation is active
-- in one deployment at most. Expand only.
ALTER TABLE organisations
    ADD COLUMN move jsonb,
    ADD CONSTRAINT moved_is_not_active CHECK (move IS NULL OR wanted = 'suspended' OR wanted = 'active' AND move ->> 'state' = 'leaving'
        OR wanted = 'ended' AND move ->> 'state' = 'released');

-- +goose Down

ALTER TABLE organisations DROP CONSTRAINT moved_is_not_active, DROP COLUMN move;
