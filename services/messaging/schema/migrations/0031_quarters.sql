-- +goose Up

-- How the messages of a quarter of an hour ended, for the overview over a day, a week and a month. A loop counts them from the indexes by
-- time (0022), so a send writes no row more. Quarters, because each zone is a whole number of them from UTC. Expand only: a release that
-- knows none of this goes on working while one that does runs.
CREATE TABLE sms_quarters (
    org_id    uuid        NOT NULL,
    quarter   timestamptz NOT NULL CHECK (date_bin('15 minutes', quarter, '2000-01-01 00:00:00Z') = quarter), -- when it begins
    country   text        NOT NULL CHECK (country ~ '^(\+[1-9][0-9]{0,2})?$'), -- the country code; empty of a number that was erased
    delivered integer     NOT NULL CHECK (delivered >= 0),
    failed    integer     NOT NULL CHECK (failed >= 0),
    under_way integer     NOT NULL CHECK (under_way >= 0),
    replies   integer     NOT NULL CHECK (replies >= 0),
    opt_outs  integer     NOT NULL CHECK (opt_outs >= 0),
    taken     integer     NOT NULL CHECK (taken >= 0), -- by Twilio
    segments  integer     NOT NULL CHECK (segments >= 0), -- of those
    PRIMARY KEY (org_id, quarter, country)
);
CREATE INDEX sms_quarters_by_age ON sms_quarters (quarter);

-- Which quarters were counted, and when: one without a message leaves nothing else.
CREATE TABLE sms_quarters_counted (
    quarter    timestamptz PRIMARY KEY CHECK (date_bin('15 minutes', quarter, '2000-01-01 00:00:00Z') = quarter),
    counted_at timestamptz NOT NULL
);

ALTER TABLE sms_quarters ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON sms_quarters TO messaging_tenant USING (org_id = current_org_id());
CREATE POLICY worker ON sms_quarters TO messaging_worker USING (true);
ALTER TABLE sms_quarters_counted ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY worker ON sms_quarters_counted TO messaging_worker USING (true);

-- +goose Down

DROP TABLE sms_quarters_counted;
DROP TABLE sms_quarters;
