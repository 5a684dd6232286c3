-- +goose NO TRANSACTION
-- +goose Up

-- What reads or locks the tables that are in use, while the service runs: each statement is its own transaction, and all of them may be run
-- again.
ALTER TABLE profiles VALIDATE CONSTRAINT profiles_preferred_destination_check;
ALTER TABLE profiles VALIDATE CONSTRAINT profiles_onboarding_tier_check;
ALTER TABLE profiles VALIDATE CONSTRAINT profiles_onboarding_tier_progress_check;
ALTER TABLE profiles VALIDATE CONSTRAINT profiles_celebration_epoch_check;

-- A user's call is bounded to the rows of its person, whatever its where clause says. What belongs to a session follows the session.
DROP POLICY IF EXISTS person ON profiles;
CREATE POLICY person ON profiles AS RESTRICTIVE TO onboarding_tenant
    USING (current_profile_id() IS NULL OR id = current_profile_id());
DROP POLICY IF EXISTS person ON conversation_sessions;
CREATE POLICY person ON conversation_sessions AS RESTRICTIVE TO onboarding_tenant
    USING (current_profile_id() IS NULL OR profile_id = current_profile_id());
DROP POLICY IF EXISTS person ON step_alarms;
CREATE POLICY person ON step_alarms AS RESTRICTIVE TO onboarding_tenant
    USING (current_profile_id() IS NULL OR profile_id = current_profile_id());
-- These name a person by their phone or their session, and are no user's business.
ALTER POLICY tenant ON webhook_jobs USING (org_id = current_org_id() AND current_profile_id() IS NULL);
ALTER POLICY tenant ON dead_letters USING (org_id = current_org_id() AND current_profile_id() IS NULL);

-- +goose Down

ALTER POLICY tenant ON dead_letters USING (org_id = current_org_id());
ALTER POLICY tenant ON webhook_jobs USING (org_id = current_org_id());
DROP POLICY IF EXISTS person ON step_alarms;
DROP POLICY IF EXISTS person ON conversation_sessions;
DROP POLICY IF EXISTS person ON profiles;
