-- +goose Up

-- sessions_are_told asks for the written types itself, so this trigger need not ask again. Not with 0095: a resume locks the two tables in the
-- other order.
CREATE OR REPLACE TRIGGER event_outbox_written BEFORE INSERT ON event_outbox FOR EACH ROW
    WHEN (pg_trigger_depth() = 0 OR NEW.type NOT LIKE 'session.%') EXECUTE FUNCTION event_is_written();

-- +goose Down

CREATE OR REPLACE TRIGGER event_outbox_written BEFORE INSERT ON event_outbox FOR EACH ROW EXECUTE FUNCTION event_is_written();
