"""The statements of an outbox that is read and written step by step, inside transactions, on SQLite, MariaDB and MySQL.

Times are milliseconds. Shards and numbers of messages are ours, and stand in the text where there are many.
"""

from collections.abc import Iterable

from msgspec import Struct

from dupeproof.sql.statements import Dialect

# ruff: noqa: S608 - nothing of the caller's is in the text of a statement
FOR_EVER = 2**62
AT_ONCE = 0
"""When a message may be tried again with which a relay has ended: at once, and alone."""
NOW_IN_MYSQL = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000"
_COLUMNS = "seq, shard, created_at, not_before, id, aggregatetype, aggregateid, type, payload, headers"
NO_LANES = "SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM dupeproof_outbox_shards)"
_LOCKED: dict[Dialect, str] = {"sqlite": "", "mysql": " FOR UPDATE"}
MAKE_SHARD: dict[Dialect, str] = {
    "sqlite": "INSERT OR IGNORE INTO dupeproof_outbox_shards (shard) VALUES (:shard)",
    "mysql": "INSERT IGNORE INTO dupeproof_outbox_shards (shard) VALUES (:shard)",
}
FREE = """
    SELECT shard, CASE WHEN token <> :token THEN 1 ELSE 0 END FROM dupeproof_outbox_shards AS l WHERE (lease_until <= :now OR token = :token)
    AND ((SELECT 1 FROM dupeproof_outbox WHERE shard = l.shard LIMIT 1) IS NOT NULL
         OR (SELECT 1 FROM dupeproof_outbox WHERE shard = -1 - l.shard AND shard < 0 AND not_before <= :now LIMIT 1) IS NOT NULL)
    ORDER BY lease_until
"""
"""Where something may be due, and whether it was left behind; not EXISTS, which MariaDB turns into a scan of everything."""
STUCK = "SELECT shard, seq, `key` FROM dupeproof_outbox_failing WHERE retry_at > :now"
SUSPECTS = f"SELECT shard FROM dupeproof_outbox_failing WHERE retry_at = {AT_ONCE}"
FORMER: dict[Dialect, str] = {
    dialect: "SELECT token FROM dupeproof_outbox_shards WHERE shard = :shard" + locked
    for dialect, locked in _LOCKED.items()
}
HAND = "SELECT seqs FROM dupeproof_outbox_hands WHERE token = :token"
TAKE_IN_HAND = "REPLACE INTO dupeproof_outbox_hands (token, seqs, taken_at) VALUES (:token, :seqs, :now)"
LET_GO = "DELETE FROM dupeproof_outbox_hands WHERE token = :token"
FORGET_HANDS = "DELETE FROM dupeproof_outbox_hands WHERE taken_at < :before"
_DUE = """
    SELECT * FROM (
        SELECT {part} AS part, coalesce(not_before, 0) AS moment, shard, seq, id, aggregatetype, aggregateid, type, payload,
               headers, (:now - coalesce(not_before, created_at)) / 1e3 AS age,
               coalesce((SELECT attempts FROM dupeproof_outbox_failing AS f WHERE f.seq = o.seq), 0) AS attempts
        FROM dupeproof_outbox AS o WHERE {where} {stuck} ORDER BY {order} LIMIT :most
    ) AS part{part}
"""
_LATER = "shard = -1 - :shard AND shard < 0 AND not_before <= :now"
COUNT_SENT = "UPDATE dupeproof_outbox_shards SET sent = sent + :number WHERE shard = :shard"
_FAIL = """
    INSERT INTO dupeproof_outbox_failing (seq, shard, `key`, attempts, retry_at, error)
    SELECT seq, shard, aggregateid, :attempts, :retry_at, :error FROM dupeproof_outbox WHERE
"""
_CONFLICT: dict[Dialect, str] = {
    "sqlite": " ON CONFLICT (seq) DO UPDATE SET ",
    "mysql": " ON DUPLICATE KEY UPDATE ",
}
FAIL: dict[Dialect, str] = {
    dialect: f"{_FAIL} seq = :seq{conflict} attempts = :attempts, retry_at = :retry_at, error = :error"
    for dialect, conflict in _CONFLICT.items()
}
BURY = f"""
    INSERT INTO dupeproof_outbox_dead ({_COLUMNS}, died_at, attempts, error)
    SELECT o.{_COLUMNS.replace(", ", ", o.")}, :now, f.attempts, f.error
    FROM dupeproof_outbox AS o JOIN dupeproof_outbox_failing AS f ON f.seq = o.seq WHERE o.seq = :seq
"""
KEY_WAITS = "UPDATE dupeproof_outbox_failing SET retry_at = :retry_at WHERE seq = :seq AND `key` IS NOT NULL"
NO_KEY = "DELETE FROM dupeproof_outbox_failing WHERE seq = :seq AND `key` IS NULL"
GIVE_BACK = "UPDATE dupeproof_outbox_shards SET token = NULL, lease_until = :now WHERE token = :token"
STATUS = """
    SELECT (SELECT count(*) FROM dupeproof_outbox WHERE coalesce(not_before, 0) <= :now),
           (SELECT count(*) FROM dupeproof_outbox WHERE not_before > :now),
           (SELECT (:now - min(coalesce(not_before, created_at))) / 1e3 FROM dupeproof_outbox
            WHERE coalesce(not_before, 0) <= :now),
           (SELECT count(*) FROM dupeproof_outbox_failing WHERE retry_at < :ever),
           (SELECT count(*) FROM dupeproof_outbox_dead),
           (SELECT count(*) FROM dupeproof_outbox_sent),
           (SELECT count(DISTINCT token) FROM dupeproof_outbox_shards WHERE lease_until > :now),
           (SELECT coalesce(sum(sent), 0) FROM dupeproof_outbox_shards),
           (SELECT coalesce(sum(taken_over), 0) FROM dupeproof_outbox_shards),
           (SELECT max(lease_until) FROM dupeproof_outbox_shards WHERE lease_until > 0)
"""
DEAD = """
    SELECT id, aggregatetype, aggregateid, type, attempts, error, (:now - died_at) / 1e3
    FROM dupeproof_outbox_dead ORDER BY seq LIMIT :most
"""
_DEAD_IDS = "SELECT seq, id FROM dupeproof_outbox_dead"
EXPIRED = "SELECT seq FROM dupeproof_outbox_sent WHERE purge_from <= :now ORDER BY purge_from LIMIT :most"


class Stuck(Struct):
    """What waits for another try, in one shard: those messages, and all with their keys."""

    seqs: list[int] = []
    keys: list[str] = []


def due(dialect: Dialect, stuck: Stuck) -> str:
    """Delayed messages whose time has come, then the others: in one statement, which has one view of both."""
    left_out = f"AND NOT ({_among('seq', stuck.seqs)})" if stuck.seqs else ""
    if stuck.keys:
        keys = ", ".join(_exact(dialect, f":key{number}") for number in range(len(stuck.keys)))
        left_out += f" AND (aggregateid IS NULL OR {_exact(dialect, 'aggregateid')} NOT IN ({keys}))"
    later = _DUE.format(part=0, where=_LATER, stuck=left_out, order="not_before, seq")
    now = _DUE.format(part=1, where="shard = :shard", stuck=left_out, order="seq")
    return f"{later} UNION ALL {now} ORDER BY part, moment, seq LIMIT :most"


def dead(dialect: Dialect, *, by_id: bool) -> str:
    """Dead messages, kept from everybody else until the end of the transaction."""
    where = f" WHERE {_exact(dialect, 'id')} = {_exact(dialect, ':id')}" if by_id else ""
    return _DEAD_IDS + where + _LOCKED[dialect]


def _exact(dialect: Dialect, text: str) -> str:
    """Compared byte by byte: MySQL's texts are equal to those with more spaces at the end."""
    return f"CAST({text} AS BINARY)" if dialect == "mysql" else text


def lease(shards: Iterable[int]) -> str:
    """What another one has taken meanwhile stays with it."""
    return f"""
        UPDATE dupeproof_outbox_shards
        SET taken_over = taken_over + CASE WHEN token <> :token THEN 1 ELSE 0 END, token = :token, lease_until = :until
        WHERE {_among("shard", shards)} AND (lease_until <= :now OR token = :token)
    """


def suspect(dialect: Dialect, seqs: Iterable[int]) -> str:
    """Those of a shard with which a relay has ended; `:attempts` is added to what is known."""
    among = f"{_among('seq', seqs)} AND shard IN (:shard, -1 - :shard)"
    attempts = "dupeproof_outbox_failing.attempts + :attempts"
    return f"{_FAIL} {among}{_CONFLICT[dialect]} attempts = {attempts}, retry_at = :retry_at, error = :error"


def owned(dialect: Dialect, shards: Iterable[int]) -> str:
    """Those of them that are ours, and stay so until the end of the transaction."""
    mine = f"SELECT shard FROM dupeproof_outbox_shards WHERE {_among('shard', shards)} AND token = :token ORDER BY shard"
    return mine + _LOCKED[dialect]


def keep(seqs: Iterable[int]) -> str:
    return (
        f"INSERT INTO dupeproof_outbox_sent ({_COLUMNS}, sent_at, purge_from) "
        f"SELECT {_COLUMNS}, :now, :until FROM dupeproof_outbox WHERE {_among('seq', seqs)}"
    )


def back(seqs: Iterable[int]) -> str:
    """From the dead to where they stood."""
    return (
        f"INSERT INTO dupeproof_outbox ({_COLUMNS}) "
        f"SELECT {_COLUMNS} FROM dupeproof_outbox_dead WHERE {_among('seq', seqs)}"
    )


def remove(table: str, seqs: Iterable[int]) -> str:
    return f"DELETE FROM {table} WHERE {_among('seq', seqs)}"


def _among(column: str, numbers: Iterable[int]) -> str:
    return f"{column} IN ({', '.join(map(str, numbers))})"
