-- +goose Up

-- What is evidence is never changed, by the grants too (docs/adr/0049): the login that serves can add to it, read it, and delete what is past
-- its time, and is not the owner of the table. A release that serves as the owner goes on as before.
REVOKE UPDATE ON session_transitions, engagement_state_transitions FROM onboarding_tenant, onboarding_worker;
-- Of a call that is kept only its end is added; what is old is deleted by the service.
REVOKE UPDATE ON audit FROM onboarding_tenant, onboarding_worker;
GRANT UPDATE (outcome, profile_id, target_id) ON audit TO onboarding_tenant, onboarding_worker;

-- +goose Down

GRANT SELECT, INSERT, UPDATE, DELETE ON session_transitions, engagement_state_transitions, audit TO onboarding_tenant, onboarding_worker;
