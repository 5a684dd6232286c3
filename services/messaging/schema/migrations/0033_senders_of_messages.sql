-- +goose Up
ALTER TABLE sms_messages VALIDATE CONSTRAINT sms_messages_asked_its_sender;

-- +goose Down
SELECT 1;
