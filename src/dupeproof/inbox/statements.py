"""The statements of the inbox, for each dialect. Each decides in one step, by the database's own clock.

A row that is there and has not expired stays as it is, and the count of rows tells so. MariaDB and MySQL count the message
in it, which makes it two rows in their count; which rows were taken over is asked after, where not all are new.
"""

from functools import lru_cache

from msgspec import Struct

from dupeproof.sql.statements import Dialect

MOST_IDS = 10_000
"""In one statement: drivers and databases have limits for the number of parameters."""

_SQLITE_NOW = "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)"
_MYSQL_UNTIL = "UTC_TIMESTAMP(3) + INTERVAL :window * 1000 MICROSECOND"
_POSTGRES_UNTIL = "clock_timestamp() + CAST(:window AS bigint) * interval '1 millisecond'"
_MYSQL_EXPIRED = "expires_at <= UTC_TIMESTAMP(3)"

PURGE: dict[Dialect, str] = {
    "postgresql": "DELETE FROM dupeproof_inbox WHERE ctid = ANY (ARRAY(SELECT ctid FROM dupeproof_inbox"
    " WHERE expires_at <= (SELECT clock_timestamp())"
    " ORDER BY expires_at LIMIT CAST(:most AS bigint) FOR UPDATE SKIP LOCKED))",
    "sqlite": "DELETE FROM dupeproof_inbox WHERE key IN (SELECT key FROM dupeproof_inbox"  # noqa: S608
    f" WHERE expires_at <= {_SQLITE_NOW} ORDER BY expires_at LIMIT :most)",
    "mysql": "DELETE FROM dupeproof_inbox WHERE expires_at <= UTC_TIMESTAMP(3) ORDER BY expires_at LIMIT :most",
}


class Marking(Struct, frozen=True):
    before: str
    row: str
    after: str
    returning: str


_MARKING: dict[Dialect, Marking] = {
    "postgresql": Marking(
        before="INSERT INTO dupeproof_inbox AS known (key, seen_at, expires_at) VALUES ",
        row=f"(CAST(CAST(:key AS text) AS uuid), clock_timestamp(), {_POSTGRES_UNTIL})",
        after=f" ON CONFLICT (key) DO UPDATE SET seen_at = clock_timestamp(), expires_at = {_POSTGRES_UNTIL}"
        " WHERE known.expires_at <= clock_timestamp()",
        returning=" RETURNING CAST(key AS text)",
    ),
    "sqlite": Marking(
        before="INSERT INTO dupeproof_inbox (key, seen_at, expires_at) VALUES ",
        row=f"(:key, {_SQLITE_NOW}, {_SQLITE_NOW} + :window)",
        after=" ON CONFLICT (key) DO UPDATE SET seen_at = excluded.seen_at, expires_at = excluded.expires_at"
        " WHERE dupeproof_inbox.expires_at <= excluded.seen_at",
        returning=" RETURNING hex(key)",
    ),
    # Assigned from left to right: the time must come last.
    "mysql": Marking(
        before="INSERT INTO dupeproof_inbox (`key`, token, seen_at, expires_at) VALUES ",
        row=f"(UNHEX(:key), UNHEX(:token), UTC_TIMESTAMP(3), {_MYSQL_UNTIL})",
        after=f" ON DUPLICATE KEY UPDATE token = IF({_MYSQL_EXPIRED}, UNHEX(:token), token),"
        f" seen_at = IF({_MYSQL_EXPIRED}, UTC_TIMESTAMP(3), seen_at),"
        f" again = IF({_MYSQL_EXPIRED}, 0, again) + 1,"
        f" expires_at = IF({_MYSQL_EXPIRED}, {_MYSQL_UNTIL}, expires_at)",
        returning="",
    ),
}


@lru_cache(256)
def mark(dialect: Dialect, count: int, *, returning: bool = False) -> str:
    """Mark that many ids, `:key0` and so on, for `:window` milliseconds."""
    marking = _MARKING[dialect]
    rows = ", ".join(marking.row.replace(":key", f":key{n}") for n in range(count))
    return marking.before + rows + marking.after + (marking.returning if returning else "")


@lru_cache(256)
def marked(count: int) -> str:
    """On MariaDB and MySQL, which of them this call has marked."""
    keys = ", ".join(f"UNHEX(:key{n})" for n in range(count))
    return f"SELECT HEX(`key`) FROM dupeproof_inbox WHERE `key` IN ({keys}) AND token = UNHEX(:token)"  # noqa: S608
