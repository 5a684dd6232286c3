-- +goose Up

-- The inbox: conversations that wait for a person of the organisation, and what they answered. Expand only: the release before opens none, and a
-- session that waits for a ticket is parked, which it knows. Rows go with the profile of their person.
CREATE TABLE tickets (
    id                uuid        PRIMARY KEY,
    org_id            uuid        NOT NULL,
    profile_id        uuid        NOT NULL REFERENCES profiles (id) ON DELETE CASCADE,
    session_id        uuid        REFERENCES conversation_sessions (id) ON DELETE SET NULL, -- that waits for it
    status            text        NOT NULL CHECK (status IN ('open', 'assigned', 'closed')),
    reason            text        NOT NULL CHECK (reason ~ '^[a-z_]{1,20}$'),
    detail            text        NOT NULL DEFAULT '' CHECK (char_length(detail) <= 200),
    assignee          text        CHECK (char_length(assignee) BETWEEN 1 AND 200),
    assigned_at       timestamptz, -- when the assignee last changed
    opened_at         timestamptz NOT NULL,
    opened_by         jsonb       DEFAULT current_actor(),
    first_answered_at timestamptz,
    closed_at         timestamptz,
    closed_by         jsonb,
    outcome           text        CHECK (outcome IN ('resume', 'restart', 'end')),
    message_id        uuid, -- that opened it, in messaging
    last_text         text        NOT NULL DEFAULT '' CHECK (char_length(last_text) <= 160),
    last_text_at      timestamptz NOT NULL,
    person_wrote_at   timestamptz, -- their newest text
    waits_since       timestamptz,
    texts             integer     NOT NULL DEFAULT 0,
    answers           integer     NOT NULL DEFAULT 0,
    notes             integer     NOT NULL DEFAULT 0,
    last_answer_at         timestamptz,
    last_answer_message_id uuid,
    CHECK ((status = 'closed') = (closed_at IS NOT NULL)),
    CHECK (status <> 'assigned' OR assignee IS NOT NULL),
    CHECK (status <> 'open' OR assignee IS NULL)
);
-- One that is not closed per person. A list goes through its own, the newest text first.
CREATE UNIQUE INDEX tickets_one_open ON tickets (profile_id) WHERE status <> 'closed';
CREATE INDEX tickets_not_closed ON tickets (org_id, last_text_at DESC, id DESC) WHERE status <> 'closed';
CREATE INDEX tickets_closed ON tickets (org_id, last_text_at DESC, id DESC) WHERE status = 'closed';
CREATE INDEX tickets_of_an_assignee ON tickets (org_id, assignee, last_text_at DESC, id DESC) WHERE status <> 'closed' AND assignee IS NOT NULL;
CREATE INDEX tickets_closed_of_an_assignee ON tickets (org_id, assignee, last_text_at DESC, id DESC) WHERE status = 'closed' AND assignee IS NOT NULL;
CREATE INDEX tickets_of_a_person ON tickets (profile_id, last_text_at DESC, id DESC);
CREATE INDEX tickets_of_a_session ON tickets (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX tickets_over ON tickets (org_id, closed_at) WHERE closed_at IS NOT NULL;

CREATE TABLE saved_replies (
    id         uuid        PRIMARY KEY,
    org_id     uuid        NOT NULL,
    title      text        NOT NULL CHECK (char_length(title) BETWEEN 1 AND 60),
    body       text        NOT NULL CHECK (char_length(body) BETWEEN 1 AND 1600),
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    updated_by text        NOT NULL
);
CREATE UNIQUE INDEX saved_replies_by_title ON saved_replies (org_id, lower(title));

CREATE TABLE ticket_answers (
    id              uuid        PRIMARY KEY,
    org_id          uuid        NOT NULL,
    profile_id      uuid        NOT NULL REFERENCES profiles (id) ON DELETE CASCADE,
    ticket_id       uuid        NOT NULL REFERENCES tickets (id) ON DELETE CASCADE,
    idempotency_key text        NOT NULL CHECK (char_length(idempotency_key) BETWEEN 1 AND 200),
    body            text        NOT NULL CHECK (char_length(body) BETWEEN 1 AND 1600),
    saved_reply_id  uuid, -- no reference: what was answered stays
    author          text        NOT NULL,
    status          text        NOT NULL CHECK (status IN ('sending', 'sent', 'not_sent')),
    reason          text        NOT NULL DEFAULT '',
    explanation     text        NOT NULL DEFAULT '',
    retry_at        timestamptz,
    message_id      uuid,
    created_at      timestamptz NOT NULL,
    settled_at      timestamptz
);
CREATE UNIQUE INDEX ticket_answers_by_key ON ticket_answers (org_id, idempotency_key);
CREATE INDEX ticket_answers_of_a_person ON ticket_answers (profile_id, id DESC);
CREATE INDEX ticket_answers_of_a_ticket ON ticket_answers (ticket_id, id DESC);

CREATE TABLE ticket_notes (
    id              uuid        PRIMARY KEY,
    org_id          uuid        NOT NULL,
    ticket_id       uuid        NOT NULL REFERENCES tickets (id) ON DELETE CASCADE,
    idempotency_key text        NOT NULL CHECK (char_length(idempotency_key) BETWEEN 1 AND 200),
    body            text        NOT NULL CHECK (char_length(body) BETWEEN 1 AND 2000),
    author          text        NOT NULL,
    created_at      timestamptz NOT NULL
);
CREATE UNIQUE INDEX ticket_notes_by_key ON ticket_notes (ticket_id, idempotency_key);

-- null: nothing was decided.
ALTER TABLE organisation_settings
    ADD COLUMN ticket_limit_minutes integer CHECK (ticket_limit_minutes BETWEEN 1 AND 10080),
    ADD COLUMN distress_words text[];

-- As 0016 has it. A token of a user sees none of it.
-- +goose StatementBegin
DO $$
DECLARE
    t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['tickets', 'saved_replies', 'ticket_answers', 'ticket_notes'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
        EXECUTE format('CREATE POLICY tenant ON %I TO onboarding_tenant USING (org_id = current_org_id() AND current_profile_id() IS NULL)', t);
        EXECUTE format('CREATE POLICY worker ON %I TO onboarding_worker USING (true)', t);
    END LOOP;
END
$$;
-- +goose StatementEnd

-- Each change of a ticket that the host application is told of, as session_is_told does for sessions.
-- +goose StatementBegin
CREATE FUNCTION ticket_is_told() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    kinds text[] := '{}';
    kind  text;
    at    timestamptz;
BEGIN
    IF TG_OP = 'INSERT' THEN
        kinds := ARRAY['opened'] || CASE WHEN NEW.assignee IS NOT NULL THEN ARRAY['assigned'] ELSE '{}' END;
    ELSE
        IF NEW.assignee IS DISTINCT FROM OLD.assignee AND NEW.status <> 'closed' THEN
            kinds := array_append(kinds, 'assigned');
        END IF;
        IF NEW.answers > OLD.answers THEN
            kinds := array_append(kinds, 'answered');
        END IF;
        IF NEW.status = 'closed' AND OLD.status <> 'closed' THEN
            kinds := array_append(kinds, 'closed');
        END IF;
    END IF;
    FOREACH kind IN ARRAY kinds LOOP
        at := CASE kind WHEN 'opened' THEN NEW.opened_at WHEN 'closed' THEN NEW.closed_at
            WHEN 'assigned' THEN NEW.assigned_at ELSE NEW.last_answer_at END;
        INSERT INTO event_outbox (event_id, org_id, type, subject, time, causation_id, data)
        VALUES (uuid_of(at), NEW.org_id, 'ticket.' || kind, NEW.profile_id::text, at,
            CASE WHEN kind = 'opened' AND NEW.message_id IS NOT NULL THEN 'message:' || NEW.message_id ELSE 'ticket:' || NEW.id END,
            jsonb_strip_nulls(jsonb_build_object('ticket_id', NEW.id, 'reason', NEW.reason, 'session_id', NEW.session_id,
                'message_id', CASE kind WHEN 'opened' THEN NEW.message_id WHEN 'answered' THEN NEW.last_answer_message_id END,
                'assignee', NEW.assignee, 'outcome', NEW.outcome)));
    END LOOP;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER ticket_is_told AFTER INSERT OR UPDATE OF assignee, answers, status ON tickets FOR EACH ROW EXECUTE FUNCTION ticket_is_told();

-- +goose Down

DROP TABLE ticket_notes;
DROP TABLE ticket_answers;
DROP TABLE saved_replies;
DROP TABLE tickets;
DROP FUNCTION ticket_is_told();
ALTER TABLE organisation_settings DROP COLUMN distress_words, DROP COLUMN ticket_limit_minutes;
