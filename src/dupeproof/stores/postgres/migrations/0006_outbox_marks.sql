-- A relay reads each shard from a mark on, and looks up the newest row of a shard by its turn. While some transaction is
-- open, anywhere in the database, rows that were deleted or updated since it began cannot be removed; whoever reads a shard
-- from its beginning walks over all of them, every time.
--
-- Numbers are given out before a transaction commits, so a smaller one may become visible after a larger one was sent.
-- That is what `pending` is for. When the mark of a shard is moved, all transactions that are under way are written beside
-- it, each with the mark as it was before: none of their messages is below that. Once one of them has ended, the shard is
-- read from that older mark on, once. Transactions that begin later can only have larger numbers, because
--   * the mark is never above a number that was seen before our own transaction got its id, and
--   * whoever adds messages gets the id of its transaction before the first number: the trigger below sees to it.
-- With the times of delayed messages it is the same: one whose time is past when it is added is not kept among them.
--
-- What a relay has in its hands is written down with the lease, before the first of it is published. It is the count of an
-- attempt that may kill the relay: whoever finds it when the lease is over knows what was tried. If it was a single message,
-- that was an attempt. Otherwise nobody knows which one it was: they are put into dupeproof_outbox_failing with a retry_at of
-- -infinity, and tried alone, one after the other.

-- Each change of a shard is a move, and now and then the next turn of it: the newest row is the last entry of its index, and
-- the dead ones of former turns are not met. Most moves leave the index alone, so that they stay cheap.
ALTER TABLE dupeproof_outbox_shards
    DROP CONSTRAINT dupeproof_outbox_shards_pkey,
    ADD COLUMN turn          bigint        NOT NULL DEFAULT 0,
    ADD COLUMN moves         bigint        NOT NULL DEFAULT 0,            -- sixteen to a turn
    ADD COLUMN low           bigint        NOT NULL DEFAULT 0,            -- no message that can be sent has a smaller number
    ADD COLUMN later         timestamptz   NOT NULL DEFAULT '-infinity',  -- nor, of those with a delay, an earlier time
    ADD COLUMN passed        bigint,                                      -- the first of those below that wait for their key
    ADD COLUMN looked_at     timestamptz   NOT NULL DEFAULT '-infinity',
    ADD COLUMN pending       xid8[]        NOT NULL DEFAULT '{}',
    ADD COLUMN pending_low   bigint[]      NOT NULL DEFAULT '{}',
    ADD COLUMN pending_later timestamptz[] NOT NULL DEFAULT '{}',
    ADD COLUMN hand          integer,                                     -- how many its relay has of it in its hands, at most
    ADD COLUMN hand_only     bigint,                                      -- if it has but one, of all its shards, the number of it
    ADD PRIMARY KEY (shard, turn),
    SET (fillfactor = 50);

CREATE INDEX dupeproof_outbox_failing_shard ON dupeproof_outbox_failing (shard, retry_at);

CREATE FUNCTION dupeproof_outbox_begin_v1() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_current_xact_id();
    RETURN NULL;
END $$;

CREATE TRIGGER dupeproof_outbox_begin BEFORE INSERT ON dupeproof_outbox
FOR EACH STATEMENT EXECUTE FUNCTION dupeproof_outbox_begin_v1();

CREATE FUNCTION dupeproof_outbox_newest_v1(wanted smallint[])
RETURNS SETOF dupeproof_outbox_shards LANGUAGE sql STABLE AS $$
    SELECT l.* FROM unnest(wanted) AS w (shard) CROSS JOIN LATERAL (
        SELECT * FROM dupeproof_outbox_shards AS v WHERE v.shard = w.shard ORDER BY v.turn DESC LIMIT 1
    ) AS l
$$;

-- Keep the shards from everybody else until the end of the transaction; as they are now, in their order.
CREATE FUNCTION dupeproof_outbox_lock_v1(
    wanted smallint[], OUT shards smallint[], OUT moves bigint[], OUT tokens bytea[]
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    LOOP  -- a shard whose turn has changed while we waited for it is not among them
        SELECT array_agg(m.shard), array_agg(m.moves), array_agg(m.token) INTO shards, moves, tokens FROM (
            SELECT l.shard, l.moves, l.token FROM dupeproof_outbox_newest_v1(wanted) AS n
            JOIN dupeproof_outbox_shards AS l ON l.shard = n.shard AND l.turn = n.moves / 16 AND l.moves = n.moves
            ORDER BY l.shard FOR UPDATE OF l
        ) AS m;
        EXIT WHEN cardinality(shards) = cardinality(wanted);
        EXIT WHEN coalesce(cardinality(shards), 0) = (SELECT count(*) FROM dupeproof_outbox_newest_v1(wanted));
    END LOOP;
END $$;

-- Of each shard whether the wait of one of its keys has ended since it was read last, and the first number and the first
-- time of what may be published now. It is read from its mark on, or from an older one beside which a transaction has ended
-- since; from the first of those that were passed over, if it is that they waited for. `waits` is whether any key ever did,
-- and `delays` whether there ever was a delayed message.
CREATE FUNCTION dupeproof_outbox_look_v1(wanted smallint[], moment timestamptz, waits boolean, delays boolean)
RETURNS TABLE (
    shard smallint, moves bigint, token bytea, lease_until timestamptz, ended boolean, low bigint, later timestamptz,
    first_seq bigint, first_time timestamptz
) LANGUAGE sql STABLE AS $$
    SELECT l.shard, l.moves, l.token, l.lease_until, w.ended, b.low, b.later,
           (SELECT o.seq FROM dupeproof_outbox AS o
            WHERE o.shard = l.shard AND o.seq >= b.low
              AND (o.aggregateid IS NULL OR o.aggregateid NOT IN (
                  SELECT key FROM dupeproof_outbox_failing WHERE retry_at > moment AND key IS NOT NULL))
              AND o.seq NOT IN (SELECT seq FROM dupeproof_outbox_failing WHERE retry_at > moment)
            ORDER BY o.seq LIMIT 1),
           (SELECT o.not_before FROM dupeproof_outbox AS o
            WHERE delays AND o.shard = -1 - l.shard AND o.shard < 0 AND o.not_before >= b.later AND o.not_before <= moment
              AND (o.aggregateid IS NULL OR o.aggregateid NOT IN (
                  SELECT key FROM dupeproof_outbox_failing WHERE retry_at > moment AND key IS NOT NULL))
              AND o.seq NOT IN (SELECT seq FROM dupeproof_outbox_failing WHERE retry_at > moment)
            ORDER BY o.not_before, o.seq LIMIT 1)
    FROM dupeproof_outbox_newest_v1(wanted) AS l
    CROSS JOIN LATERAL (
        SELECT waits AND EXISTS (
            SELECT FROM dupeproof_outbox_failing AS f
            WHERE f.shard IN (l.shard, -1 - l.shard) AND f.retry_at > l.looked_at AND f.retry_at <= moment)
        OFFSET 0
    ) AS w (ended)
    CROSS JOIN LATERAL (
        SELECT least(CASE WHEN w.ended THEN l.passed END, CASE WHEN l.pending = '{}' THEN l.low ELSE least(l.low, (
                   SELECT min(p.mark) FROM unnest(l.pending, l.pending_low) AS p (xid, mark)
                   WHERE pg_visible_in_snapshot(p.xid, pg_current_snapshot()))) END) AS low,
               CASE WHEN w.ended THEN '-infinity' WHEN l.pending = '{}' THEN l.later ELSE least(l.later, (
                   SELECT min(p.mark) FROM unnest(l.pending, l.pending_later) AS p (xid, mark)
                   WHERE pg_visible_in_snapshot(p.xid, pg_current_snapshot()))) END AS later
        OFFSET 0
    ) AS b
$$;

-- What may be published now, of the shard given and of those in it that have waited for their time, first come first.
CREATE FUNCTION dupeproof_outbox_due_v2(
    wanted smallint, low bigint, later timestamptz, moment timestamptz, most integer
) RETURNS SETOF dupeproof_outbox LANGUAGE sql STABLE AS $$
    SELECT * FROM (
        (SELECT * FROM dupeproof_outbox
         WHERE shard = -1 - wanted AND shard < 0 AND not_before >= later AND not_before <= moment
           AND (aggregateid IS NULL OR aggregateid NOT IN (
               SELECT key FROM dupeproof_outbox_failing WHERE retry_at > moment AND key IS NOT NULL))
           AND seq NOT IN (SELECT seq FROM dupeproof_outbox_failing WHERE retry_at > moment)
         ORDER BY not_before, seq LIMIT most)
        UNION ALL
        (SELECT * FROM dupeproof_outbox
         WHERE shard = wanted AND seq >= low
           AND (aggregateid IS NULL OR aggregateid NOT IN (
               SELECT key FROM dupeproof_outbox_failing WHERE retry_at > moment AND key IS NOT NULL))
           AND seq NOT IN (SELECT seq FROM dupeproof_outbox_failing WHERE retry_at > moment)
         ORDER BY seq LIMIT most)
    ) AS due LIMIT most
$$;

-- Shards in which something is due and nobody is at work, and their messages: at most so many, of at most so many shards. A
-- shard with messages that a relay may have died of comes alone, with one of them. Asking again with the same token is fine.
CREATE FUNCTION dupeproof_outbox_take_v2(owner bytea, lease bigint, most_shards integer, most integer)
RETURNS TABLE (
    shard smallint, seq bigint, id text, topic text, key text, type text, payload bytea, headers text,
    age double precision, attempts integer
) LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan
  SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    every_shard   constant smallint[] := '{0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40,41,42,43,44,45,46,47,48,49,50,51,52,53,54,55,56,57,58,59,60,61,62,63}';
    most_pending constant integer := 1000;
    moment   timestamptz := clock_timestamp();
    waits    boolean := pg_relation_size('dupeproof_outbox_failing') > 0;
    delays   boolean := pg_relation_size('dupeproof_outbox_later') > current_setting('block_size')::bigint;
    suspects smallint[] := '{}';
    shards    smallint[];
    steps    bigint[];
    endings  boolean[];
    lows     bigint[];
    laters   timestamptz[];
    seqs     bigint[];
    times    timestamptz[];
    alone    boolean[];
    taking   integer[];
    mine     smallint[];
    former   bytea[];
    ours     xid8;
    open     xid8[];
    room     integer;
BEGIN
    IF waits THEN
        suspects := ARRAY(SELECT greatest(f.shard, -1 - f.shard) FROM dupeproof_outbox_failing AS f WHERE f.retry_at = '-infinity');
    END IF;
    FOR attempt IN 1 .. 2 LOOP
        SELECT array_agg(l.shard), array_agg(l.moves), array_agg(l.ended), array_agg(l.low), array_agg(l.later),
               array_agg(l.first_seq), array_agg(l.first_time),
               array_agg(coalesce(l.token <> owner, false) OR l.shard = ANY (suspects))
        INTO shards, steps, endings, lows, laters, seqs, times, alone FROM (
            SELECT * FROM (SELECT * FROM dupeproof_outbox_look_v1(every_shard, moment, waits, delays) OFFSET 0) AS l
            WHERE (l.lease_until <= moment OR l.token = owner) AND (l.first_seq IS NOT NULL OR l.first_time IS NOT NULL)
            ORDER BY l.lease_until, l.shard
        ) AS l;
        EXIT WHEN shards IS NOT NULL OR EXISTS (SELECT FROM dupeproof_outbox_newest_v1('{0}'));
        -- Here and not when the table is made: whoever empties all tables between two tests must not stop all relays.
        LOCK TABLE dupeproof_outbox_shards IN SHARE ROW EXCLUSIVE MODE;
        INSERT INTO dupeproof_outbox_shards (shard) SELECT n FROM unnest(every_shard) AS n
        WHERE NOT EXISTS (SELECT FROM dupeproof_outbox_shards AS l WHERE l.shard = n);
    END LOOP;
    IF shards IS NULL THEN
        RETURN;
    END IF;
    -- Those that come first; among others, none that has to come alone.
    room := CASE WHEN alone[1] THEN 1 ELSE least(most_shards, most) END;
    taking := ARRAY(SELECT n FROM generate_subscripts(shards, 1) AS n WHERE n = 1 OR NOT alone[n] LIMIT room);
    ours := pg_current_xact_id();  -- after the numbers in seqs were seen
    -- Open are transactions with ids before ours that are not over. They are asked for before the messages are read: one that
    -- ends meanwhile is taken for open, which costs another look and nothing else.
    SELECT array_agg(l.shard), array_agg(l.token), ARRAY(
        SELECT xid FROM pg_snapshot_xip(pg_current_snapshot()) AS xid WHERE xid < ours
        UNION ALL SELECT n::text::xid8 FROM generate_series(
            pg_snapshot_xmax(pg_current_snapshot())::text::bigint, ours::text::bigint - 1) AS n
        LIMIT most_pending + 1
    ) INTO mine, former, open FROM (
        SELECT l.shard, l.token FROM unnest(taking) AS n
        JOIN dupeproof_outbox_shards AS l ON l.shard = shards[n] AND l.turn = steps[n] / 16 AND l.moves = steps[n]
        WHERE l.lease_until <= moment OR l.token = owner
        FOR UPDATE OF l SKIP LOCKED
    ) AS l;
    IF mine IS NULL THEN
        RETURN;
    END IF;
    IF cardinality(open) > most_pending THEN
        open := NULL;  -- then the marks stay where they are
    END IF;
    room := CASE WHEN alone[1] THEN 1 ELSE most / cardinality(mine) END;
    IF alone[1] AND former[1] <> owner THEN
        INSERT INTO dupeproof_outbox_failing AS f (shard, seq, key, attempts, retry_at, error)
        SELECT o.shard, o.seq, o.aggregateid, CASE WHEN l.hand_only IS NULL THEN 0 ELSE 1 END, '-infinity',
               'a relay ended, or was too slow, with this message in its hands'
        FROM dupeproof_outbox_shards AS l
        CROSS JOIN LATERAL (
            SELECT * FROM dupeproof_outbox_due_v2(l.shard, l.low, l.later, l.looked_at, l.hand)
        ) AS o
        WHERE l.shard = shards[1] AND l.turn = steps[1] / 16 AND o.seq = coalesce(l.hand_only, o.seq)
        ON CONFLICT (shard, seq) DO UPDATE
        SET attempts = f.attempts + excluded.attempts, retry_at = excluded.retry_at, error = excluded.error
        WHERE f.retry_at <= moment;
    END IF;
    -- A new statement, and so a new view: all that happened in these shards before they were locked is seen.
    RETURN QUERY
        WITH looked AS MATERIALIZED (
            SELECT l.*, n, endings[n] AS ended, b.low AS from_low, b.later AS from_later
            FROM unnest(taking) AS n
            JOIN dupeproof_outbox_shards AS l ON l.shard = shards[n] AND l.turn = steps[n] / 16 AND l.moves = steps[n]
            CROSS JOIN LATERAL (
                SELECT least(CASE WHEN endings[n] THEN l.passed END, CASE WHEN l.pending = '{}' THEN l.low ELSE least(l.low, (
                           SELECT min(p.mark) FROM unnest(l.pending, l.pending_low) AS p (xid, mark)
                           WHERE pg_visible_in_snapshot(p.xid, pg_current_snapshot()))) END) AS low,
                       CASE WHEN endings[n] THEN '-infinity' WHEN l.pending = '{}' THEN l.later ELSE least(l.later, (
                           SELECT min(p.mark) FROM unnest(l.pending, l.pending_later) AS p (xid, mark)
                           WHERE pg_visible_in_snapshot(p.xid, pg_current_snapshot()))) END AS later
                OFFSET 0
            ) AS b
            WHERE shards[n] = ANY (mine)
        ), due AS MATERIALIZED (
            SELECT d.* FROM looked AS l
            CROSS JOIN LATERAL dupeproof_outbox_due_v2(l.shard, l.from_low, l.from_later, moment, room) AS d
        ), leased AS (
            UPDATE dupeproof_outbox_shards AS l
            SET moves = l.moves + 1, turn = (l.moves + 1) / 16,
                token = owner, lease_until = clock_timestamp() + dupeproof_ms_v1(lease),
                taken_over = l.taken_over + CASE WHEN l.token <> owner THEN 1 ELSE 0 END,
                hand = room,
                hand_only = CASE WHEN (SELECT count(*) FROM (SELECT FROM due LIMIT 2) AS d) = 1 THEN (SELECT d.seq FROM due AS d) END,
                looked_at = moment, low = m.new_low, later = m.new_later,
                passed = CASE WHEN NOT waits THEN l.passed ELSE least(CASE WHEN NOT m.ended THEN l.passed END, (
                    SELECT o.seq FROM dupeproof_outbox AS o
                    WHERE o.shard = m.shard AND o.seq >= m.from_low AND o.seq < m.new_low ORDER BY o.seq LIMIT 1)) END,
                pending = coalesce(open, l.pending),
                pending_low = CASE WHEN open IS NULL THEN l.pending_low WHEN open = '{}' THEN '{}' ELSE ARRAY(
                    SELECT coalesce(l.pending_low[array_position(l.pending, x)], l.low) FROM unnest(open) AS x) END,
                pending_later = CASE WHEN open IS NULL THEN l.pending_later WHEN open = '{}' THEN '{}' ELSE ARRAY(
                    SELECT coalesce(l.pending_later[array_position(l.pending, x)], l.later) FROM unnest(open) AS x) END
            FROM (
                -- Where another transaction has ended since the look, what comes first is not known.
                SELECT v.shard, v.turn, v.moves, v.ended, v.from_low,
                       CASE WHEN open IS NULL OR v.from_low < lows[v.n] THEN v.from_low ELSE coalesce(seqs[v.n], v.low) END AS new_low,
                       CASE WHEN open IS NULL OR v.from_later < laters[v.n] THEN v.from_later
                            ELSE coalesce(times[v.n], v.later) END AS new_later
                FROM looked AS v
            ) AS m
            WHERE l.shard = m.shard AND l.turn = m.turn AND l.moves = m.moves
        )
        SELECT d.shard, d.seq, d.id, d.aggregatetype, d.aggregateid, d.type, d.payload, d.headers,
               extract(epoch FROM moment - coalesce(d.not_before, d.created_at))::double precision,
               CASE WHEN waits OR alone[1] THEN coalesce(
                   (SELECT f.attempts FROM dupeproof_outbox_failing AS f WHERE f.shard = d.shard AND f.seq = d.seq), 0) ELSE 0 END
        FROM due AS d;
END $$;

-- Write down what became of the messages of these shards, so many sent of each, and give back those that are still ours. The count is of messages
-- removed as sent. What was published is published, whoever owns the shard by now; all else is for the owner alone to say.
CREATE FUNCTION dupeproof_outbox_settle_v2(
    owner bytea, wanted smallint[], numbers integer[], sent_shards smallint[], sent_seqs bigint[], keep bigint,
    failed_shards smallint[], failed_seqs bigint[], errors text[], delays bigint[], counts integer[], buried boolean[], key_waits boolean
) RETURNS integer
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan
  SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    given   smallint[] := wanted;
    moved   smallint[];
    ours    smallint[];
    owned   smallint[] := '{}';
    freed   smallint[];
    removed integer;
BEGIN
    LOOP  -- a shard that was changed while we waited for it is not among those moved
        WITH moved AS (
            UPDATE dupeproof_outbox_shards AS l
            SET moves = l.moves + 1, turn = (l.moves + 1) / 16, sent = l.sent + numbers[array_position(wanted, l.shard)],
                lease_until = CASE WHEN l.token = owner THEN clock_timestamp() ELSE l.lease_until END,
                token = CASE WHEN l.token = owner THEN NULL ELSE l.token END
            FROM dupeproof_outbox_newest_v1(given) AS n WHERE l.shard = n.shard AND l.turn = n.turn AND l.moves = n.moves
            RETURNING l.shard, n.token = owner AS is_ours
        ) SELECT array_agg(m.shard), array_agg(m.shard) FILTER (WHERE m.is_ours) INTO moved, ours FROM moved AS m;
        owned := owned || ours;
        EXIT WHEN cardinality(moved) = cardinality(given);
        given := ARRAY(SELECT unnest(given) EXCEPT SELECT unnest(moved) ORDER BY 1);
        EXIT WHEN NOT EXISTS (SELECT FROM dupeproof_outbox_newest_v1(given));
    END LOOP;
    -- Each looked up by its place, in whatever way the planner would join them: it takes the table for empty most of the time.
    WITH gone AS (
        DELETE FROM dupeproof_outbox AS o WHERE ctid = ANY (ARRAY(
            SELECT o.ctid FROM unnest(sent_shards, sent_seqs) AS s (shard, seq) CROSS JOIN LATERAL (
                SELECT ctid FROM dupeproof_outbox WHERE shard = s.shard AND seq = s.seq OFFSET 0) AS o))
        RETURNING o.*
    ), kept AS (
        INSERT INTO dupeproof_outbox_sent
        SELECT clock_timestamp(), clock_timestamp() + dupeproof_ms_v1(keep), gone.* FROM gone WHERE keep > 0
    ) SELECT count(*) INTO removed FROM gone;
    -- One that was late may say so of a message that its successor has seen fail, or has buried, meanwhile.
    IF pg_relation_size('dupeproof_outbox_failing') > 0 THEN
        WITH gone AS (
            DELETE FROM dupeproof_outbox_failing AS f WHERE ctid = ANY (ARRAY(
                SELECT o.ctid FROM unnest(sent_shards, sent_seqs) AS s (shard, seq) CROSS JOIN LATERAL (
                    SELECT ctid FROM dupeproof_outbox_failing WHERE shard = s.shard AND seq = s.seq OFFSET 0) AS o))
            RETURNING f.shard, f.retry_at
        ) SELECT array_agg(DISTINCT greatest(gone.shard, -1 - gone.shard)) INTO freed FROM gone WHERE gone.retry_at > clock_timestamp();
    END IF;
    IF pg_relation_size('dupeproof_outbox_dead') > 0 THEN
        DELETE FROM dupeproof_outbox_dead WHERE ctid = ANY (ARRAY(
            SELECT o.ctid FROM unnest(sent_shards, sent_seqs) AS s (shard, seq) CROSS JOIN LATERAL (
                SELECT ctid FROM dupeproof_outbox_dead WHERE shard = s.shard AND seq = s.seq OFFSET 0) AS o));
    END IF;
    IF cardinality(failed_seqs) > 0 THEN
        INSERT INTO dupeproof_outbox_failing AS f (shard, seq, key, attempts, retry_at, error)
        SELECT o.shard, o.seq, o.aggregateid, s.count, clock_timestamp() + dupeproof_ms_v1(s.delay), s.error
        FROM unnest(failed_shards, failed_seqs, errors, delays, counts) AS s (shard, seq, error, delay, count)
        JOIN dupeproof_outbox AS o ON o.shard = s.shard AND o.seq = s.seq
        WHERE greatest(o.shard, -1 - o.shard) = ANY (owned)
        ON CONFLICT (shard, seq) DO UPDATE
        SET attempts = excluded.attempts, retry_at = excluded.retry_at, error = excluded.error;
        WITH gone AS (
            DELETE FROM dupeproof_outbox AS o
            USING unnest(failed_shards, failed_seqs, buried) AS s (shard, seq, dead)
            WHERE s.dead AND o.shard = s.shard AND o.seq = s.seq AND greatest(o.shard, -1 - o.shard) = ANY (owned)
            RETURNING o.*
        ) INSERT INTO dupeproof_outbox_dead
        SELECT clock_timestamp(), f.attempts, f.error, gone.*
        FROM gone JOIN dupeproof_outbox_failing AS f ON f.shard = gone.shard AND f.seq = gone.seq;
        UPDATE dupeproof_outbox_failing AS f SET retry_at = 'infinity'
        FROM unnest(failed_shards, failed_seqs, buried) AS s (shard, seq, dead)
        WHERE s.dead AND key_waits AND f.key IS NOT NULL AND f.shard = s.shard AND f.seq = s.seq
          AND greatest(f.shard, -1 - f.shard) = ANY (owned);
        DELETE FROM dupeproof_outbox_failing AS f
        USING unnest(failed_shards, failed_seqs, buried) AS s (shard, seq, dead)
        WHERE s.dead AND NOT (key_waits AND f.key IS NOT NULL) AND f.shard = s.shard AND f.seq = s.seq
          AND greatest(f.shard, -1 - f.shard) = ANY (owned);
    END IF;
    IF freed IS NOT NULL THEN
        UPDATE dupeproof_outbox_shards AS l SET moves = l.moves + 1, turn = (l.moves + 1) / 16, low = 0, later = '-infinity'
        FROM dupeproof_outbox_newest_v1(freed) AS n WHERE l.shard = n.shard AND l.turn = n.turn AND l.moves = n.moves;
    END IF;
    RETURN removed;
END $$;

-- Out of the dead: back to where they stood, ahead of all that waited for them, or away. All of them for NULL.
CREATE FUNCTION dupeproof_outbox_revive_v1(ids text[], back boolean) RETURNS SETOF text
LANGUAGE plpgsql SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
    shards  smallint[];
    locked record;
BEGIN
    SELECT array_agg(DISTINCT greatest(d.shard, -1 - d.shard)) INTO shards
    FROM dupeproof_outbox_dead AS d WHERE ids IS NULL OR d.id = ANY (ids);
    SELECT * INTO locked FROM dupeproof_outbox_lock_v1(shards);
    RETURN QUERY
        WITH gone AS (
            DELETE FROM dupeproof_outbox_dead AS d
            WHERE (ids IS NULL OR d.id = ANY (ids)) AND greatest(d.shard, -1 - d.shard) = ANY (shards) RETURNING d.*
        ), free AS (
            DELETE FROM dupeproof_outbox_failing AS f USING gone WHERE f.shard = gone.shard AND f.seq = gone.seq
        ), there AS (
            INSERT INTO dupeproof_outbox
            SELECT shard, seq, created_at, not_before, id, aggregatetype, aggregateid, type, payload, headers FROM gone WHERE back
        ), read_anew AS (
            UPDATE dupeproof_outbox_shards AS l SET moves = l.moves + 1, turn = (l.moves + 1) / 16, low = 0, later = '-infinity'
            FROM unnest(locked.shards, locked.moves) AS n (shard, moves) WHERE l.shard = n.shard AND l.turn = n.moves / 16 AND l.moves = n.moves
        )
        SELECT gone.id FROM gone;
END $$;

-- Should anything stand before the mark of its shard that could be sent, as after numbers that began anew or a clock that was
-- set back, read that shard from its beginning. This one walks over all that is dead. How many shards there were.
CREATE FUNCTION dupeproof_outbox_tidy_v1() RETURNS integer
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan
  SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    moment timestamptz := clock_timestamp();
    wrong  smallint[];
    locked record;
BEGIN
    SELECT array_agg(l.shard) INTO wrong
    FROM dupeproof_outbox_newest_v1(ARRAY(SELECT generate_series(0, 63)::smallint)) AS l
    WHERE EXISTS (SELECT FROM dupeproof_outbox_due_v2(l.shard, 0, '-infinity', moment, 1) AS d
                  WHERE CASE WHEN d.shard < 0 THEN d.not_before < l.later ELSE d.seq < l.low END)
       OR (SELECT min(d.seq) FROM dupeproof_outbox_due_v2(l.shard, 0, 'infinity', moment, 1) AS d) < l.low;
    IF wrong IS NOT NULL THEN
        SELECT * INTO locked FROM dupeproof_outbox_lock_v1(wrong);
        UPDATE dupeproof_outbox_shards AS l SET moves = l.moves + 1, turn = (l.moves + 1) / 16, low = 0, later = '-infinity'
        FROM unnest(locked.shards, locked.moves) AS n (shard, moves) WHERE l.shard = n.shard AND l.turn = n.moves / 16 AND l.moves = n.moves;
    END IF;
    RETURN coalesce(cardinality(wrong), 0);
END $$;
