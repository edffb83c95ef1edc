-- The statements the store sends: one per verb and batch, each a transaction of its own, so that a transaction
-- pooler may put any connection behind any of them. Digests travel as hex text, the form the uuid type reads.

-- name: claim
SELECT place, verdict, attempt, flag, lease_left, codec, result
FROM dupeproof_claim_v1(%s::text[]::uuid[], %s::bytea[], %s::bytea[], %s::text[],
                        %s::bigint[], %s::bigint[], %s::boolean[], %s::integer[])

-- name: finish
SELECT place, ours
FROM dupeproof_finish_v1(%s::text[]::uuid[], %s::bytea[], %s::bytea[], %s::bigint[], %s::text[], %s::bytea[])

-- name: fail
SELECT place, ours
FROM dupeproof_fail_v1(%s::text[]::uuid[], %s::bytea[], %s::bigint[], %s::text[], %s::boolean[])

-- name: release
SELECT place, ours FROM dupeproof_release_v1(%s::text[]::uuid[], %s::bytea[], %s::bigint[], %s::boolean[])

-- name: renew
SELECT place, ours FROM dupeproof_renew_v1(%s::text[]::uuid[], %s::bytea[], %s::bigint[], %s::bigint[])

-- name: mark
SELECT dupeproof_mark_v1(%s::text[]::uuid[], %s::bigint[], %s::bytea[], %s::bytea[])

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
       codec, error, result,
       (extract(epoch FROM clock_timestamp()) * 1000)::bigint
FROM dupeproof_records
WHERE key = ANY (%s::text[]::uuid[]) AND expires_at > clock_timestamp()

-- name: marks
SELECT key, coalesce(meta, ''), (extract(epoch FROM expires_at) * 1000)::bigint
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

-- The time in a subquery is read once, so that the index on expires_at can be used; a volatile function in the
-- condition itself would be asked again for every row of the whole index.
-- name: purge_marks
WITH gone AS (SELECT key FROM dupeproof_marks WHERE expires_at <= (SELECT clock_timestamp())
              ORDER BY expires_at LIMIT %s FOR UPDATE SKIP LOCKED),
     removed AS (DELETE FROM dupeproof_marks AS d USING gone WHERE d.key = gone.key RETURNING 1)
SELECT count(*) FROM removed

-- name: purge_records
WITH gone AS (SELECT key FROM dupeproof_records WHERE expires_at <= (SELECT clock_timestamp())
              ORDER BY expires_at LIMIT %s FOR UPDATE SKIP LOCKED),
     removed AS (DELETE FROM dupeproof_records AS d USING gone WHERE d.key = gone.key RETURNING 1)
SELECT count(*) FROM removed

-- Sorted, so that two batches cannot wait for each other in a circle. A row with epoch -1 has met no number yet.
-- name: lock_sequences
SELECT replace(key::text, '-', ''), epoch, floor, seen
FROM dupeproof_sequences WHERE key = ANY (%s::text[]::uuid[]) ORDER BY key FOR UPDATE

-- name: make_sequences
INSERT INTO dupeproof_sequences (key, epoch, floor, seen)
SELECT key, -1, 0, '' FROM unnest(%s::text[]::uuid[]) AS key ORDER BY key
ON CONFLICT DO NOTHING

-- name: write_sequences
UPDATE dupeproof_sequences AS d SET epoch = a.epoch, floor = a.floor, seen = a.seen
FROM unnest(%s::text[]::uuid[], %s::bigint[], %s::bigint[], %s::bytea[]) AS a (key, epoch, floor, seen)
WHERE d.key = a.key

-- name: retire
DELETE FROM dupeproof_sequences WHERE key = ANY (%s::text[]::uuid[]) RETURNING key

-- name: count_sequences
SELECT count(*), pg_total_relation_size('dupeproof_sequences') FROM dupeproof_sequences

-- name: count_records
SELECT CASE WHEN expires_at <= clock_timestamp() THEN 'free'
            WHEN state <> 'running' OR lease_until > clock_timestamp() THEN state
            WHEN hold THEN 'held'
            ELSE 'abandoned' END AS situation, count(*)
FROM dupeproof_records GROUP BY situation

-- name: count_marks
SELECT count(*) FILTER (WHERE expires_at > clock_timestamp()), count(*),
       pg_total_relation_size('dupeproof_marks') + pg_total_relation_size('dupeproof_records')
FROM dupeproof_marks

-- name: check
SELECT current_setting('server_version'), current_setting('synchronous_commit'), pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on',
       has_table_privilege('dupeproof_records', 'INSERT') AND has_table_privilege('dupeproof_records', 'UPDATE')
       AND has_table_privilege('dupeproof_marks', 'INSERT') AND has_table_privilege('dupeproof_marks', 'DELETE')
