-- Tables and functions of dupeproof, version 1.
-- Functions carry a version in their name: an older client keeps finding the one it was written for.
-- All time is the server's. A record with expires_at = infinity is under hold, or dead, and never purged.
--
-- Under one name there is a function for one and, for arrays, one for a batch, which calls the other for what is left
-- over when the plain cases are dealt with together.
-- A batch is arrays of equal length, keys in ascending order. Where all elements are the same, one stands for the rest.
-- Keys are taken in their order, so that two batches cannot wait for each other in a circle.
--
-- Plans are cached for as long as a connection lives, and one made while a table was nearly empty would read it from
-- end to end for ever. Hence enable_seqscan = off, and no joins, which could be turned around: only look-ups by key.

-- Records that have no end (claims under hold, and what is dead) have purge_from = infinity, so the index finds them as well.
-- purge_from is never later than expires_at. It is what the index is on, because it stays when a claim is renewed or
-- finished: PostgreSQL then keeps the new version of the row on its page, and no index is written to.
CREATE TABLE dupeproof_records (
    key         uuid        NOT NULL PRIMARY KEY,
    created_at  timestamptz NOT NULL,
    lease_until timestamptz NOT NULL,
    finished_at timestamptz,
    expires_at  timestamptz NOT NULL,
    purge_from  timestamptz NOT NULL,
    attempt     integer     NOT NULL,
    hold        boolean     NOT NULL,
    state       text        NOT NULL,  -- running, done, failed or dead
    token       bytea       NOT NULL,
    fingerprint bytea       NOT NULL,
    namespace   text        NOT NULL,
    codec       text        NOT NULL DEFAULT '',
    error       text        NOT NULL DEFAULT '',
    result      bytea       NOT NULL DEFAULT '',
    window_ms   bigint      NOT NULL,             -- the window of its guard,
    took_over   boolean     NOT NULL DEFAULT false,  -- while it runs: the owner before vanished
    name        text        NOT NULL DEFAULT '',  -- of the guarded function
    kept_key    text        NOT NULL DEFAULT ''   -- the key itself, where its guard keeps keys
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

CREATE INDEX dupeproof_records_purge ON dupeproof_records (purge_from);

CREATE TABLE dupeproof_marks (
    key        uuid        NOT NULL PRIMARY KEY,
    expires_at timestamptz NOT NULL,
    token      bytea,
    meta       bytea
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

CREATE INDEX dupeproof_marks_expiry ON dupeproof_marks (expires_at);

CREATE FUNCTION dupeproof_ms_v1(milliseconds bigint) RETURNS interval
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT milliseconds * interval '1 millisecond' $$;

-- One claim. The verdict is NULL when it is won at the first attempt, as most are.
-- A key that is done, busy, held or dead is only read: a replay neither writes nor locks a row.
-- Every expression of PL/pgSQL is made ready anew in each transaction, which adds up. So a replay and a new key come
-- first and meet few of them.
CREATE FUNCTION dupeproof_claim_v1(
    wanted uuid, owner bytea, content bytea, space text, lease bigint, span bigint, held boolean, most integer,
    called text, kept text, alone boolean DEFAULT true,
    OUT verdict text, OUT attempt integer, OUT flag boolean, OUT lease_left bigint, OUT codec text, OUT result bytea
) LANGUAGE plpgsql SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    -- The record as it was found.
    its_state text;
    its_token bytea;
    its_fingerprint bytea;
    its_hold boolean;
    its_took_over boolean;
    its_lease_until timestamptz;
    its_expires_at timestamptz;
    -- And when.
    moment timestamptz;
    until timestamptz;
    gone timestamptz;
    soonest timestamptz;
BEGIN
    LOOP
        SELECT d.state, d.attempt, d.codec, d.result,
               d.token, d.fingerprint, d.hold, d.took_over, d.lease_until, d.expires_at, clock_timestamp()
        INTO verdict, attempt, codec, result,
             its_token, its_fingerprint, its_hold, its_took_over, its_lease_until, its_expires_at, moment
        FROM dupeproof_records AS d WHERE d.key = wanted;

        IF verdict = 'done' AND its_expires_at > moment
           AND (its_fingerprint = '' OR content = '' OR its_fingerprint = content) THEN
            RETURN;
        END IF;

        IF verdict IS NULL THEN
            IF NOT alone THEN
                -- Known a moment ago, and removed since. To insert now, after rows have been locked, could close a
                -- circle of batches that wait for each other. The caller sends the batch again.
                RAISE serialization_failure USING MESSAGE = 'dupeproof: a key of the batch was removed meanwhile';
            END IF;
            moment := clock_timestamp();
            INSERT INTO dupeproof_records
                (key, state, hold, attempt, created_at, lease_until, expires_at, purge_from,
                 token, fingerprint, namespace, window_ms, name, kept_key)
            VALUES (wanted, 'running', held, 1, moment, moment + dupeproof_ms_v1(lease),
                    CASE WHEN held THEN 'infinity' ELSE moment + dupeproof_ms_v1(lease + span) END,
                    CASE WHEN held THEN 'infinity' ELSE moment + dupeproof_ms_v1(span) END,
                    owner, content, space, span, called, kept)
            ON CONFLICT (key) DO NOTHING;
            EXIT WHEN FOUND;
            CONTINUE;
        END IF;

        its_state := verdict;
        until := moment + dupeproof_ms_v1(lease);
        gone := CASE WHEN held THEN 'infinity' ELSE until + dupeproof_ms_v1(span) END;
        soonest := CASE WHEN held THEN 'infinity' ELSE moment + dupeproof_ms_v1(span) END;
        flag := false;

        IF its_expires_at <= moment THEN
            verdict := NULL;
            UPDATE dupeproof_records AS d
            SET state = 'running', hold = held, attempt = 1, created_at = moment, lease_until = until,
                finished_at = NULL, expires_at = gone, purge_from = soonest,
                token = owner, fingerprint = content, namespace = space, window_ms = span, took_over = false,
                name = called, kept_key = kept, codec = '', error = '', result = ''
            WHERE d.key = wanted AND d.expires_at <= moment;

        -- What is only read.
        ELSIF its_fingerprint <> '' AND content <> '' AND its_fingerprint <> content THEN
            verdict := 'mismatch';
            RETURN;
        ELSIF its_state = 'dead' THEN
            flag := its_token = owner;
            RETURN;
        ELSIF its_state = 'failed' AND its_token = owner THEN
            -- A copy of the claim that was under way for long; its maker has failed since.
            verdict := 'busy';
            RETURN;
        ELSIF its_state = 'running' AND its_token <> owner AND its_lease_until > moment THEN
            verdict := 'busy';
            lease_left := ceil(extract(epoch FROM its_lease_until - moment) * 1000);
            RETURN;
        ELSIF its_state = 'running' AND its_token <> owner AND its_hold THEN
            verdict := 'held';
            RETURN;

        ELSIF its_state = 'resolved' THEN
            -- From now on somebody has this result.
            verdict := 'done';
            UPDATE dupeproof_records AS d SET state = 'done'
            WHERE d.key = wanted AND d.token = its_token AND d.state = 'resolved';
        ELSIF its_state = 'running' AND its_token = owner THEN
            -- The same claim again, after a lost reply.
            verdict := 'won';
            flag := its_took_over;
            UPDATE dupeproof_records AS d
            SET lease_until = until,
                expires_at = CASE WHEN d.hold THEN 'infinity' ELSE until + dupeproof_ms_v1(span) END,
                purge_from = CASE WHEN d.hold THEN d.purge_from
                                  ELSE least(d.purge_from, moment + dupeproof_ms_v1(span)) END,
                window_ms = span
            WHERE d.key = wanted AND d.token = owner AND d.state = 'running';
        ELSIF attempt >= nullif(most, 0) THEN
            verdict := 'dead';
            flag := true;
            UPDATE dupeproof_records AS d
            SET state = 'dead', token = owner, finished_at = moment, expires_at = 'infinity', purge_from = 'infinity',
                window_ms = span, took_over = false
            WHERE d.key = wanted AND d.token = its_token AND d.state = its_state AND d.lease_until = its_lease_until;
        ELSE
            verdict := 'won';
            attempt := attempt + 1;
            flag := its_state = 'running';
            UPDATE dupeproof_records AS d
            SET state = 'running', hold = held, attempt = d.attempt + 1, lease_until = until, finished_at = NULL,
                expires_at = gone, purge_from = soonest, token = owner, namespace = space,
                fingerprint = CASE WHEN its_fingerprint = '' THEN content ELSE its_fingerprint END,
                codec = '', error = '', window_ms = span, took_over = flag, name = called, kept_key = kept
            WHERE d.key = wanted AND d.token = its_token AND d.state = its_state AND d.lease_until = its_lease_until;
        END IF;
        EXIT WHEN FOUND;
        -- Someone else changed the record between the look and the write: look again.
    END LOOP;
END $$;

-- Many claims. Answers with those that were not won at the first attempt, by their place in the batch.
CREATE FUNCTION dupeproof_claim_v1(
    keys uuid[], tokens bytea[], fingerprints bytea[], namespaces text[],
    leases bigint[], windows bigint[], holds boolean[], limits integer[], names text[], kept_keys text[]
) RETURNS TABLE (place integer, verdict text, attempt integer, flag boolean, lease_left bigint, codec text, result bytea)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    moment CONSTANT timestamptz := clock_timestamp();
    settled boolean[];
BEGIN
    WITH won AS (
        INSERT INTO dupeproof_records
            (key, state, hold, attempt, created_at, lease_until, expires_at, purge_from,
             token, fingerprint, namespace, window_ms, name, kept_key)
        SELECT b.key, 'running', b.hold, 1, moment, moment + b.lease,
               CASE WHEN b.hold THEN 'infinity' ELSE moment + b.lease + b.span END,
               CASE WHEN b.hold THEN 'infinity' ELSE moment + b.span END,
               b.token, b.fingerprint, b.namespace, b.window_ms, b.name, b.kept_key
        FROM (
            SELECT a.key, a.token, coalesce(a.fingerprint, fingerprints[1]) AS fingerprint,
                   coalesce(a.namespace, namespaces[1]) AS namespace, coalesce(a.hold, holds[1]) AS hold,
                   dupeproof_ms_v1(coalesce(a.lease, leases[1])) AS lease,
                   dupeproof_ms_v1(coalesce(a.span, windows[1])) AS span,
                   coalesce(a.span, windows[1]) AS window_ms,
                   coalesce(a.name, names[1]) AS name, coalesce(a.kept_key, kept_keys[1]) AS kept_key
            FROM unnest(keys, tokens, fingerprints, namespaces, leases, windows, holds, names, kept_keys)
                 AS a (key, token, fingerprint, namespace, lease, span, hold, name, kept_key)
        ) AS b
        ON CONFLICT (key) DO NOTHING
        RETURNING key
    )
    SELECT count(*) = cardinality(keys) INTO flag FROM won;
    IF flag THEN
        RETURN;
    END IF;

    -- Those just won are known by their moment, and come first if their key stands here twice.
    settled := array_fill(false, ARRAY[cardinality(keys)]);
    FOR place, verdict, attempt, codec, result IN
        SELECT a.place, d.state, d.attempt, d.codec, d.result
        FROM unnest(keys, tokens, fingerprints) WITH ORDINALITY AS a (key, token, fingerprint, place)
        CROSS JOIN LATERAL (SELECT * FROM dupeproof_records AS k WHERE k.key = a.key OFFSET 0) AS d
        WHERE (d.created_at = moment AND d.token = a.token AND a.key IS DISTINCT FROM keys[a.place - 1])
           OR (d.state = 'done' AND d.expires_at > moment
               AND (d.fingerprint = '' OR coalesce(a.fingerprint, fingerprints[1]) IN ('', d.fingerprint)))
    LOOP
        settled[place] := true;
        IF verdict = 'done' THEN
            RETURN NEXT;
        END IF;
    END LOOP;

    FOR i IN 1 .. cardinality(keys) LOOP
        CONTINUE WHEN settled[i];
        SELECT i, c.verdict, c.attempt, c.flag, c.lease_left, c.codec, c.result
        INTO place, verdict, attempt, flag, lease_left, codec, result
        FROM dupeproof_claim_v1(
            keys[i], tokens[i], coalesce(fingerprints[i], fingerprints[1]), coalesce(namespaces[i], namespaces[1]),
            coalesce(leases[i], leases[1]), coalesce(windows[i], windows[1]), coalesce(holds[i], holds[1]),
            coalesce(limits[i], limits[1]), coalesce(names[i], names[1]), coalesce(kept_keys[i], kept_keys[1]),
            alone => false) AS c;
        IF verdict IS NOT NULL THEN
            RETURN NEXT;
        END IF;
    END LOOP;
END $$;

-- One finish. True while it is theirs.
CREATE FUNCTION dupeproof_finish_v1(
    wanted uuid, owner bytea, resolver bytea, span bigint, codec_name text, value bytea
) RETURNS boolean
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    moment timestamptz := clock_timestamp();
BEGIN
    UPDATE dupeproof_records AS d
    SET state = CASE WHEN resolver = '' THEN 'done' ELSE 'resolved' END,
        finished_at = moment, expires_at = moment + dupeproof_ms_v1(span),
        purge_from = least(d.purge_from, moment + dupeproof_ms_v1(span)),
        token = CASE WHEN resolver = '' THEN d.token ELSE resolver END,
        codec = codec_name, result = value, error = '', window_ms = span, took_over = false
    WHERE d.key = wanted AND d.token = owner AND d.expires_at > moment
      AND CASE WHEN resolver = '' THEN d.state = 'running'
               ELSE d.state IN ('failed', 'dead', 'resolved') OR (d.state = 'running' AND d.lease_until <= moment) END;
    -- The same finish again, after a lost reply, is still theirs.
    RETURN FOUND OR (resolver = '' AND EXISTS (
        SELECT FROM dupeproof_records AS d
        WHERE d.key = wanted AND d.token = owner AND d.state = 'done' AND d.expires_at > moment));
END $$;

-- Many verbs of owners. They answer with the places of those that are no longer theirs.
CREATE FUNCTION dupeproof_finish_v1(
    keys uuid[], tokens bytea[], resolvers bytea[], windows bigint[], codecs text[], results bytea[]
) RETURNS SETOF integer
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    moment CONSTANT timestamptz := clock_timestamp();
    closed uuid[];
BEGIN
    IF resolvers = ARRAY[''::bytea] THEN
        WITH done AS (
            UPDATE dupeproof_records AS d
            SET state = 'done', finished_at = moment, error = '', took_over = false, (expires_at, purge_from, codec, result, window_ms) = (
                SELECT e.moment, least(d.purge_from, e.moment), coalesce(codecs[i], codecs[1]), results[i],
                       coalesce(windows[i], windows[1])
                FROM array_position(keys, d.key) AS i,
                     LATERAL (SELECT moment + dupeproof_ms_v1(coalesce(windows[i], windows[1])) AS moment) AS e
            )
            WHERE d.key = ANY (keys) AND d.token = tokens[array_position(keys, d.key)]
              AND d.state = 'running' AND d.expires_at > moment
            RETURNING d.key
        )
        SELECT array_agg(done.key) INTO closed FROM done;
        IF cardinality(closed) = cardinality(keys) THEN
            RETURN;
        END IF;
    END IF;

    FOR place IN 1 .. cardinality(keys) LOOP
        CONTINUE WHEN keys[place] = ANY (closed) AND array_position(keys, keys[place]) = place;
        IF NOT dupeproof_finish_v1(
            keys[place], tokens[place], coalesce(resolvers[place], resolvers[1]),
            coalesce(windows[place], windows[1]), coalesce(codecs[place], codecs[1]), results[place]) THEN
            RETURN NEXT place;
        END IF;
    END LOOP;
END $$;

-- What is held stays a claim under hold whose lease is over.
CREATE FUNCTION dupeproof_fail_v1(
    keys uuid[], tokens bytea[], windows bigint[], errors text[], fates text[], sinces bigint[])
RETURNS SETOF integer
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    moment timestamptz;
    gone timestamptz;
    span bigint;
    reached text;
BEGIN
    FOR place IN 1 .. cardinality(keys) LOOP
        moment := clock_timestamp();
        reached := coalesce(fates[place], fates[1]);
        span := coalesce(windows[place], windows[1]);
        gone := CASE WHEN reached = 'failed' THEN moment + dupeproof_ms_v1(span) ELSE 'infinity' END;
        IF reached = 'held' THEN
            UPDATE dupeproof_records AS d
            SET hold = true, error = coalesce(errors[place], errors[1]),
                expires_at = gone, purge_from = gone, window_ms = span, took_over = false,
                lease_until = least(
                    moment, to_timestamp(nullif(coalesce(sinces[place], sinces[1]), 0) / 1000.0))
            WHERE d.key = keys[place] AND d.token = tokens[place] AND d.state = 'running' AND d.expires_at > moment;
            IF NOT FOUND THEN
                RETURN NEXT place;
            END IF;
            CONTINUE;
        END IF;
        UPDATE dupeproof_records AS d
        SET state = reached, error = coalesce(errors[place], errors[1]), finished_at = moment, expires_at = gone,
            purge_from = CASE WHEN reached = 'dead' THEN gone ELSE least(d.purge_from, gone) END, window_ms = span,
            took_over = false
        WHERE d.key = keys[place] AND d.token = tokens[place] AND d.state = 'running' AND d.expires_at > moment;
        CONTINUE WHEN FOUND;
        CONTINUE WHEN EXISTS (
            SELECT FROM dupeproof_records AS d WHERE d.key = keys[place]
            AND d.token = tokens[place] AND d.state = reached AND d.expires_at > moment);
        RETURN NEXT place;
    END LOOP;
END $$;

CREATE FUNCTION dupeproof_release_v1(keys uuid[], tokens bytea[], windows bigint[], reopen boolean[])
RETURNS SETOF integer
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    moment timestamptz;
    gone timestamptz;
    anew boolean;
BEGIN
    FOR place IN 1 .. cardinality(keys) LOOP
        moment := clock_timestamp();
        gone := moment + dupeproof_ms_v1(coalesce(windows[place], windows[1]));
        anew := coalesce(reopen[place], reopen[1]);
        -- A claim that took over an abandoned key leaves it abandoned.
        UPDATE dupeproof_records AS d
        SET attempt = d.attempt - 1, lease_until = least(d.lease_until, moment), took_over = false,
            expires_at = CASE WHEN d.hold THEN 'infinity' ELSE gone END,
            purge_from = CASE WHEN d.hold THEN d.purge_from ELSE least(d.purge_from, gone) END,
            window_ms = coalesce(windows[place], windows[1])
        WHERE NOT anew AND d.key = keys[place] AND d.token = tokens[place] AND d.expires_at > moment
          AND d.took_over AND d.state = 'running';
        CONTINUE WHEN FOUND;
        DELETE FROM dupeproof_records AS d
        WHERE d.key = keys[place] AND d.token = tokens[place] AND d.expires_at > moment AND d.result = ''
          AND CASE WHEN anew THEN d.state IN ('failed', 'dead') OR (d.state = 'running' AND d.lease_until <= moment)
                   ELSE d.state = 'running' AND d.attempt = 1 END;
        CONTINUE WHEN FOUND;
        -- What has a journal of its steps keeps it.
        UPDATE dupeproof_records AS d
        SET state = 'failed', attempt = CASE WHEN anew THEN 0 ELSE d.attempt - 1 END, finished_at = moment,
            expires_at = gone, purge_from = least(d.purge_from, gone), window_ms = coalesce(windows[place], windows[1]),
            took_over = false
        WHERE d.key = keys[place] AND d.token = tokens[place] AND d.expires_at > moment
          AND CASE WHEN anew THEN d.result <> ''
                        AND (d.state IN ('failed', 'dead') OR (d.state = 'running' AND d.lease_until <= moment))
                   ELSE d.state = 'running' END;
        CONTINUE WHEN FOUND;
        RETURN NEXT place;
    END LOOP;
END $$;

-- A taker takes a held or abandoned key, from who has the token given.
CREATE FUNCTION dupeproof_renew_v1(keys uuid[], tokens bytea[], leases bigint[], windows bigint[], takers bytea[], journals bytea[])
RETURNS SETOF integer
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    moment timestamptz;
    until timestamptz;
    gone timestamptz;
    taker bytea;
    journal bytea;
BEGIN
    FOR place IN 1 .. cardinality(keys) LOOP
        moment := clock_timestamp();
        taker := coalesce(takers[place], takers[1]);
        journal := coalesce(journals[place], journals[1]);
        until := moment + dupeproof_ms_v1(coalesce(leases[place], leases[1]));
        gone := until + dupeproof_ms_v1(coalesce(windows[place], windows[1]));
        UPDATE dupeproof_records AS d
        SET lease_until = until,
            expires_at = CASE WHEN d.hold THEN 'infinity' ELSE gone END,
            purge_from = CASE WHEN d.hold THEN d.purge_from ELSE least(d.purge_from, gone) END,
            window_ms = coalesce(windows[place], windows[1]),
            token = CASE WHEN taker = '' THEN d.token ELSE taker END,
            result = CASE WHEN journal = '' THEN d.result ELSE journal END
        WHERE d.key = keys[place] AND d.state = 'running' AND d.expires_at > moment
          AND CASE WHEN taker = '' THEN d.token = tokens[place]
                   WHEN d.lease_until > moment THEN d.token = taker
                   ELSE d.token = tokens[place] END;
        IF NOT FOUND THEN
            RETURN NEXT place;
        END IF;
    END LOOP;
END $$;

-- One mark. True where it was new. A known one is only read.
CREATE FUNCTION dupeproof_mark_v1(wanted uuid, span bigint, owner bytea, data bytea) RETURNS boolean
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    moment CONSTANT timestamptz := clock_timestamp();
BEGIN
    PERFORM FROM dupeproof_marks AS k WHERE k.key = wanted AND k.expires_at > moment;
    IF FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO dupeproof_marks AS d (key, expires_at, token, meta)
    VALUES (wanted, moment + dupeproof_ms_v1(span), nullif(owner, ''), nullif(data, ''))
    ON CONFLICT (key) DO UPDATE
    SET expires_at = excluded.expires_at, token = excluded.token, meta = excluded.meta
    WHERE d.expires_at <= moment;
    RETURN FOUND;
END $$;

-- Many marks. Answers with the keys that were new, of a batch in which each key stands once.
CREATE FUNCTION dupeproof_mark_v1(keys uuid[], windows bigint[], tokens bytea[], metas bytea[]) RETURNS uuid[]
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    moment CONSTANT timestamptz := clock_timestamp();
    fresh uuid[];
BEGIN
    WITH made AS (
        INSERT INTO dupeproof_marks AS d (key, expires_at, token, meta)
        SELECT a.key, moment + dupeproof_ms_v1(coalesce(a.span, windows[1])),
               nullif(coalesce(a.token, tokens[1]), ''), nullif(coalesce(a.meta, metas[1]), '')
        FROM unnest(keys, windows, tokens, metas) AS a (key, span, token, meta)
        WHERE (SELECT k.expires_at FROM dupeproof_marks AS k WHERE k.key = a.key) > moment IS NOT TRUE
        ON CONFLICT (key) DO UPDATE
        SET expires_at = excluded.expires_at, token = excluded.token, meta = excluded.meta
        WHERE d.expires_at <= moment
        RETURNING d.key
    )
    SELECT array_agg(made.key) INTO fresh FROM made;
    RETURN fresh;
END $$;
