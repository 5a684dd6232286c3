-- +goose Up

-- What the login that serves may take away or choose (docs/security-and-privacy.md). Expand only: a release that knows none of this goes on working while
-- one that does runs.

-- The number of a line of a timeline is the database's: it says which came first. Whose call caused it the default of its column says. A column
-- that comes later has to be granted too.
REVOKE INSERT ON session_transitions FROM onboarding_tenant, onboarding_worker;
GRANT INSERT (session_id, at, kind, from_state_token, to_state_token, trigger, step_id, message_id, detail, asked_at)
    ON session_transitions TO onboarding_tenant, onboarding_worker;

-- Rows of audit younger than 30 days, the least of AUDIT_RETENTION and of an organisation's own, stay. The database's own clock decides: a time
-- that the caller names would be no floor. There is no error: the clocks of the service and of the database may differ by a moment, and the next
-- pass takes the row. The pass of a replica that has it shorter leaves those rows.
-- +goose StatementBegin
CREATE FUNCTION keep_young_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RETURN CASE WHEN current_user = (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = TG_RELID) THEN OLD END;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER audit_is_kept BEFORE DELETE ON audit FOR EACH ROW
    WHEN (OLD.at > now() - interval '30 days') EXECUTE FUNCTION keep_young_audit();

-- The end of a call is added once. An erasure takes the number out of it as the owner.
-- +goose StatementBegin
CREATE FUNCTION refuse_change_of_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_user = (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = TG_RELID) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'the end of a call is in audit already' USING ERRCODE = 'restrict_violation';
END
$$;
-- +goose StatementEnd
CREATE TRIGGER audit_ends_once BEFORE UPDATE ON audit FOR EACH ROW
    WHEN (OLD.outcome IS NOT NULL) EXECUTE FUNCTION refuse_change_of_audit();

-- An erasure is asked for, put off, and ended once, by erase_profile: who asked, when and for whom does not change.
REVOKE INSERT, UPDATE, DELETE ON erasures FROM onboarding_tenant, onboarding_worker;
GRANT INSERT (profile_id, org_id, pseudonym, source, requested_at, next_try_at) ON erasures TO onboarding_tenant, onboarding_worker;
GRANT UPDATE (waits_for, next_try_at, tries) ON erasures TO onboarding_tenant, onboarding_worker;

-- +goose Down

GRANT INSERT, UPDATE ON erasures TO onboarding_tenant, onboarding_worker;
GRANT INSERT ON session_transitions TO onboarding_tenant, onboarding_worker;
DROP TRIGGER audit_ends_once ON audit;
DROP FUNCTION refuse_change_of_audit();
DROP TRIGGER audit_is_kept ON audit;
DROP FUNCTION keep_young_audit();
