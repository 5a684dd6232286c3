-- +goose NO TRANSACTION
-- +goose Up

-- joao finds João, and an apostrophe of any kind finds the others. It changes what key_of_name (0025) makes of a name, so the release before
-- searches in the same way. Until all keys are made anew, a search may miss a name with an accent. It may be run again.
-- +goose StatementBegin
DO $$
DECLARE
    small  text := CASE WHEN EXISTS (SELECT FROM pg_collation WHERE collname = 'und-x-icu' AND collnamespace = 'pg_catalog'::regnamespace)
        THEN ' COLLATE "und-x-icu"' ELSE '' END;
    behind uuid := '00000000-0000-0000-0000-000000000000';
    page   uuid[];
BEGIN
    -- The letters behind it have no accent that comes off, but are typed without it all the same.
    EXECUTE format($f$
        CREATE OR REPLACE FUNCTION key_of_name(name text) RETURNS text LANGUAGE sql IMMUTABLE RETURN
            replace(replace(replace(translate(
                lower(regexp_replace(normalize(name, NFKD), '[\u0300-\u036f]', '', 'g')%s),
                'øłđħıʼ‘’', 'oldhi'''''''), 'ß', 'ss'), 'æ', 'ae'), 'œ', 'oe')$f$, small);
    COMMIT;
    LOOP
        page := ARRAY(SELECT p.id FROM profiles p WHERE p.id > behind ORDER BY p.id LIMIT 500);
        EXIT WHEN cardinality(page) = 0;
        -- Letters and their accents in one, as every door stores them by now: apart, they double the price of a text. The trigger makes the key.
        UPDATE profiles p SET first_name = normalize(p.first_name)
        WHERE p.id = ANY (page) AND (p.name_key <> key_of_name(p.first_name) OR p.first_name IS NOT NORMALIZED);
        behind := page[cardinality(page)];
        COMMIT;
    END LOOP;
END
$$;
-- +goose StatementEnd

-- +goose Down

-- +goose StatementBegin
DO $$
BEGIN
    EXECUTE 'CREATE OR REPLACE FUNCTION key_of_name(name text) RETURNS text LANGUAGE sql IMMUTABLE RETURN lower(name' || CASE
        WHEN EXISTS (SELECT FROM pg_collation WHERE collname = 'und-x-icu' AND collnamespace = 'pg_catalog'::regnamespace)
        THEN ' COLLATE "und-x-icu"' ELSE '' END || ')';
    UPDATE profiles p SET name_key = key_of_name(p.first_name) WHERE p.name_key <> key_of_name(p.first_name);
END
$$;
-- +goose StatementEnd
