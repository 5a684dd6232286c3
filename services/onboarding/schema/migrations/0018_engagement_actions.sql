-- +goose Up

-- What people did in the host application, or said that they did, each cause (action:<key of the host application>, message:<id>) once. Kept
-- for as long as it is counted, which is a month, and as long as a repeat has to be recognised; a retention deletes the rest.
CREATE TABLE engagement_actions (
    id          uuid        PRIMARY KEY,
    org_id      uuid        NOT NULL,
    profile_id  uuid        NOT NULL REFERENCES profiles (id),
    cause       text        NOT NULL CHECK (length(cause) BETWEEN 1 AND 300),
    action      text        NOT NULL CHECK (action <> ''),
    category    text        NOT NULL DEFAULT '', -- of an expense, in lower case; empty for none
    source      text        NOT NULL CHECK (source IN ('nlp', 'command', 'web')),
    occurred_at timestamptz NOT NULL,
    -- What was answered, so that a repeat is answered as the first was.
    answer      jsonb       NOT NULL CHECK (jsonb_typeof(answer) = 'object'),
    created_at  timestamptz NOT NULL,
    CONSTRAINT engagement_actions_once UNIQUE (profile_id, cause)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
-- For the weekly review, and for the expenses of a month.
CREATE INDEX engagement_actions_by_profile ON engagement_actions (org_id, profile_id, occurred_at);
CREATE INDEX engagement_actions_by_age ON engagement_actions (created_at, id);

ALTER TABLE engagement_actions ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON engagement_actions TO onboarding_tenant USING (org_id = current_org_id() AND current_profile_id() IS NULL);
CREATE POLICY worker ON engagement_actions TO onboarding_worker USING (true);

ALTER TABLE profiles
    -- When the tips were switched, so that an older wish does not undo a newer one.
    ADD COLUMN tips_changed_at timestamptz,
    -- How many expenses were reported ever: the first gets a hint.
    ADD COLUMN expense_count   integer     NOT NULL DEFAULT 0;

-- +goose Down

ALTER TABLE profiles
    DROP COLUMN expense_count,
    DROP COLUMN tips_changed_at;
DROP TABLE engagement_actions;
