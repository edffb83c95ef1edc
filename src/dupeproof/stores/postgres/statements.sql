-- The statements the store sends: one per verb and batch, each a transaction of its own, so that a transaction
-- pooler may put any connection behind any of them. Those with $1 are on the hot path, see queries.py; for the
-- others, which go through the driver's cursor, digests travel as hex text, the form the uuid type reads.

-- The time, and how long a statement may take if this connection is the server's own. Behind a pooler it has another
-- number, and whatever is set would be there for others.
-- name: clock
SELECT clock_timestamp(),
       CASE WHEN pg_backend_pid() = $1 AND current_setting('statement_timeout')::interval
                 NOT BETWEEN interval '1 millisecond' AND $2 * interval '1 millisecond'
            THEN set_config('statement_timeout', $2::text, false) END

-- Columns are made in their order, parts of a UNION ALL too: whether it was in time is asked when all is written.
-- name: claim
SELECT dupeproof_claim_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10),
       CASE WHEN clock_timestamp() > $11 THEN dupeproof_in_time_v1($11) END

-- name: claim_many
SELECT place, verdict, attempt, flag, lease_left, codec, result
FROM dupeproof_claim_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL WHERE NOT dupeproof_in_time_v1($11)

-- name: finish
SELECT dupeproof_finish_v1($1, $2, $3, $4, $5, $6)

-- name: finish_many
SELECT dupeproof_finish_v1($1, $2, $3, $4, $5, $6) AS place

-- name: fail
SELECT dupeproof_fail_v1($1, $2, $3, $4, $5, $6)

-- name: release
SELECT dupeproof_release_v1($1, $2, $3, $4)

-- name: renew
SELECT dupeproof_renew_v1($1, $2, $3, $4, $5, $6)

-- name: mark
SELECT CASE WHEN dupeproof_mark_v1($1, $2, $3, $4) THEN clock_timestamp() <= $5 OR dupeproof_in_time_v1($5) ELSE false END

-- name: mark_many
SELECT dupeproof_mark_v1($1, $2, $3, $4) AS fresh, dupeproof_in_time_v1($5)

-- name: unmark
DELETE FROM dupeproof_marks AS d USING unnest(%s::text[]::uuid[], %s::bytea[]) AS a (key, token)
WHERE d.key = a.key AND d.token = a.token AND d.expires_at > clock_timestamp()
RETURNING d.key

-- name: get
SELECT key, state, token, attempt, fingerprint, namespace, hold,
       (extract(epoch FROM created_at) * 1000)::bigint,
       (extract(epoch FROM lease_until) * 1000)::bigint,
       coalesce((extract(epoch FROM finished_at) * 1000)::bigint, 0),
       CASE WHEN isfinite(expires_at) THEN (extract(epoch FROM expires_at) * 1000)::bigint ELSE 0 END,
       codec, error, window_ms, took_over, name, kept_key, (extract(epoch FROM clock_timestamp()) * 1000)::bigint, result
FROM dupeproof_records
WHERE key = ANY (%s::text[]::uuid[]) AND expires_at > clock_timestamp()

-- By the index on purge_from: those that have no end. The oldest first.
-- name: waiting
SELECT key, state, token, attempt, fingerprint, namespace, hold,
       (extract(epoch FROM created_at) * 1000)::bigint,
       (extract(epoch FROM lease_until) * 1000)::bigint,
       coalesce((extract(epoch FROM finished_at) * 1000)::bigint, 0),
       0, codec, error, window_ms, took_over, name, kept_key, (extract(epoch FROM clock_timestamp()) * 1000)::bigint
FROM dupeproof_records
WHERE purge_from = 'infinity' AND expires_at = 'infinity'
ORDER BY created_at LIMIT %s

-- name: find
SELECT key FROM dupeproof_records WHERE key BETWEEN %s::uuid AND %s::uuid AND expires_at > clock_timestamp()
ORDER BY key LIMIT %s

-- A page of all, by key: each is one short statement, however large the table is.
-- name: page
SELECT key, state, token, attempt, fingerprint, namespace, hold,
       (extract(epoch FROM created_at) * 1000)::bigint,
       (extract(epoch FROM lease_until) * 1000)::bigint,
       coalesce((extract(epoch FROM finished_at) * 1000)::bigint, 0),
       CASE WHEN isfinite(expires_at) THEN (extract(epoch FROM expires_at) * 1000)::bigint ELSE 0 END,
       codec, error, window_ms, took_over, name, kept_key, (extract(epoch FROM clock_timestamp()) * 1000)::bigint
FROM dupeproof_records WHERE key > %s::uuid ORDER BY key LIMIT %s

-- name: marks
SELECT key, coalesce(meta, ''), (extract(epoch FROM expires_at) * 1000)::bigint,
       (extract(epoch FROM clock_timestamp()) * 1000)::bigint, token IS NOT NULL
FROM dupeproof_marks
WHERE key = ANY (%s::text[]::uuid[]) AND expires_at > clock_timestamp()

-- name: forget
WITH wanted AS (SELECT unnest(%s::text[]::uuid[]) AS key),
     marks AS (DELETE FROM dupeproof_marks AS d USING wanted WHERE d.key = wanted.key
               RETURNING d.key, d.expires_at),
     records AS (DELETE FROM dupeproof_records AS d USING wanted WHERE d.key = wanted.key
                 RETURNING d.key, d.expires_at)
SELECT key FROM marks WHERE expires_at > clock_timestamp()
UNION
SELECT key FROM records WHERE expires_at > clock_timestamp()
UNION ALL
SELECT NULL WHERE NOT dupeproof_in_time_v1(%s)

-- The time in a subquery is read once, so that the index on time can be used; a volatile function in the
-- condition itself would be asked again for every row of the whole index. Rows are locked first, passing over those
-- that somebody else has locked: a purge waits for nobody, so it cannot be part of a deadlock.
-- name: purge_marks
WITH removed AS (
    DELETE FROM dupeproof_marks WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM dupeproof_marks WHERE expires_at <= (SELECT clock_timestamp())
        ORDER BY expires_at LIMIT %s FOR UPDATE SKIP LOCKED))
    RETURNING 1)
SELECT count(*) FROM removed

-- name: purge_records
WITH removed AS (
    DELETE FROM dupeproof_records WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM dupeproof_records
        WHERE purge_from <= (SELECT clock_timestamp()) AND expires_at <= (SELECT clock_timestamp())
        ORDER BY purge_from LIMIT %s FOR UPDATE SKIP LOCKED))
    RETURNING 1)
SELECT count(*) FROM removed

-- These three go through whatever driver the caller came with, hence `:name`, CAST, and text for lists.
-- Sorted, so that two batches cannot wait for each other in a circle. A row with epoch -1 has met no number yet.
-- name: lock_sequences
SELECT replace(CAST(key AS text), '-', ''), epoch, floor, seen
FROM dupeproof_sequences WHERE key = ANY (CAST(string_to_array(CAST(:keys AS text), ',') AS uuid[])) ORDER BY key FOR UPDATE

-- name: make_sequences
INSERT INTO dupeproof_sequences (key, epoch, floor, seen)
SELECT key, -1, 0, '' FROM unnest(CAST(string_to_array(CAST(:keys AS text), ',') AS uuid[])) AS key ORDER BY key
ON CONFLICT DO NOTHING

-- name: write_sequences
UPDATE dupeproof_sequences AS d SET epoch = a.epoch, floor = a.floor, seen = decode(a.seen, 'hex')
FROM json_to_recordset(CAST(CAST(:written AS text) AS json)) AS a (key uuid, epoch bigint, floor bigint, seen text)
WHERE d.key = a.key

-- name: retire
WITH gone AS (DELETE FROM dupeproof_sequences WHERE key = ANY (%s::text[]::uuid[]) RETURNING key)
SELECT key FROM gone
UNION ALL
SELECT NULL WHERE NOT dupeproof_in_time_v1(%s)

-- name: count_sequences
SELECT count(*), pg_total_relation_size('dupeproof_sequences') FROM dupeproof_sequences

-- name: count_records
SELECT CASE WHEN expires_at <= clock_timestamp() THEN 'free'
            WHEN state = 'resolved' THEN 'done'
            WHEN state <> 'running' OR lease_until > clock_timestamp() THEN state
            WHEN hold THEN 'held'
            ELSE 'abandoned' END AS situation, count(*)
FROM dupeproof_records GROUP BY situation

-- name: count_marks
SELECT count(*) FILTER (WHERE expires_at > clock_timestamp()), count(*),
       pg_total_relation_size('dupeproof_marks') + pg_total_relation_size('dupeproof_records')
FROM dupeproof_marks

-- name: count_inbox
SELECT count(*) FILTER (WHERE expires_at > clock_timestamp()), count(*),
       pg_total_relation_size('dupeproof_inbox') + pg_total_relation_size('dupeproof_entities')
FROM dupeproof_inbox

-- name: check
SELECT current_setting('server_version'), current_setting('synchronous_commit'), pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on',
       has_table_privilege('dupeproof_records', 'INSERT') AND has_table_privilege('dupeproof_records', 'UPDATE')
       AND has_table_privilege('dupeproof_marks', 'INSERT') AND has_table_privilege('dupeproof_marks', 'DELETE')

-- name: outbox_take
SELECT * FROM dupeproof_outbox_take_v2(%s::bytea, %s::bigint, %s::integer, %s::integer)

-- name: outbox_settle
SELECT dupeproof_outbox_settle_v2(
    %s::bytea, %s::smallint[], %s::integer[], %s::smallint[], %s::bigint[], %s::bigint, %s::smallint[], %s::bigint[], %s::text[], %s::bigint[],
    %s::integer[], %s::boolean[], %s::boolean)

-- name: outbox_status
SELECT waiting.backlog, waiting.delayed, waiting.oldest, failing.count, dead.count, kept.count, shards.*
FROM (SELECT count(*) FILTER (WHERE not_before IS NULL OR not_before <= clock_timestamp()) AS backlog,
             count(*) FILTER (WHERE not_before > clock_timestamp()) AS delayed,
             extract(epoch FROM clock_timestamp() - min(coalesce(not_before, created_at))
                 FILTER (WHERE not_before IS NULL OR not_before <= clock_timestamp()))::double precision AS oldest
      FROM dupeproof_outbox) AS waiting,
     (SELECT count(*) FROM dupeproof_outbox_failing WHERE retry_at < 'infinity') AS failing,
     (SELECT count(*) FROM dupeproof_outbox_dead) AS dead,
     (SELECT count(*) FROM dupeproof_outbox_sent) AS kept,
     (SELECT count(DISTINCT token) FILTER (WHERE lease_until > clock_timestamp()),
             coalesce(sum(sent), 0)::bigint, coalesce(sum(taken_over), 0)::bigint,
             extract(epoch FROM clock_timestamp() - max(lease_until) FILTER (WHERE isfinite(lease_until)))::double precision
      FROM dupeproof_outbox_newest_v1(ARRAY(SELECT generate_series(0, 63)::smallint))) AS shards

-- name: outbox_dead
SELECT id, aggregatetype, aggregateid, type, attempts, error, extract(epoch FROM clock_timestamp() - died_at)::double precision
FROM dupeproof_outbox_dead ORDER BY seq LIMIT %s

-- name: outbox_revive
SELECT dupeproof_outbox_revive_v1(%s::text[], %s::boolean)

-- name: outbox_tidy
SELECT dupeproof_outbox_tidy_v1()

-- name: outbox_purge
WITH old AS (SELECT ctid FROM dupeproof_outbox_sent WHERE purge_from <= (SELECT clock_timestamp())
             ORDER BY purge_from LIMIT %s FOR UPDATE SKIP LOCKED),
     gone AS (DELETE FROM dupeproof_outbox_sent WHERE ctid = ANY (ARRAY(SELECT ctid FROM old)) RETURNING 1)
SELECT count(*) FROM gone
