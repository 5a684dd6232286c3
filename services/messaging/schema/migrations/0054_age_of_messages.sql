-- +goose Up

-- A trigger before an update has Postgres lock each row that is updated, whatever column the trigger is for, and write that to the WAL. One
-- after it refuses as well, and costs nothing where created_at is not set.
CREATE OR REPLACE TRIGGER sms_messages_keep_their_age AFTER UPDATE OF created_at ON sms_messages FOR EACH ROW
    WHEN (NEW.created_at IS DISTINCT FROM OLD.created_at) EXECUTE FUNCTION refuse_another_age();

-- +goose Down

CREATE OR REPLACE TRIGGER sms_messages_keep_their_age BEFORE UPDATE OF created_at ON sms_messages FOR EACH ROW
    WHEN (NEW.created_at IS DISTINCT FROM OLD.created_at) EXECUTE FUNCTION refuse_another_age();
