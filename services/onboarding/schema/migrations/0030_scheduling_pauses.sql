-- +goose Up

-- Which organisations an operator has paused: their alarms are written and not published, until the row is gone. Who paused and lifted it
-- before is in the audit.
CREATE TABLE scheduling_pauses (
    org_id    uuid        PRIMARY KEY,
    reason    text        NOT NULL DEFAULT '' CHECK (length(reason) <= 200),
    paused_at timestamptz NOT NULL,
    paused_by jsonb       DEFAULT current_actor()
);

-- As 0016 has it: a user's call reads whether its organisation is paused, and changes nothing.
ALTER TABLE scheduling_pauses ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON scheduling_pauses TO onboarding_tenant USING (org_id = current_org_id() AND current_profile_id() IS NULL);
CREATE POLICY tenant_reads ON scheduling_pauses FOR SELECT TO onboarding_tenant USING (org_id = current_org_id());
CREATE POLICY worker ON scheduling_pauses TO onboarding_worker USING (true);

-- +goose Down

DROP TABLE scheduling_pauses;
