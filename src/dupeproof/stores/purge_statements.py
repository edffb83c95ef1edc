"""Removing expired marks of inboxes, and keeping what they show of late duplicates: the statements."""

from dupeproof.core.lateness import bucket_sql
from dupeproof.sql.statements import Dialect

SQLITE_NOW = "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)"
_BUCKET = bucket_sql("longest")

REMOVE: dict[Dialect, str] = {
    # The time in a subquery is read once, so that the index on time can be used. Rows that somebody else has locked are
    # passed over: a purge waits for nobody.
    "postgresql": "WITH gone AS (DELETE FROM dupeproof_inbox WHERE ctid = ANY (ARRAY(SELECT ctid FROM dupeproof_inbox"  # noqa: S608
    " WHERE expires_at <= (SELECT clock_timestamp())"
    " ORDER BY expires_at LIMIT CAST(:most AS bigint) FOR UPDATE SKIP LOCKED))"
    " RETURNING consumer_group, again, late, longest)"
    f" SELECT consumer_group, {_BUCKET}, count(*), sum(again), sum(late), max(longest) FROM gone GROUP BY 1, 2",
    "sqlite": "DELETE FROM dupeproof_inbox WHERE key IN (SELECT key FROM dupeproof_inbox"  # noqa: S608
    f" WHERE expires_at <= {SQLITE_NOW} ORDER BY expires_at LIMIT :most)"
    f" RETURNING consumer_group, {_BUCKET}, 1, again, late, longest",
    # Only locked by this one; MySQL does not return what it deletes.
    "mysql": f"SELECT consumer_group, {_BUCKET}, 1, again, late, longest FROM dupeproof_inbox"  # noqa: S608
    " WHERE expires_at <= UTC_TIMESTAMP(3) ORDER BY expires_at LIMIT :most FOR UPDATE",
}
"""At most `:most` rows: group, bucket, and the figures of `Tally`. Messages that did not come again have no group."""
REMOVE_LOCKED = (
    "DELETE FROM dupeproof_inbox WHERE expires_at <= UTC_TIMESTAMP(3) ORDER BY expires_at LIMIT :most"
)
"""The ones that were locked: none can be put before them, for new marks expire later."""
REMOVE_ENTITIES: dict[Dialect, str] = {
    "postgresql": "DELETE FROM dupeproof_entities WHERE ctid = ANY (ARRAY(SELECT ctid FROM dupeproof_entities"
    " WHERE expires_at <= (SELECT clock_timestamp())"
    " ORDER BY expires_at LIMIT CAST(:most AS bigint) FOR UPDATE SKIP LOCKED))",
    "sqlite": "DELETE FROM dupeproof_entities WHERE entity IN (SELECT entity FROM dupeproof_entities"  # noqa: S608
    f" WHERE expires_at <= {SQLITE_NOW} ORDER BY expires_at LIMIT :most)",
    "mysql": "DELETE FROM dupeproof_entities WHERE expires_at <= UTC_TIMESTAMP(3) ORDER BY expires_at LIMIT :most",
}
"""At most `:most` entities whose version has not changed for the window."""
FORGET_ATTEMPTS: dict[Dialect, str] = {
    "postgresql": "DELETE FROM dupeproof_attempts WHERE begun_at < clock_timestamp() - interval '7 days'",
    "sqlite": f"DELETE FROM dupeproof_attempts WHERE begun_at < {SQLITE_NOW} - 604800000",  # noqa: S608
    "mysql": "DELETE FROM dupeproof_attempts WHERE begun_at < UTC_TIMESTAMP(3) - INTERVAL 7 DAY",
}
"""Of messages that never came again, as those that were dead-lettered."""

_INSERT = (
    "INSERT INTO dupeproof_lateness{alias} (consumer_group, bucket, messages, duplicates, late, longest)"
    " VALUES (:group, :bucket, :messages, :duplicates, :late, :longest) "
)
_UPSERT = _INSERT.format(alias=" AS known") + (
    "ON CONFLICT (consumer_group, bucket) DO UPDATE SET messages = known.messages + excluded.messages,"
    " duplicates = known.duplicates + excluded.duplicates, late = known.late + excluded.late,"
    " longest = CASE WHEN known.longest > excluded.longest THEN known.longest ELSE excluded.longest END"
)
ADD: dict[Dialect, str] = {
    "postgresql": _UPSERT,
    "sqlite": _UPSERT,
    "mysql": _INSERT.format(alias="")
    + "ON DUPLICATE KEY UPDATE messages = messages + :messages, duplicates = duplicates + :duplicates,"
    " late = late + :late, longest = GREATEST(longest, :longest)",
}
"""Adds one `Tally` to what is known."""
