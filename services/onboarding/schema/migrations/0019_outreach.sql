-- +goose Up

-- What another member of a household has got: for the caps.
CREATE INDEX engagement_outreach_by_member ON engagement_outreach (org_id, member_id, id DESC) WHERE member_id IS NOT NULL;

-- +goose Down

DROP INDEX engagement_outreach_by_member;
