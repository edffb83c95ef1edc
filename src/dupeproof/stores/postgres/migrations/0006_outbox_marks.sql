-- A relay reads each lane from a mark on, and looks up the newest row of a lane by its turn. While some transaction is
-- open, anywhere in the database, rows that were deleted or updated since it began cannot be removed; whoever reads a lane
-- from its beginning walks over all of them, every time.
--
-- Numbers are given out before a transaction commits, so a smaller one may become visible after a larger one was sent.
-- That is what `pending` is for. When the mark of a lane is moved, all transactions that are under way are written beside
-- it, each with the mark as it was before: none of their messages is below that. Once one of them has ended, the lane is
-- read from that older mark on, once. Transactions that begin later can only have larger numbers, because
--   * the mark is never above a number that was seen before our own transaction got its id, and
--   * whoever adds messages gets the id of its transaction before the first number: the trigger below sees to it.
-- With the times of delayed messages it is the same: one whose time is past when it is added is not kept among them.

-- Each change of a lane is the next turn of it: the newest row is the last entry of its index, and the dead ones before it
-- are not met.
ALTER TABLE dupeproof_outbox_lanes
    DROP CONSTRAINT dupeproof_outbox_lanes_pkey,
    ADD COLUMN turn          bigint        NOT NULL DEFAULT 0,
    ADD COLUMN low           bigint        NOT NULL DEFAULT 0,            -- no message that can be sent has a smaller number
    ADD COLUMN later         timestamptz   NOT NULL DEFAULT '-infinity',  -- nor, of those with a delay, an earlier time
    ADD COLUMN passed        bigint,                                      -- the first of those below that wait for their key
    ADD COLUMN looked_at     timestamptz   NOT NULL DEFAULT '-infinity',
    ADD COLUMN pending       xid8[]        NOT NULL DEFAULT '{}',
    ADD COLUMN pending_low   bigint[]      NOT NULL DEFAULT '{}',
    ADD COLUMN pending_later timestamptz[] NOT NULL DEFAULT '{}',
    ADD PRIMARY KEY (lane, turn),
    SET (fillfactor = 100);

-- What a relay has in its hands, written before the first of it is published. It is the count of an attempt that may kill
-- the relay: whoever finds it when the lease is over knows what was tried. Those messages are then in
-- dupeproof_outbox_failing with a retry_at of -infinity, and are tried alone, one after the other, to find the culprit.
CREATE TABLE dupeproof_outbox_hands (
    token    bytea       NOT NULL PRIMARY KEY,
    seqs     bigint[]    NOT NULL,
    taken_at timestamptz NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

CREATE INDEX dupeproof_outbox_failing_lane ON dupeproof_outbox_failing (lane, retry_at);

CREATE FUNCTION dupeproof_outbox_begin_v1() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_current_xact_id();
    RETURN NULL;
END $$;

CREATE TRIGGER dupeproof_outbox_begin BEFORE INSERT ON dupeproof_outbox
FOR EACH STATEMENT EXECUTE FUNCTION dupeproof_outbox_begin_v1();

CREATE FUNCTION dupeproof_outbox_newest_v1(wanted smallint[])
RETURNS SETOF dupeproof_outbox_lanes LANGUAGE sql STABLE AS $$
    SELECT l.* FROM unnest(wanted) AS w (lane) CROSS JOIN LATERAL (
        SELECT * FROM dupeproof_outbox_lanes AS v WHERE v.lane = w.lane ORDER BY v.turn DESC LIMIT 1
    ) AS l
$$;

-- Keep the lanes from everybody else until the end of the transaction. A statement after this one sees them as they are.
CREATE FUNCTION dupeproof_outbox_lock_v1(wanted smallint[]) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    locked integer;
    there  integer;
BEGIN
    LOOP  -- a lane whose turn has changed while we waited for it is not locked
        SELECT count(*) INTO there FROM dupeproof_outbox_newest_v1(wanted);
        SELECT count(*) INTO locked FROM (
            SELECT FROM dupeproof_outbox_newest_v1(wanted) AS n
            JOIN dupeproof_outbox_lanes AS l ON l.lane = n.lane AND l.turn = n.turn
            ORDER BY l.lane FOR UPDATE OF l
        ) AS mine;
        EXIT WHEN locked = there;
    END LOOP;
END $$;

-- Of each lane from where it is to be read, whether the wait of one of its keys has ended since it was read last, and the
-- first number and the first time of what may be published now.
CREATE FUNCTION dupeproof_outbox_look_v1(wanted smallint[], moment timestamptz)
RETURNS TABLE (
    lane smallint, turn bigint, token bytea, lease_until timestamptz, ended boolean, low bigint, later timestamptz,
    first_seq bigint, first_time timestamptz
) LANGUAGE sql STABLE AS $$
    SELECT l.lane, l.turn, l.token, l.lease_until, w.ended, b.low, b.later,
           (SELECT o.seq FROM dupeproof_outbox AS o
            WHERE o.lane = l.lane AND o.seq >= b.low
              AND (o.aggregateid IS NULL OR o.aggregateid NOT IN (
                  SELECT key FROM dupeproof_outbox_failing WHERE retry_at > moment AND key IS NOT NULL))
              AND o.seq NOT IN (SELECT seq FROM dupeproof_outbox_failing WHERE retry_at > moment)
            ORDER BY o.seq LIMIT 1),
           (SELECT o.not_before FROM dupeproof_outbox AS o
            WHERE o.lane = -1 - l.lane AND o.lane < 0 AND o.not_before >= b.later AND o.not_before <= moment
              AND (o.aggregateid IS NULL OR o.aggregateid NOT IN (
                  SELECT key FROM dupeproof_outbox_failing WHERE retry_at > moment AND key IS NOT NULL))
              AND o.seq NOT IN (SELECT seq FROM dupeproof_outbox_failing WHERE retry_at > moment)
            ORDER BY o.not_before, o.seq LIMIT 1)
    FROM dupeproof_outbox_newest_v1(wanted) AS l
    CROSS JOIN LATERAL (
        SELECT EXISTS (SELECT FROM dupeproof_outbox_failing AS f
                       WHERE f.lane IN (l.lane, -1 - l.lane) AND f.retry_at > l.looked_at AND f.retry_at <= moment)
    ) AS w (ended)
    CROSS JOIN LATERAL (
        SELECT min(p.low) AS low, min(p.later) AS later
        FROM unnest(l.pending, l.pending_low, l.pending_later) AS p (xid, low, later)
        WHERE pg_visible_in_snapshot(p.xid, pg_current_snapshot())
    ) AS p
    CROSS JOIN LATERAL (
        SELECT least(l.low, p.low, CASE WHEN w.ended THEN l.passed END),
               CASE WHEN w.ended THEN '-infinity' ELSE least(l.later, p.later) END
    ) AS b (low, later)
$$;

-- What may be published now, of the lane given and of those in it that have waited for their time, first come first.
CREATE FUNCTION dupeproof_outbox_due_v2(
    wanted smallint, low bigint, later timestamptz, moment timestamptz, most integer
) RETURNS SETOF dupeproof_outbox LANGUAGE sql STABLE AS $$
    SELECT * FROM (
        (SELECT * FROM dupeproof_outbox
         WHERE lane = -1 - wanted AND lane < 0 AND not_before >= later AND not_before <= moment
           AND (aggregateid IS NULL OR aggregateid NOT IN (
               SELECT key FROM dupeproof_outbox_failing WHERE retry_at > moment AND key IS NOT NULL))
           AND seq NOT IN (SELECT seq FROM dupeproof_outbox_failing WHERE retry_at > moment)
         ORDER BY not_before, seq LIMIT most)
        UNION ALL
        (SELECT * FROM dupeproof_outbox
         WHERE lane = wanted AND seq >= low
           AND (aggregateid IS NULL OR aggregateid NOT IN (
               SELECT key FROM dupeproof_outbox_failing WHERE retry_at > moment AND key IS NOT NULL))
           AND seq NOT IN (SELECT seq FROM dupeproof_outbox_failing WHERE retry_at > moment)
         ORDER BY seq LIMIT most)
    ) AS due LIMIT most
$$;

-- Lanes in which something is due and nobody is at work, and their messages: at most so many, of at most so many lanes. A
-- lane with messages that a relay may have died of comes alone, with one of them. Asking again with the same token is fine.
CREATE FUNCTION dupeproof_outbox_take_v2(owner bytea, lease bigint, most_lanes integer, most integer)
RETURNS TABLE (
    lane smallint, seq bigint, id text, topic text, key text, type text, payload bytea, headers text,
    age double precision, attempts integer
) LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    most_pending constant integer := 1000;
    every_lane   constant smallint[] := ARRAY(SELECT generate_series(0, 63)::smallint);
    moment timestamptz := clock_timestamp();
    each   record;
    alone  boolean := false;
    lanes  smallint[] := '{}';
    turns  bigint[] := '{}';
    seqs   bigint[] := '{}';
    times  timestamptz[] := '{}';
    mine   smallint[];
    former bytea[];
    ours   xid8;
BEGIN
    FOR attempt IN 1 .. 2 LOOP
        FOR each IN
            SELECT l.*, coalesce(l.token <> owner, false) OR EXISTS (
                       SELECT FROM dupeproof_outbox_failing AS f
                       WHERE f.lane IN (l.lane, -1 - l.lane) AND f.retry_at = '-infinity') AS suspect
            FROM dupeproof_outbox_look_v1(every_lane, moment) AS l
            WHERE (l.lease_until <= moment OR l.token = owner) AND (l.first_seq IS NOT NULL OR l.first_time IS NOT NULL)
            ORDER BY l.lease_until, l.lane
        LOOP
            CONTINUE WHEN each.suspect AND cardinality(lanes) > 0;
            lanes := lanes || each.lane;
            turns := turns || each.turn;
            seqs := seqs || each.first_seq;
            times := times || each.first_time;
            alone := each.suspect;
            EXIT WHEN alone OR cardinality(lanes) >= least(most_lanes, most);
        END LOOP;
        EXIT WHEN cardinality(lanes) > 0 OR EXISTS (SELECT FROM dupeproof_outbox_newest_v1('{0}'));
        -- Here and not when the table is made: whoever empties all tables between two tests must not stop all relays.
        LOCK TABLE dupeproof_outbox_lanes IN SHARE ROW EXCLUSIVE MODE;
        INSERT INTO dupeproof_outbox_lanes (lane) SELECT n FROM unnest(every_lane) AS n
        WHERE NOT EXISTS (SELECT FROM dupeproof_outbox_lanes AS l WHERE l.lane = n);
    END LOOP;
    IF cardinality(lanes) = 0 THEN
        RETURN;
    END IF;
    ours := pg_current_xact_id();  -- after the numbers in seqs were seen
    SELECT array_agg(l.lane), array_agg(l.token) INTO mine, former FROM (
        SELECT l.lane, l.token FROM unnest(lanes, turns) AS c (lane, turn)
        JOIN dupeproof_outbox_lanes AS l ON l.lane = c.lane AND l.turn = c.turn
        WHERE l.lease_until <= moment OR l.token = owner
        FOR UPDATE OF l SKIP LOCKED
    ) AS l;
    IF mine IS NULL THEN
        RETURN;
    END IF;
    IF alone THEN
        most := 1;
        INSERT INTO dupeproof_outbox_failing AS f (lane, seq, key, attempts, retry_at, error)
        SELECT o.lane, o.seq, o.aggregateid, CASE WHEN cardinality(h.seqs) = 1 THEN 1 ELSE 0 END, '-infinity',
               'a relay ended, or was too slow, with this message in its hands'
        FROM dupeproof_outbox_hands AS h CROSS JOIN LATERAL unnest(h.seqs) AS s (seq)
        JOIN dupeproof_outbox AS o ON o.lane IN (mine[1], -1 - mine[1]) AND o.seq = s.seq
        WHERE h.token = former[1] AND h.token <> owner
        ON CONFLICT (lane, seq) DO UPDATE
        SET attempts = f.attempts + excluded.attempts, retry_at = excluded.retry_at, error = excluded.error;
    END IF;
    -- A new statement, and so a new view: all that happened in these lanes before they were locked is seen.
    RETURN QUERY
        WITH looked AS MATERIALIZED (
            SELECT * FROM dupeproof_outbox_look_v1(mine, moment)
        ), due AS MATERIALIZED (
            SELECT d.* FROM looked AS l CROSS JOIN LATERAL
            dupeproof_outbox_due_v2(l.lane, l.low, l.later, moment, greatest(1, most / cardinality(mine))) AS d
        ), hand AS (
            INSERT INTO dupeproof_outbox_hands (token, seqs, taken_at)
            SELECT owner, array_agg(d.seq), moment FROM due AS d HAVING count(*) > 0
            ON CONFLICT (token) DO UPDATE SET seqs = excluded.seqs
        ), open AS MATERIALIZED (
            SELECT coalesce(array_agg(x.xid), '{}') AS xids FROM (
                SELECT xid FROM pg_snapshot_xip(pg_current_snapshot()) AS xid WHERE xid < ours
                UNION SELECT n::text::xid8 FROM generate_series(
                    pg_snapshot_xmax(pg_current_snapshot())::text::bigint, ours::text::bigint - 1) AS n
                LIMIT most_pending + 1
            ) AS x
        ), marked AS (
            SELECT v.lane, v.turn, m.low, least(v.first_time, coalesce(c.first_time, l.later)) AS later,
                   least(CASE WHEN NOT v.ended THEN l.passed END, CASE WHEN p.first < m.low THEN p.first END) AS passed,
                   o.xids, o.lows, o.laters
            FROM looked AS v
            JOIN dupeproof_outbox_lanes AS l ON l.lane = v.lane AND l.turn = v.turn
            JOIN unnest(lanes, seqs, times) AS c (lane, first_seq, first_time) ON c.lane = v.lane
            CROSS JOIN LATERAL (SELECT least(v.first_seq, coalesce(c.first_seq, l.low)) AS low) AS m
            CROSS JOIN LATERAL (
                SELECT (SELECT o.seq FROM dupeproof_outbox AS o WHERE o.lane = v.lane AND o.seq >= v.low
                        ORDER BY o.seq LIMIT 1) AS first
            ) AS p
            CROSS JOIN LATERAL (
                SELECT coalesce(array_agg(x.xid), '{}') AS xids, coalesce(array_agg(coalesce(k.low, l.low)), '{}') AS lows,
                       coalesce(array_agg(coalesce(k.later, l.later)), '{}') AS laters
                FROM open CROSS JOIN LATERAL unnest(open.xids) AS x (xid)
                LEFT JOIN unnest(l.pending, l.pending_low, l.pending_later) AS k (xid, low, later) ON k.xid = x.xid
            ) AS o
            WHERE cardinality(o.xids) <= most_pending
        ), leased AS (
            UPDATE dupeproof_outbox_lanes AS l
            SET turn = l.turn + 1,
                token = CASE WHEN g.got THEN owner END,
                lease_until = clock_timestamp() + CASE WHEN g.got THEN dupeproof_ms_v1(lease) ELSE interval '0' END,
                taken_over = l.taken_over + CASE WHEN l.token <> owner THEN 1 ELSE 0 END,
                looked_at = CASE WHEN m.lane IS NULL THEN l.looked_at ELSE moment END,
                low = coalesce(m.low, l.low), later = coalesce(m.later, l.later),
                passed = CASE WHEN m.lane IS NULL THEN l.passed ELSE m.passed END,
                pending = coalesce(m.xids, l.pending), pending_low = coalesce(m.lows, l.pending_low),
                pending_later = coalesce(m.laters, l.pending_later)
            FROM looked AS v LEFT JOIN marked AS m ON m.lane = v.lane
            CROSS JOIN LATERAL (SELECT EXISTS (SELECT FROM due AS d WHERE d.lane IN (v.lane, -1 - v.lane)) AS got) AS g
            WHERE l.lane = v.lane AND l.turn = v.turn
        )
        SELECT d.lane, d.seq, d.id, d.aggregatetype, d.aggregateid, d.type, d.payload, d.headers,
               extract(epoch FROM moment - coalesce(d.not_before, d.created_at))::double precision,
               coalesce((SELECT f.attempts FROM dupeproof_outbox_failing AS f WHERE f.lane = d.lane AND f.seq = d.seq), 0)
        FROM due AS d;
END $$;

-- Write down what became of the messages of these lanes, and give back those that are still ours. The count is of messages
-- removed as sent. What was published is published, whoever owns the lane by now; all else is for the owner alone to say.
CREATE FUNCTION dupeproof_outbox_settle_v2(
    owner bytea, wanted smallint[], sent_lanes smallint[], sent_seqs bigint[], keep bigint, failed_lanes smallint[],
    failed_seqs bigint[], errors text[], delays bigint[], counts integer[], buried boolean[], key_waits boolean
) RETURNS integer
LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    owned   smallint[];
    freed   smallint[];
    removed integer;
BEGIN
    PERFORM dupeproof_outbox_lock_v1(wanted);
    SELECT coalesce(array_agg(l.lane), '{}') INTO owned FROM dupeproof_outbox_newest_v1(wanted) AS l WHERE l.token = owner;
    WITH gone AS (
        DELETE FROM dupeproof_outbox AS o USING unnest(sent_lanes, sent_seqs) AS s (lane, seq)
        WHERE o.lane = s.lane AND o.seq = s.seq RETURNING o.*
    ), kept AS (
        INSERT INTO dupeproof_outbox_sent
        SELECT clock_timestamp(), clock_timestamp() + dupeproof_ms_v1(keep), gone.* FROM gone WHERE keep > 0
    ) SELECT count(*) INTO removed FROM gone;
    -- One that was late may say so of a message that its successor has seen fail, or has buried, meanwhile.
    WITH gone AS (
        DELETE FROM dupeproof_outbox_failing AS f USING unnest(sent_lanes, sent_seqs) AS s (lane, seq)
        WHERE f.lane = s.lane AND f.seq = s.seq RETURNING f.lane, f.retry_at
    ) SELECT array_agg(greatest(gone.lane, -1 - gone.lane)) INTO freed FROM gone WHERE gone.retry_at > clock_timestamp();
    DELETE FROM dupeproof_outbox_dead AS d USING unnest(sent_lanes, sent_seqs) AS s (lane, seq)
    WHERE d.lane = s.lane AND d.seq = s.seq;
    IF cardinality(failed_seqs) > 0 THEN
        INSERT INTO dupeproof_outbox_failing AS f (lane, seq, key, attempts, retry_at, error)
        SELECT o.lane, o.seq, o.aggregateid, s.count, clock_timestamp() + dupeproof_ms_v1(s.delay), s.error
        FROM unnest(failed_lanes, failed_seqs, errors, delays, counts) AS s (lane, seq, error, delay, count)
        JOIN dupeproof_outbox AS o ON o.lane = s.lane AND o.seq = s.seq
        WHERE greatest(o.lane, -1 - o.lane) = ANY (owned)
        ON CONFLICT (lane, seq) DO UPDATE
        SET attempts = excluded.attempts, retry_at = excluded.retry_at, error = excluded.error;
        WITH gone AS (
            DELETE FROM dupeproof_outbox AS o
            USING unnest(failed_lanes, failed_seqs, buried) AS s (lane, seq, dead)
            WHERE s.dead AND o.lane = s.lane AND o.seq = s.seq AND greatest(o.lane, -1 - o.lane) = ANY (owned)
            RETURNING o.*
        ) INSERT INTO dupeproof_outbox_dead
        SELECT clock_timestamp(), f.attempts, f.error, gone.*
        FROM gone JOIN dupeproof_outbox_failing AS f ON f.lane = gone.lane AND f.seq = gone.seq;
        UPDATE dupeproof_outbox_failing AS f SET retry_at = 'infinity'
        FROM unnest(failed_lanes, failed_seqs, buried) AS s (lane, seq, dead)
        WHERE s.dead AND key_waits AND f.key IS NOT NULL AND f.lane = s.lane AND f.seq = s.seq
          AND greatest(f.lane, -1 - f.lane) = ANY (owned);
        DELETE FROM dupeproof_outbox_failing AS f
        USING unnest(failed_lanes, failed_seqs, buried) AS s (lane, seq, dead)
        WHERE s.dead AND NOT (key_waits AND f.key IS NOT NULL) AND f.lane = s.lane AND f.seq = s.seq
          AND greatest(f.lane, -1 - f.lane) = ANY (owned);
    END IF;
    UPDATE dupeproof_outbox_lanes AS l
    SET turn = l.turn + 1,
        sent = l.sent + n.sent,
        lease_until = CASE WHEN l.token = owner THEN clock_timestamp() ELSE l.lease_until END,
        token = CASE WHEN l.token = owner THEN NULL ELSE l.token END,
        low = CASE WHEN l.lane = ANY (freed) THEN 0 ELSE l.low END,
        later = CASE WHEN l.lane = ANY (freed) THEN '-infinity' ELSE l.later END
    FROM (
        SELECT v.lane, v.turn, (SELECT count(*) FROM unnest(sent_lanes) AS s (lane) WHERE s.lane IN (v.lane, -1 - v.lane)) AS sent
        FROM dupeproof_outbox_newest_v1(wanted) AS v
    ) AS n WHERE l.lane = n.lane AND l.turn = n.turn;
    DELETE FROM dupeproof_outbox_hands WHERE token = owner;
    RETURN removed;
END $$;

-- Out of the dead: back to where they stood, ahead of all that waited for them, or away. All of them for NULL.
CREATE FUNCTION dupeproof_outbox_revive_v1(ids text[], back boolean) RETURNS SETOF text
LANGUAGE plpgsql SET jit = off AS $$
DECLARE
    lanes smallint[];
BEGIN
    SELECT array_agg(DISTINCT greatest(d.lane, -1 - d.lane)) INTO lanes
    FROM dupeproof_outbox_dead AS d WHERE ids IS NULL OR d.id = ANY (ids);
    PERFORM dupeproof_outbox_lock_v1(lanes);
    RETURN QUERY
        WITH gone AS (
            DELETE FROM dupeproof_outbox_dead AS d
            WHERE (ids IS NULL OR d.id = ANY (ids)) AND greatest(d.lane, -1 - d.lane) = ANY (lanes) RETURNING d.*
        ), free AS (
            DELETE FROM dupeproof_outbox_failing AS f USING gone WHERE f.lane = gone.lane AND f.seq = gone.seq
        ), there AS (
            INSERT INTO dupeproof_outbox
            SELECT lane, seq, created_at, not_before, id, aggregatetype, aggregateid, type, payload, headers FROM gone WHERE back
        ), read_anew AS (
            UPDATE dupeproof_outbox_lanes AS l SET turn = l.turn + 1, low = 0, later = '-infinity'
            FROM dupeproof_outbox_newest_v1(lanes) AS n WHERE l.lane = n.lane AND l.turn = n.turn
        )
        SELECT gone.id FROM gone;
END $$;

-- Should anything stand before the mark of its lane that could be sent, as after numbers that began anew or a clock that was
-- set back, read that lane from its beginning. This one walks over all that is dead. How many lanes there were.
CREATE FUNCTION dupeproof_outbox_tidy_v1() RETURNS integer
LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    moment timestamptz := clock_timestamp();
    wrong  smallint[];
BEGIN
    SELECT array_agg(l.lane) INTO wrong
    FROM dupeproof_outbox_newest_v1(ARRAY(SELECT generate_series(0, 63)::smallint)) AS l
    WHERE EXISTS (SELECT FROM dupeproof_outbox_due_v2(l.lane, 0, '-infinity', moment, 1) AS d
                  WHERE CASE WHEN d.lane < 0 THEN d.not_before < l.later ELSE d.seq < l.low END)
       OR (SELECT min(d.seq) FROM dupeproof_outbox_due_v2(l.lane, 0, 'infinity', moment, 1) AS d) < l.low;
    IF wrong IS NOT NULL THEN
        PERFORM dupeproof_outbox_lock_v1(wrong);
        UPDATE dupeproof_outbox_lanes AS l SET turn = l.turn + 1, low = 0, later = '-infinity'
        FROM dupeproof_outbox_newest_v1(wrong) AS n WHERE l.lane = n.lane AND l.turn = n.turn;
    END IF;
    DELETE FROM dupeproof_outbox_hands WHERE taken_at < moment - interval '7 days';
    RETURN coalesce(cardinality(wrong), 0);
END $$;
