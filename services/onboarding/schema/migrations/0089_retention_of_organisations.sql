-- +goose NO TRANSACTION
-- +goose Up

-- The rows of an organisation by their age, for those that keep them for a time that they chose. Next to the running service, and may be run again.
-- The indexes by age alone stay for the release before.
DROP INDEX CONCURRENTLY IF EXISTS tickets_with_words_by_org;
CREATE INDEX CONCURRENTLY tickets_with_words_by_org ON tickets (org_id, last_text_at) WHERE last_text <> '' OR reason = 'operator' AND detail <> '';
DROP INDEX CONCURRENTLY IF EXISTS ticket_answers_by_org_and_age;
CREATE INDEX CONCURRENTLY ticket_answers_by_org_and_age ON ticket_answers (org_id, created_at);
DROP INDEX CONCURRENTLY IF EXISTS ticket_notes_by_org_and_age;
CREATE INDEX CONCURRENTLY ticket_notes_by_org_and_age ON ticket_notes (org_id, created_at);
DROP INDEX CONCURRENTLY IF EXISTS flow_run_people_by_org_and_age;
CREATE INDEX CONCURRENTLY flow_run_people_by_org_and_age ON flow_run_people (org_id, due_at);
DROP INDEX CONCURRENTLY IF EXISTS flow_runs_finished_by_org;
CREATE INDEX CONCURRENTLY flow_runs_finished_by_org ON flow_runs (org_id, finished_at) WHERE finished_at IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS goals_over_by_org;
CREATE INDEX CONCURRENTLY goals_over_by_org ON goals (org_id, (greatest(ended_at, scheduled_for))) WHERE ended_at IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS goal_readings_by_org_and_age;
CREATE INDEX CONCURRENTLY goal_readings_by_org_and_age ON goal_readings (org_id, created_at);

-- +goose Down

DROP INDEX CONCURRENTLY IF EXISTS goal_readings_by_org_and_age;
DROP INDEX CONCURRENTLY IF EXISTS goals_over_by_org;
DROP INDEX CONCURRENTLY IF EXISTS flow_runs_finished_by_org;
DROP INDEX CONCURRENTLY IF EXISTS flow_run_people_by_org_and_age;
DROP INDEX CONCURRENTLY IF EXISTS ticket_notes_by_org_and_age;
DROP INDEX CONCURRENTLY IF EXISTS ticket_answers_by_org_and_age;
DROP INDEX CONCURRENTLY IF EXISTS tickets_with_words_by_org;
