-- +goose Up

-- As sms_outbound_jobs has it: a message is rewritten several times on its way, and what that leaves behind is cleared away early, however
-- many messages are kept.
ALTER TABLE sms_messages
    SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

-- +goose Down

ALTER TABLE sms_messages RESET (autovacuum_vacuum_scale_factor, autovacuum_vacuum_insert_scale_factor, autovacuum_analyze_scale_factor);
