-- +goose Up

-- What `paceline settle` does after a restore, so that it goes on where it was killed. One is open at a time.
CREATE TABLE restores (
    id                 uuid        PRIMARY KEY,
    onboarding_since   timestamptz NOT NULL, -- the last instant that onboarding's database has
    messaging_since    timestamptz NOT NULL, -- the last one that messaging's has
    onboarding_history text        NOT NULL, -- current_history() of both databases: in others this row came back from a backup
    messaging_history  text        NOT NULL,
    began_at           timestamptz NOT NULL,
    released_at        timestamptz,          -- since when texts are sent again
    ended_at           timestamptz
);
CREATE UNIQUE INDEX restores_open ON restores ((true)) WHERE ended_at IS NULL;

ALTER TABLE restores ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY worker ON restores TO onboarding_worker USING (true);

-- +goose Down

DROP TABLE restores;
