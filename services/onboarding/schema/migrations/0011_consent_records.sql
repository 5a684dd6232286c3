-- +goose Up
-- Whether the organisation opens no session without a record of how the person agreed. A release that does not know it leaves it as it is.
alter table organisation_settings add column require_consent_record boolean not null default false;

-- +goose Down
alter table organisation_settings drop column require_consent_record;
