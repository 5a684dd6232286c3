-- +goose NO TRANSACTION
-- +goose Up

-- What a send obeys is evidence too: the login that serves can write a state only together with the line of the ledger that says so. It is
-- looked at when the transaction ends, for the state is written before its line, and only of a row that is new or another state, so nothing
-- else pays for it. The owner repairs what they must. Each statement is its own transaction; all of them may be run again.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION consent_is_its_last_line() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    -- The row may have changed once more since, or be erased.
    IF NOT pg_has_role(session_user, current_user, 'MEMBER') AND EXISTS (
        SELECT FROM consents c WHERE c.org_id = NEW.org_id AND c.phone = NEW.phone AND c.state IS DISTINCT FROM (
            SELECT e.state FROM consent_events e WHERE e.org_id = c.org_id AND e.phone = c.phone ORDER BY e.id DESC LIMIT 1))
    THEN
        RAISE EXCEPTION 'the state of a consent is not what the last line of its ledger says' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
DROP TRIGGER IF EXISTS consents_begin_as_their_line ON consents;
CREATE CONSTRAINT TRIGGER consents_begin_as_their_line AFTER INSERT ON consents DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION consent_is_its_last_line();
DROP TRIGGER IF EXISTS consents_change_as_their_line ON consents;
CREATE CONSTRAINT TRIGGER consents_change_as_their_line AFTER UPDATE ON consents DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN ((OLD.org_id, OLD.phone, OLD.state) IS DISTINCT FROM (NEW.org_id, NEW.phone, NEW.state))
    EXECUTE FUNCTION consent_is_its_last_line();

-- A START of the person ends the suppression of their number: the line of it is in the same transaction, before. The number is not known here,
-- so nobody can tell to whom the line belongs; but there is no way without a line, which stays. The setting only says where to look.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION opt_in_was_said() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('app.opted_in', NEW.id::text, true);
    RETURN NULL;
END
$$;

CREATE OR REPLACE FUNCTION suppression_ends_with_a_start() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF NOT pg_has_role(session_user, current_user, 'MEMBER') AND NOT EXISTS (
        SELECT FROM consent_events e
        WHERE e.id = nullif(current_setting('app.opted_in', true), '')::bigint AND e.org_id = OLD.org_id AND e.state = 'opted_in'
            AND e.source = 'inbound' AND e.xmin = pg_current_xact_id()::xid)
    THEN
        RAISE EXCEPTION 'only a START of the person ends the suppression of their number' USING ERRCODE = 'restrict_violation';
    END IF;
    PERFORM set_config('app.opted_in', '', true); -- one START ends one
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE OR REPLACE TRIGGER consent_events_opted_in AFTER INSERT ON consent_events FOR EACH ROW
    WHEN (NEW.state = 'opted_in' AND NEW.source = 'inbound') EXECUTE FUNCTION opt_in_was_said();
CREATE OR REPLACE TRIGGER suppressions_end_with_a_start AFTER DELETE ON suppressions FOR EACH ROW
    EXECUTE FUNCTION suppression_ends_with_a_start();
REVOKE UPDATE ON suppressions FROM messaging_tenant, messaging_worker;
GRANT UPDATE (created_at) ON suppressions TO messaging_tenant, messaging_worker;

-- +goose Down

GRANT UPDATE ON suppressions TO messaging_tenant, messaging_worker;
DROP TRIGGER IF EXISTS suppressions_end_with_a_start ON suppressions;
DROP TRIGGER IF EXISTS consent_events_opted_in ON consent_events;
DROP FUNCTION IF EXISTS suppression_ends_with_a_start();
DROP FUNCTION IF EXISTS opt_in_was_said();
DROP TRIGGER IF EXISTS consents_change_as_their_line ON consents;
DROP TRIGGER IF EXISTS consents_begin_as_their_line ON consents;
DROP FUNCTION IF EXISTS consent_is_its_last_line();
