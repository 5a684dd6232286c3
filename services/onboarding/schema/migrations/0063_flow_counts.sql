-- +goose Up

-- The funnel of a flow, counted ahead: to read it from 200,000 sessions and their timelines takes seconds. A session says what it adds, and a
-- change of it what that changes, in the transaction of the change, so that a repeat adds nothing. The changes are appended, because sessions
-- that add to one row would wait for each other; a loop folds them into the counts. Expand only: the triggers count for each release.
CREATE TABLE flow_counts (
    org_id   uuid        NOT NULL,
    flow     text        NOT NULL,
    began_at timestamptz NOT NULL, -- the day on which the sessions began, by UTC
    step     text        NOT NULL, -- of answered and silent the state in which it waits; empty counts the sessions
    began    bigint      NOT NULL DEFAULT 0,
    standing bigint      NOT NULL DEFAULT 0, -- open sessions at the step
    reached  bigint      NOT NULL DEFAULT 0,
    went_on  bigint      NOT NULL DEFAULT 0,
    stopped  bigint      NOT NULL DEFAULT 0,
    answered bigint      NOT NULL DEFAULT 0,
    silent   bigint      NOT NULL DEFAULT 0,
    PRIMARY KEY (org_id, flow, began_at, step)
);
CREATE INDEX flow_counts_over ON flow_counts (began_at) WHERE standing = 0;
CREATE TABLE flow_count_changes (
    id       bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id   uuid        NOT NULL,
    flow     text        NOT NULL,
    began_at timestamptz NOT NULL,
    step     text        NOT NULL,
    began    bigint      NOT NULL DEFAULT 0,
    standing bigint      NOT NULL DEFAULT 0,
    reached  bigint      NOT NULL DEFAULT 0,
    went_on  bigint      NOT NULL DEFAULT 0,
    stopped  bigint      NOT NULL DEFAULT 0,
    answered bigint      NOT NULL DEFAULT 0,
    silent   bigint      NOT NULL DEFAULT 0
);
CREATE INDEX flow_count_changes_of_flow ON flow_count_changes (org_id, flow);

-- As 0016 has it.
ALTER TABLE flow_counts ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON flow_counts TO onboarding_tenant USING (org_id = current_org_id() AND current_profile_id() IS NULL);
CREATE POLICY worker ON flow_counts TO onboarding_worker USING (true);
ALTER TABLE flow_count_changes ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON flow_count_changes TO onboarding_tenant USING (org_id = current_org_id() AND current_profile_id() IS NULL);
CREATE POLICY worker ON flow_count_changes TO onboarding_worker USING (true);

-- What a session adds to the counts.
CREATE FUNCTION flow_marks(state jsonb, status text)
RETURNS TABLE (step text, began int, standing int, reached int, went_on int, stopped int) LANGUAGE sql IMMUTABLE AS $$
    SELECT '', 1, 0, 0, 0, 0
    UNION ALL
    SELECT v.step, 0, 0, 1, (v.step <> coalesce(state ->> 'step', ''))::int, (v.step = state ->> 'step' AND status = 'stopped')::int
    FROM jsonb_object_keys(state -> 'visits') v (step)
    UNION ALL
    SELECT state ->> 'step', 0, 1, 0, 0, 0 WHERE status IN ('active', 'stuck', 'undeliverable') AND state ->> 'step' <> ''
$$;

-- Of a session that is deleted only that nobody stands there any more: how many came does not change because a person is erased.
-- +goose StatementBegin
CREATE FUNCTION session_is_counted() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    s conversation_sessions := CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
BEGIN
    INSERT INTO flow_count_changes (org_id, flow, began_at, step, began, standing, reached, went_on, stopped)
    SELECT s.org_id, s.flow, date_trunc('day', s.created_at, 'UTC'), m.step,
        CASE WHEN TG_OP = 'DELETE' THEN 0 ELSE sum(m.began) END, sum(m.standing), CASE WHEN TG_OP = 'DELETE' THEN 0 ELSE sum(m.reached) END,
        CASE WHEN TG_OP = 'DELETE' THEN 0 ELSE sum(m.went_on) END, CASE WHEN TG_OP = 'DELETE' THEN 0 ELSE sum(m.stopped) END
    FROM (
        SELECT n.step, n.began, n.standing, n.reached, n.went_on, n.stopped FROM flow_marks(NEW.flow_state, NEW.status) n WHERE TG_OP <> 'DELETE'
        UNION ALL
        SELECT o.step, -o.began, -o.standing, -o.reached, -o.went_on, -o.stopped FROM flow_marks(OLD.flow_state, OLD.status) o WHERE TG_OP <> 'INSERT'
    ) m
    GROUP BY m.step
    HAVING sum(m.standing) <> 0 OR TG_OP <> 'DELETE' AND (sum(m.began) <> 0 OR sum(m.reached) <> 0 OR sum(m.went_on) <> 0 OR sum(m.stopped) <> 0);
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- A reply, or a silence, is counted once for each session and state.
-- +goose StatementBegin
CREATE FUNCTION reply_is_counted() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO flow_count_changes (org_id, flow, began_at, step, answered, silent)
    SELECT s.org_id, s.flow, date_trunc('day', s.created_at, 'UTC'), NEW.from_state_token, (NEW.trigger <> 'silence')::int, (NEW.trigger = 'silence')::int
    FROM conversation_sessions s
    WHERE s.id = NEW.session_id AND s.flow IS NOT NULL AND NOT EXISTS (
        SELECT FROM session_transitions t
        WHERE t.session_id = NEW.session_id AND t.id < NEW.id AND t.from_state_token = NEW.from_state_token
            AND t.trigger IN ('reply_advance', 'reply_pause', 'silence') AND (t.trigger = 'silence') = (NEW.trigger = 'silence'));
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- What there is already is counted while nothing changes it. No release before has sessions of flows, so this is short.
LOCK TABLE conversation_sessions, session_transitions IN SHARE ROW EXCLUSIVE MODE;
CREATE TRIGGER session_is_counted AFTER INSERT ON conversation_sessions FOR EACH ROW
    WHEN (NEW.flow IS NOT NULL) EXECUTE FUNCTION session_is_counted();
CREATE TRIGGER session_is_counted_anew AFTER UPDATE OF flow_state, status ON conversation_sessions FOR EACH ROW
    WHEN (NEW.flow IS NOT NULL AND (NEW.status <> OLD.status OR NEW.flow_state <> OLD.flow_state))
    EXECUTE FUNCTION session_is_counted();
CREATE TRIGGER session_counts_no_more AFTER DELETE ON conversation_sessions FOR EACH ROW
    WHEN (OLD.flow IS NOT NULL) EXECUTE FUNCTION session_is_counted();
CREATE TRIGGER reply_is_counted AFTER INSERT ON session_transitions FOR EACH ROW
    WHEN (NEW.trigger IN ('reply_advance', 'reply_pause', 'silence')) EXECUTE FUNCTION reply_is_counted();
-- The planner does not know yet that there are none of flows; to read all sessions for them would keep the tables locked.
SET LOCAL enable_seqscan = off;
INSERT INTO flow_counts (org_id, flow, began_at, step, began, standing, reached, went_on, stopped)
SELECT s.org_id, s.flow, date_trunc('day', s.created_at, 'UTC'), m.step, sum(m.began), sum(m.standing), sum(m.reached), sum(m.went_on), sum(m.stopped)
FROM conversation_sessions s CROSS JOIN LATERAL flow_marks(s.flow_state, s.status) m
WHERE s.flow IS NOT NULL GROUP BY 1, 2, 3, 4;
INSERT INTO flow_count_changes (org_id, flow, began_at, step, answered, silent)
SELECT t.org_id, t.flow, t.day, t.token, sum(t.answered), sum(t.silent)
FROM (
    SELECT s.org_id, s.flow, date_trunc('day', s.created_at, 'UTC') AS day, t.from_state_token AS token,
        bool_or(t.trigger <> 'silence')::int AS answered, bool_or(t.trigger = 'silence')::int AS silent
    FROM conversation_sessions s JOIN session_transitions t ON t.session_id = s.id
    WHERE s.flow IS NOT NULL AND t.trigger IN ('reply_advance', 'reply_pause', 'silence')
    GROUP BY s.id, t.from_state_token
) t GROUP BY 1, 2, 3, 4;

-- +goose Down

DROP TRIGGER reply_is_counted ON session_transitions;
DROP TRIGGER session_counts_no_more ON conversation_sessions;
DROP TRIGGER session_is_counted_anew ON conversation_sessions;
DROP TRIGGER session_is_counted ON conversation_sessions;
DROP FUNCTION reply_is_counted();
DROP FUNCTION session_is_counted();
DROP FUNCTION flow_marks(jsonb, text);
DROP TABLE flow_count_changes;
DROP TABLE flow_counts;
