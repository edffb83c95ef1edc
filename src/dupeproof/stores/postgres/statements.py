"""The statements the PostgreSQL store sends: one per verb and batch, safe behind a transaction pooler."""

CLAIM = (
    "SELECT place, verdict, attempt, flag, lease_left, codec, result FROM dupeproof_claim_v1("
    "%s::text[]::uuid[], %s::bytea[], %s::bytea[], %s::text[], %s::bigint[], %s::bigint[], %s::boolean[], %s::integer[])"
)
FINISH = (
    "SELECT place, ours FROM dupeproof_finish_v1("
    "%s::text[]::uuid[], %s::bytea[], %s::bytea[], %s::bigint[], %s::text[], %s::bytea[])"
)
FAIL = (
    "SELECT place, ours FROM dupeproof_fail_v1("
    "%s::text[]::uuid[], %s::bytea[], %s::bigint[], %s::text[], %s::boolean[])"
)
RELEASE = "SELECT place, ours FROM dupeproof_release_v1(%s::text[]::uuid[], %s::bytea[], %s::bigint[])"
RENEW = "SELECT place, ours FROM dupeproof_renew_v1(%s::text[]::uuid[], %s::bytea[], %s::bigint[], %s::bigint[])"
MARK = "SELECT dupeproof_mark_v1(%s::text[]::uuid[], %s::bigint[], %s::bytea[], %s::bytea[])"
UNMARK = (
    "DELETE FROM dupeproof_marks AS d USING unnest(%s::text[]::uuid[], %s::bytea[]) AS a (key, token) "
    "WHERE d.key = a.key AND d.token = a.token AND d.expires_at > clock_timestamp() RETURNING d.key"
)
_MS = "(extract(epoch FROM {}) * 1000)::bigint"
GET = (
    "SELECT key, state, token, attempt, fingerprint, namespace, hold, "
    f"{_MS.format('created_at')}, {_MS.format('lease_until')}, coalesce({_MS.format('finished_at')}, 0), "
    f"CASE WHEN isfinite(expires_at) THEN {_MS.format('expires_at')} ELSE 0 END, codec, error, result, "
    f"{_MS.format('clock_timestamp()')} "
    "FROM dupeproof_records WHERE key = ANY (%s::text[]::uuid[]) AND expires_at > clock_timestamp()"
)
MARKS = (
    f"SELECT key, coalesce(meta, ''), {_MS.format('expires_at')} FROM dupeproof_marks "
    "WHERE key = ANY (%s::text[]::uuid[]) AND expires_at > clock_timestamp()"
)
FORGET = (
    "WITH wanted AS (SELECT unnest(%s::text[]::uuid[]) AS key), "
    "marks AS (DELETE FROM dupeproof_marks AS d USING wanted WHERE d.key = wanted.key RETURNING d.key, d.expires_at), "
    "records AS (DELETE FROM dupeproof_records AS d USING wanted WHERE d.key = wanted.key "
    "RETURNING d.key, d.expires_at) "
    "SELECT key FROM marks WHERE expires_at > clock_timestamp() "
    "UNION SELECT key FROM records WHERE expires_at > clock_timestamp()"
)
_PURGE = (
    "WITH gone AS (SELECT key FROM {table} WHERE expires_at <= clock_timestamp() ORDER BY expires_at LIMIT %s "
    "FOR UPDATE SKIP LOCKED), "
    "removed AS (DELETE FROM {table} AS d USING gone WHERE d.key = gone.key RETURNING 1) SELECT count(*) FROM removed"
)
PURGE_MARKS = _PURGE.format(table="dupeproof_marks")
PURGE_RECORDS = _PURGE.format(table="dupeproof_records")
COUNT_RECORDS = """
    SELECT CASE WHEN expires_at <= clock_timestamp() THEN 'free'
                WHEN state <> 'running' OR lease_until > clock_timestamp() THEN state
                WHEN hold THEN 'held' ELSE 'abandoned' END AS situation, count(*)
    FROM dupeproof_records GROUP BY situation
"""
COUNT_MARKS = """
    SELECT count(*) FILTER (WHERE expires_at > clock_timestamp()), count(*),
           pg_total_relation_size('dupeproof_marks') + pg_total_relation_size('dupeproof_records')
    FROM dupeproof_marks
"""
CHECK = (
    "SELECT current_setting('server_version'), current_setting('synchronous_commit'), "
    "pg_is_in_recovery(), has_table_privilege('dupeproof_records', 'INSERT, UPDATE, DELETE') "
    "AND has_table_privilege('dupeproof_marks', 'INSERT, UPDATE, DELETE')"
)
