-- +goose Up

-- erase_organisation deletes some rows of an organisation that has ended and has no people any more, and says whether there were none left.
-- That it was there stays, who of it was erased, and who did what, which retention deletes.
-- +goose StatementBegin
CREATE FUNCTION erase_organisation(of_org uuid, most integer)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    t       text;
    deleted integer;
    clean   boolean := true;
BEGIN
    IF NOT EXISTS (SELECT FROM organisations WHERE org_id = of_org AND status = 'ended' AND wanted = 'ended')
        OR EXISTS (SELECT FROM profiles WHERE org_id = of_org) THEN
        RAISE EXCEPTION 'the organisation has not ended, or has people';
    END IF;
    FOR t IN SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'org_id' AND NOT a.attisdropped
        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND c.relname NOT IN ('organisations', 'erasures', 'audit')
        ORDER BY c.relname
    LOOP
        BEGIN
            EXECUTE format('DELETE FROM %I WHERE ctid = ANY (ARRAY(SELECT ctid FROM %I WHERE org_id = $1 LIMIT $2))', t, t) USING of_org, most;
            GET DIAGNOSTICS deleted = ROW_COUNT;
            clean := clean AND deleted = 0;
        EXCEPTION WHEN foreign_key_violation THEN
            clean := false; -- rows of another table go first
        END;
    END LOOP;
    RETURN clean;
END
$$;
-- +goose StatementEnd
REVOKE EXECUTE ON FUNCTION erase_organisation(uuid, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION erase_organisation(uuid, integer) TO onboarding_worker;

-- +goose Down

DROP FUNCTION erase_organisation(uuid, integer);
