-- +goose Up

-- Words of the person that may be an opt-out hold them until an operator has judged them, beside a hold of an operator and whatever its
-- version is. The last such message, and when it was recorded; null when there are none. A row that only words have made has version 0,
-- which every version of an operator's hold comes after. A release that knows nothing of this reads such a row as no hold.
ALTER TABLE holds
    ADD COLUMN unjudged_id uuid,
    ADD COLUMN unjudged_at timestamptz,
    ADD CONSTRAINT holds_unjudged_check CHECK ((unjudged_id IS NULL) = (unjudged_at IS NULL)),
    DROP CONSTRAINT holds_version_check,
    ADD CONSTRAINT holds_version_check CHECK (version >= 0);

-- +goose Down
DELETE FROM holds WHERE version = 0;
ALTER TABLE holds
    DROP CONSTRAINT holds_unjudged_check,
    DROP COLUMN unjudged_id,
    DROP COLUMN unjudged_at,
    DROP CONSTRAINT holds_version_check,
    ADD CONSTRAINT holds_version_check CHECK (version > 0);
