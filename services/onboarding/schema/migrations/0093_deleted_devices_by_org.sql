-- +goose NO TRANSACTION
-- +goose Up

-- The devices of an organisation by when they were deleted, as 0089 has for the goals. The index by age alone is for a deployment in which
-- no organisation has its own time.
DROP INDEX CONCURRENTLY IF EXISTS devices_deleted_by_org;
CREATE INDEX CONCURRENTLY devices_deleted_by_org ON devices (org_id, deleted_at) WHERE deleted_at IS NOT NULL;

-- +goose Down

DROP INDEX CONCURRENTLY IF EXISTS devices_deleted_by_org;
