"""The statements of the inbox, for each dialect. Each decides in one step, by the database's own clock.

A row that is there and has not expired stays as it is, and the count of rows shows it; that the message came again is then
written into its row by a statement of its own, which only duplicates pay for. MariaDB and MySQL do that in the same step,
which makes two rows in their count; which rows were taken over is asked after, where not all are new.
"""

from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

from dupeproof.core.lateness import bucket_sql
from dupeproof.sql.statements import Dialect
from dupeproof.stores.purge_statements import SQLITE_NOW

MOST_IDS = 10_000
"""In one statement: drivers and databases have limits for the number of parameters."""

_KEPT = 16
"""Texts. One of 10,000 ids has more than a megabyte, and batches may be of any size."""

_MYSQL_UNTIL = "UTC_TIMESTAMP(3) + INTERVAL :window * 1000 MICROSECOND"
_POSTGRES_UNTIL = "clock_timestamp() + CAST(:window AS bigint) * interval '1 millisecond'"
_MYSQL_EXPIRED = "expires_at <= UTC_TIMESTAMP(3)"


_POSTGRES_AGAIN = (
    "consumer_group = CAST(:group AS text), again = COALESCE(known.again, 0) + 1, longest = GREATEST(known.longest, 0,"
    " CAST(extract(epoch FROM clock_timestamp() - known.seen_at) * 1000 AS bigint))"
)
_SQLITE_AGAIN = (
    "consumer_group = :group, again = COALESCE(again, 0) + 1,"
    f" longest = max(COALESCE(longest, 0), {SQLITE_NOW} - seen_at)"
)
_MYSQL_AGAIN = (
    "consumer_group = :group, again = COALESCE(again, 0) + 1, longest = GREATEST(COALESCE(longest, 0),"
    " TIMESTAMPDIFF(MICROSECOND, seen_at, UTC_TIMESTAMP(3)) DIV 1000)"
)


class Marking(Struct, frozen=True):
    before: str
    row: str
    after: str
    """A row that has expired is taken over: its message came again, and late."""
    returning: str
    """Which are marked, and of those that were taken over a count of how often they were late."""
    again: str
    """Those that were known came again; left out where marking them has said so."""
    key: str
    rows: str = ""
    """Many at once by one parameter `:keys`, their digits with commas between; left out where each is a parameter.

    Only to mark them, which looks in no plan but the index: a join with many keys, planned while the table is small,
    would go on reading all of it.
    """


_MARKING: dict[Dialect, Marking] = {
    "postgresql": Marking(
        before="INSERT INTO dupeproof_inbox AS known (key, seen_at, expires_at) ",
        row=f"(CAST(CAST(:key AS text) AS uuid), clock_timestamp(), {_POSTGRES_UNTIL})",
        after=f" ON CONFLICT (key) DO UPDATE SET {_POSTGRES_AGAIN}, late = COALESCE(known.late, 0) + 1,"
        f" seen_at = clock_timestamp(), expires_at = {_POSTGRES_UNTIL} WHERE known.expires_at <= clock_timestamp()",
        returning=" RETURNING CAST(key AS text), late",
        again=f"UPDATE dupeproof_inbox AS known SET {_POSTGRES_AGAIN} WHERE key IN ",  # noqa: S608
        key="CAST(CAST(:key AS text) AS uuid)",
        rows=f"SELECT CAST(one AS uuid), clock_timestamp(), {_POSTGRES_UNTIL}"  # noqa: S608
        " FROM unnest(string_to_array(CAST(:keys AS text), ',')) AS one",
    ),
    "sqlite": Marking(
        before="INSERT INTO dupeproof_inbox (key, seen_at, expires_at) ",
        row=f"(:key, {SQLITE_NOW}, {SQLITE_NOW} + :window)",
        after=f" ON CONFLICT (key) DO UPDATE SET {_SQLITE_AGAIN}, late = COALESCE(late, 0) + 1,"
        " seen_at = excluded.seen_at, expires_at = excluded.expires_at"
        " WHERE dupeproof_inbox.expires_at <= excluded.seen_at",
        returning=" RETURNING hex(key), late",
        again=f"UPDATE dupeproof_inbox SET {_SQLITE_AGAIN} WHERE key IN ",  # noqa: S608
        key=":key",
    ),
    # Assigned from left to right: the time must come last.
    "mysql": Marking(
        before="INSERT INTO dupeproof_inbox (`key`, token, seen_at, expires_at) ",
        row=f"(UNHEX(:key), UNHEX(:token), UTC_TIMESTAMP(3), {_MYSQL_UNTIL})",
        after=f" ON DUPLICATE KEY UPDATE {_MYSQL_AGAIN},"
        f" late = COALESCE(late, 0) + ({_MYSQL_EXPIRED}),"
        f" token = IF({_MYSQL_EXPIRED}, UNHEX(:token), token),"
        f" seen_at = IF({_MYSQL_EXPIRED}, UTC_TIMESTAMP(3), seen_at),"
        f" expires_at = IF({_MYSQL_EXPIRED}, {_MYSQL_UNTIL}, expires_at)",
        returning="",
        again="",
        key="UNHEX(:key)",
    ),
}
_BUCKET = bucket_sql("longest")
LATENESS = (
    f"SELECT consumer_group, {_BUCKET} AS bucket, count(*) AS messages, sum(again) AS duplicates, sum(late) AS late,"  # noqa: S608
    f" max(longest) AS longest FROM dupeproof_inbox WHERE consumer_group IS NOT NULL GROUP BY consumer_group, {_BUCKET}"
    " UNION ALL SELECT consumer_group, bucket, messages, duplicates, late, longest FROM dupeproof_lateness"
)
"""What is known of late duplicates, of marks that are there and of those that were purged: rows of `Tally`."""
LATENESS_OF_GROUP = f"SELECT * FROM ({LATENESS}) AS found WHERE consumer_group = :group"  # noqa: S608


_BEGIN = "INSERT INTO dupeproof_attempts{alias} ({name}, attempts, begun_at) VALUES ({key}, 1, {now}) {conflict} attempts = "
BEGIN: dict[Dialect, str] = {
    "postgresql": _BEGIN.format(
        alias=" AS known",
        name="key",
        key="CAST(CAST(:key0 AS text) AS uuid)",
        now="clock_timestamp()",
        conflict="ON CONFLICT (key) DO UPDATE SET",
    )
    + "known.attempts + 1, begun_at = excluded.begun_at RETURNING attempts",
    "sqlite": _BEGIN.format(
        alias="", name="key", key=":key0", now=SQLITE_NOW, conflict="ON CONFLICT (key) DO UPDATE SET"
    )
    + "attempts + 1, begun_at = excluded.begun_at RETURNING attempts",
    "mysql": _BEGIN.format(
        alias="",
        name="`key`",
        key="UNHEX(:key0)",
        now="UTC_TIMESTAMP(3)",
        conflict="ON DUPLICATE KEY UPDATE",
    )
    + "attempts + 1, begun_at = UTC_TIMESTAMP(3)",
}
"""One more attempt, and how many there are now; MariaDB and MySQL need a second statement for the number."""
BEGUN = "SELECT attempts FROM dupeproof_attempts WHERE `key` = UNHEX(:key0)"


@lru_cache(_KEPT)
def end(dialect: Dialect, count: int) -> str:
    key = "`key`" if dialect == "mysql" else "key"
    return f"DELETE FROM dupeproof_attempts WHERE {key} IN ({_keys(dialect, count)})"  # noqa: S608


@lru_cache(_KEPT)
def unmark(dialect: Dialect, count: int) -> str:
    key = "`key`" if dialect == "mysql" else "key"
    return f"DELETE FROM dupeproof_inbox WHERE {key} IN ({_keys(dialect, count)})"  # noqa: S608


@lru_cache(_KEPT)
def mark(dialect: Dialect, count: int, *, returning: bool = False) -> str:
    """Mark that many ids of `:group`, given as `to_mark` does, for `:window` milliseconds."""
    marking = _MARKING[dialect]
    if count > 1 and marking.rows:
        rows = marking.rows
    else:
        rows = "VALUES " + ", ".join(marking.row.replace(":key", f":key{n}") for n in range(count))
    return marking.before + rows + marking.after + (marking.returning if returning else "")


def keys(dialect: Dialect, digests: Sequence[bytes]) -> dict[str, bytes | str]:
    """The parameters `key0` and so on."""
    return {f"key{n}": digest if dialect == "sqlite" else digest.hex() for n, digest in enumerate(digests)}


def to_mark(dialect: Dialect, digests: Sequence[bytes]) -> dict[str, bytes | str]:
    """The ids as `mark` wants so many."""
    if len(digests) > 1 and _MARKING[dialect].rows:
        return {"keys": ",".join(digest.hex() for digest in digests)}
    return keys(dialect, digests)


@lru_cache(_KEPT)
def came_again(dialect: Dialect, count: int) -> str:
    return f"{_MARKING[dialect].again}({_keys(dialect, count)})"


@lru_cache(_KEPT)
def marked(count: int) -> str:
    """On MariaDB and MySQL, which of them this call has marked, and how often those taken over were late."""
    keys = _keys("mysql", count)
    return f"SELECT HEX(`key`), late FROM dupeproof_inbox WHERE `key` IN ({keys}) AND token = UNHEX(:token)"  # noqa: S608


@lru_cache(_KEPT)
def count(dialect: Dialect, number: int) -> str:
    """How many of that many are there."""
    key = "`key`" if dialect == "mysql" else "key"
    return f"SELECT count(*) FROM dupeproof_inbox WHERE {key} IN ({_keys(dialect, number)})"  # noqa: S608


def _keys(dialect: Dialect, count: int) -> str:
    return ", ".join(_MARKING[dialect].key.replace(":key", f":key{n}") for n in range(count))
