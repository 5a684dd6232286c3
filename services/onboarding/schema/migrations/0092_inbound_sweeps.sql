-- +goose Up

-- The search for texts that never came is called a sweep; an audit is the log of who did what. The view is for replicas of the release before:
-- a later release drops it.
ALTER TABLE inbound_audits RENAME TO inbound_sweeps;
ALTER TABLE inbound_sweeps RENAME CONSTRAINT inbound_audits_lease TO inbound_sweeps_lease;
ALTER INDEX inbound_audits_pkey RENAME TO inbound_sweeps_pkey;
CREATE VIEW inbound_audits WITH (security_invoker = true) AS SELECT * FROM inbound_sweeps;

-- +goose Down

DROP VIEW inbound_audits;
ALTER INDEX inbound_sweeps_pkey RENAME TO inbound_audits_pkey;
ALTER TABLE inbound_sweeps RENAME CONSTRAINT inbound_sweeps_lease TO inbound_audits_lease;
ALTER TABLE inbound_sweeps RENAME TO inbound_audits;
