-- +goose NO TRANSACTION
-- +goose Up

-- Words of the person that may be an opt-out hold them until an operator has judged them, as well as a hold of an operator and whatever its
-- version is. The last such message, and when it was recorded; null when there are none. A row that only words have made has version 0,
-- which every version of an operator's hold comes after. A release that knows nothing of this reads such a row as no hold. Each statement is
-- its own transaction; all of them may be run again.
ALTER TABLE holds
    ADD COLUMN IF NOT EXISTS unjudged_id uuid,
    ADD COLUMN IF NOT EXISTS unjudged_at timestamptz;
ALTER TABLE holds
    DROP CONSTRAINT IF EXISTS holds_unjudged_check,
    DROP CONSTRAINT IF EXISTS holds_version_check,
    ADD CONSTRAINT holds_unjudged_check CHECK ((unjudged_id IS NULL) = (unjudged_at IS NULL)) NOT VALID,
    ADD CONSTRAINT holds_version_check CHECK (version >= 0) NOT VALID;
ALTER TABLE holds VALIDATE CONSTRAINT holds_unjudged_check;
ALTER TABLE holds VALIDATE CONSTRAINT holds_version_check;

-- +goose Down
DELETE FROM holds WHERE version = 0;
ALTER TABLE holds
    DROP CONSTRAINT IF EXISTS holds_unjudged_check,
    DROP COLUMN IF EXISTS unjudged_id,
    DROP COLUMN IF EXISTS unjudged_at,
    DROP CONSTRAINT IF EXISTS holds_version_check,
    ADD CONSTRAINT holds_version_check CHECK (version > 0);
