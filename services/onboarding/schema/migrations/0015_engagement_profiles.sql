-- +goose Up

-- Expand only: nothing here reads or rewrites the rows that there are; 0017 does, while the service runs. A release that knows none of this
-- goes on working: every new column of profiles has a default or may be null, and no session of it sets the profile of a user's call.

-- The user for whom a call runs; null in every other call. A tenant's policies go by it.
CREATE FUNCTION current_profile_id() RETURNS uuid LANGUAGE sql STABLE
    RETURN nullif(current_setting('app.current_profile_id', true), '')::uuid;

ALTER TABLE profiles
    -- Where outreach goes: to the person, or to each member of their household. destination_chosen_at is null while nobody chose it.
    ADD COLUMN preferred_destination    text        NOT NULL DEFAULT 'individual',
    ADD COLUMN destination_chosen_at    timestamptz,
    -- Copies of what messaging knows. They decide who is considered; only the claim of Send decides what is sent. Each has the time of the
    -- change that it shows, so that a change that arrives late does not undo a newer one.
    ADD COLUMN reengagement_opt_out     boolean     NOT NULL DEFAULT false,
    ADD COLUMN reengagement_changed_at  timestamptz,
    ADD COLUMN opted_out_at             timestamptz,
    ADD COLUMN consent_changed_at       timestamptz,
    ADD COLUMN onboarding_tips_enabled  boolean     NOT NULL DEFAULT true,
    ADD COLUMN onboarding_tier          integer     NOT NULL DEFAULT 0,
    ADD COLUMN onboarding_tier_progress jsonb       NOT NULL DEFAULT '{}',
    -- Counts how often the progress was reset: a tier may be celebrated once in each epoch.
    ADD COLUMN celebration_epoch        integer     NOT NULL DEFAULT 0,
    ADD COLUMN magic_moment_at          timestamptz,
    ADD CONSTRAINT profiles_preferred_destination_check CHECK (preferred_destination IN ('individual', 'group')) NOT VALID,
    ADD CONSTRAINT profiles_onboarding_tier_check CHECK (onboarding_tier BETWEEN 0 AND 3) NOT VALID,
    ADD CONSTRAINT profiles_onboarding_tier_progress_check CHECK (jsonb_typeof(onboarding_tier_progress) = 'object') NOT VALID,
    ADD CONSTRAINT profiles_celebration_epoch_check CHECK (celebration_epoch >= 0) NOT VALID;

-- +goose Down

ALTER TABLE profiles
    DROP COLUMN magic_moment_at,
    DROP COLUMN celebration_epoch,
    DROP COLUMN onboarding_tier_progress,
    DROP COLUMN onboarding_tier,
    DROP COLUMN onboarding_tips_enabled,
    DROP COLUMN consent_changed_at,
    DROP COLUMN opted_out_at,
    DROP COLUMN reengagement_changed_at,
    DROP COLUMN reengagement_opt_out,
    DROP COLUMN destination_chosen_at,
    DROP COLUMN preferred_destination;
DROP FUNCTION current_profile_id();
