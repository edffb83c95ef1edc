-- Tables and functions of dupeproof, version 1.
-- Functions carry a version in their name: an older client keeps finding the one it was written for.
-- All time is the server's. A record with expires_at = infinity is under hold and never purged.

CREATE TABLE dupeproof_records (
    key         uuid        NOT NULL PRIMARY KEY,
    state       text        NOT NULL CHECK (state IN ('running', 'done', 'failed', 'dead')),
    hold        boolean     NOT NULL,
    attempt     integer     NOT NULL,
    created_at  timestamptz NOT NULL,
    lease_until timestamptz NOT NULL,
    finished_at timestamptz,
    expires_at  timestamptz NOT NULL,
    token       bytea       NOT NULL,
    fingerprint bytea       NOT NULL,
    namespace   text        NOT NULL,
    codec       text        NOT NULL DEFAULT '',
    error       text        NOT NULL DEFAULT '',
    result      bytea       NOT NULL DEFAULT ''
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

CREATE INDEX dupeproof_records_expiry ON dupeproof_records (expires_at);

CREATE TABLE dupeproof_marks (
    key        uuid        NOT NULL PRIMARY KEY,
    expires_at timestamptz NOT NULL,
    token      bytea,
    meta       bytea
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

CREATE INDEX dupeproof_marks_expiry ON dupeproof_marks (expires_at);

CREATE FUNCTION dupeproof_ms_v1(milliseconds bigint) RETURNS interval
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT milliseconds * interval '1 millisecond' $$;

-- One claim per element. Keys are taken in their own order, so that two batches cannot wait for each other in a
-- circle. A key that is done, busy, held or dead is only read: a replay neither writes nor locks a row.
CREATE FUNCTION dupeproof_claim_v1(
    keys uuid[], tokens bytea[], fingerprints bytea[], namespaces text[],
    leases bigint[], windows bigint[], holds boolean[], limits integer[]
) RETURNS TABLE (place integer, verdict text, attempt integer, flag boolean, lease_left bigint, codec text, result bytea)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    r dupeproof_records;
    moment timestamptz;
    until timestamptz;
    gone timestamptz;
    abandoned boolean;
BEGIN
    FOR place IN SELECT i FROM generate_subscripts(keys, 1) AS i ORDER BY keys[i], i LOOP
        LOOP
            SELECT * INTO r FROM dupeproof_records AS d WHERE d.key = keys[place];
            moment := clock_timestamp();
            until := moment + dupeproof_ms_v1(leases[place]);
            gone := CASE WHEN holds[place] THEN 'infinity' ELSE until + dupeproof_ms_v1(windows[place]) END;
            attempt := r.attempt; flag := false; lease_left := 0; codec := ''; result := '';

            IF r.key IS NULL OR r.expires_at <= moment THEN
                INSERT INTO dupeproof_records AS d
                    (key, state, hold, attempt, created_at, lease_until, expires_at, token, fingerprint, namespace)
                VALUES (keys[place], 'running', holds[place], 1, moment, until, gone,
                        tokens[place], fingerprints[place], namespaces[place])
                ON CONFLICT (key) DO UPDATE SET
                    state = 'running', hold = excluded.hold, attempt = 1, created_at = moment, lease_until = until,
                    finished_at = NULL, expires_at = gone, token = excluded.token,
                    fingerprint = excluded.fingerprint, namespace = excluded.namespace,
                    codec = '', error = '', result = ''
                WHERE d.expires_at <= moment;
                IF FOUND THEN
                    verdict := 'won'; attempt := 1; EXIT;
                END IF;
                CONTINUE;
            END IF;

            IF fingerprints[place] <> '' AND r.fingerprint <> '' AND fingerprints[place] <> r.fingerprint THEN
                verdict := 'mismatch'; EXIT;
            ELSIF r.state = 'done' THEN
                verdict := 'done'; codec := r.codec; result := r.result; EXIT;
            ELSIF r.state = 'dead' THEN
                verdict := 'dead'; flag := r.token = tokens[place]; EXIT;
            ELSIF r.state = 'failed' AND r.token = tokens[place] THEN
                -- A copy of the claim that was under way for long; its maker has failed since.
                verdict := 'busy'; EXIT;
            ELSIF r.state = 'running' AND r.token <> tokens[place] AND r.lease_until > moment THEN
                verdict := 'busy'; lease_left := ceil(extract(epoch FROM r.lease_until - moment) * 1000); EXIT;
            ELSIF r.state = 'running' AND r.token <> tokens[place] AND r.hold THEN
                verdict := 'held'; EXIT;
            END IF;

            IF r.state = 'running' AND r.token = tokens[place] THEN
                -- The same claim again, after a lost reply.
                verdict := 'won';
                UPDATE dupeproof_records AS d
                SET lease_until = until,
                    expires_at = CASE WHEN d.hold THEN 'infinity' ELSE until + dupeproof_ms_v1(windows[place]) END
                WHERE d.key = r.key AND d.token = r.token AND d.state = 'running';
            ELSIF limits[place] > 0 AND r.attempt >= limits[place] THEN
                verdict := 'dead'; flag := true;
                UPDATE dupeproof_records AS d
                SET state = 'dead', token = tokens[place], finished_at = moment,
                    expires_at = moment + dupeproof_ms_v1(windows[place])
                WHERE d.key = r.key AND d.token = r.token AND d.state = r.state AND d.lease_until = r.lease_until;
            ELSE
                verdict := 'won'; attempt := r.attempt + 1; flag := r.state = 'running';
                UPDATE dupeproof_records AS d
                SET state = 'running', hold = holds[place], attempt = r.attempt + 1, lease_until = until,
                    finished_at = NULL, expires_at = gone, token = tokens[place],
                    fingerprint = CASE WHEN r.fingerprint = '' THEN fingerprints[place] ELSE r.fingerprint END,
                    namespace = namespaces[place], codec = '', error = '', result = ''
                WHERE d.key = r.key AND d.token = r.token AND d.state = r.state AND d.lease_until = r.lease_until;
            END IF;
            EXIT WHEN FOUND;
            -- Someone else changed the record between the look and the write: look again.
        END LOOP;
        RETURN NEXT;
    END LOOP;
END $$;

CREATE FUNCTION dupeproof_finish_v1(
    keys uuid[], tokens bytea[], resolvers bytea[], windows bigint[], codecs text[], results bytea[]
) RETURNS TABLE (place integer, ours boolean)
LANGUAGE plpgsql AS $$
DECLARE
    moment timestamptz;
BEGIN
    FOR place IN SELECT i FROM generate_subscripts(keys, 1) AS i ORDER BY keys[i], i LOOP
        moment := clock_timestamp();
        UPDATE dupeproof_records AS d
        SET state = 'done', finished_at = moment, expires_at = moment + dupeproof_ms_v1(windows[place]),
            token = CASE WHEN resolvers[place] = '' THEN d.token ELSE resolvers[place] END,
            codec = codecs[place], result = results[place], error = ''
        WHERE d.key = keys[place] AND d.token = tokens[place] AND d.expires_at > moment
          AND CASE WHEN resolvers[place] = '' THEN d.state = 'running'
                   ELSE d.state IN ('failed', 'dead') OR (d.state = 'running' AND d.lease_until <= moment) END;
        ours := FOUND;
        IF NOT ours AND resolvers[place] = '' THEN
            -- The same finish again, after a lost reply.
            ours := EXISTS (SELECT FROM dupeproof_records AS d WHERE d.key = keys[place]
                            AND d.token = tokens[place] AND d.state = 'done' AND d.expires_at > moment);
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;

CREATE FUNCTION dupeproof_fail_v1(
    keys uuid[], tokens bytea[], windows bigint[], errors text[], dead boolean[]
) RETURNS TABLE (place integer, ours boolean)
LANGUAGE plpgsql AS $$
DECLARE
    moment timestamptz;
    reached text;
BEGIN
    FOR place IN SELECT i FROM generate_subscripts(keys, 1) AS i ORDER BY keys[i], i LOOP
        moment := clock_timestamp();
        reached := CASE WHEN dead[place] THEN 'dead' ELSE 'failed' END;
        UPDATE dupeproof_records AS d
        SET state = reached, error = errors[place], finished_at = moment,
            expires_at = moment + dupeproof_ms_v1(windows[place])
        WHERE d.key = keys[place] AND d.token = tokens[place] AND d.state = 'running' AND d.expires_at > moment;
        ours := FOUND;
        IF NOT ours THEN
            ours := EXISTS (SELECT FROM dupeproof_records AS d WHERE d.key = keys[place]
                            AND d.token = tokens[place] AND d.state = reached AND d.expires_at > moment);
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;

CREATE FUNCTION dupeproof_release_v1(keys uuid[], tokens bytea[], windows bigint[], reopen boolean[])
RETURNS TABLE (place integer, ours boolean)
LANGUAGE plpgsql AS $$
DECLARE
    moment timestamptz;
BEGIN
    FOR place IN SELECT i FROM generate_subscripts(keys, 1) AS i ORDER BY keys[i], i LOOP
        moment := clock_timestamp();
        DELETE FROM dupeproof_records AS d
        WHERE d.key = keys[place] AND d.token = tokens[place] AND d.expires_at > moment
          AND CASE WHEN reopen[place]
                   THEN d.state IN ('failed', 'dead') OR (d.state = 'running' AND d.lease_until <= moment)
                   ELSE d.state = 'running' AND d.attempt = 1 END;
        ours := FOUND;
        IF NOT ours AND NOT reopen[place] THEN
            UPDATE dupeproof_records AS d
            SET state = 'failed', attempt = d.attempt - 1, finished_at = moment,
                expires_at = moment + dupeproof_ms_v1(windows[place])
            WHERE d.key = keys[place] AND d.token = tokens[place] AND d.state = 'running' AND d.expires_at > moment;
            ours := FOUND;
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;

CREATE FUNCTION dupeproof_renew_v1(keys uuid[], tokens bytea[], leases bigint[], windows bigint[])
RETURNS TABLE (place integer, ours boolean)
LANGUAGE plpgsql AS $$
DECLARE
    moment timestamptz;
BEGIN
    FOR place IN SELECT i FROM generate_subscripts(keys, 1) AS i ORDER BY keys[i], i LOOP
        moment := clock_timestamp();
        UPDATE dupeproof_records AS d
        SET lease_until = moment + dupeproof_ms_v1(leases[place]),
            expires_at = CASE WHEN d.hold THEN 'infinity'
                              ELSE moment + dupeproof_ms_v1(leases[place] + windows[place]) END
        WHERE d.key = keys[place] AND d.token = tokens[place] AND d.state = 'running' AND d.expires_at > moment;
        ours := FOUND;
        RETURN NEXT;
    END LOOP;
END $$;

-- The keys that were new, of a batch in which each key stands once. Known ones are only read.
CREATE FUNCTION dupeproof_mark_v1(keys uuid[], windows bigint[], tokens bytea[], metas bytea[])
RETURNS SETOF uuid
LANGUAGE plpgsql AS $$
DECLARE
    moment timestamptz := clock_timestamp();
BEGIN
    RETURN QUERY
    INSERT INTO dupeproof_marks AS d (key, expires_at, token, meta)
    SELECT a.key, moment + dupeproof_ms_v1(a.win), nullif(a.token, ''), nullif(a.meta, '')
    FROM unnest(keys, windows, tokens, metas) AS a (key, win, token, meta)
    WHERE NOT EXISTS (SELECT FROM dupeproof_marks AS k WHERE k.key = a.key AND k.expires_at > moment)
    ORDER BY a.key
    ON CONFLICT (key) DO UPDATE
    SET expires_at = excluded.expires_at, token = excluded.token, meta = excluded.meta
    WHERE d.expires_at <= moment
    RETURNING d.key;
END $$;
