-- +goose Up

-- What an organisation pays for a segment, by the country code of the number: {"currency": "USD", "prices": {"+1": "0.0079"}}. null: nothing was
-- decided. Expand only.
ALTER TABLE organisation_settings ADD COLUMN segment_prices jsonb CHECK (jsonb_typeof(segment_prices -> 'prices') = 'object');

-- +goose Down

ALTER TABLE organisation_settings DROP COLUMN segment_prices;
