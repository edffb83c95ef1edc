"""The statements of an outbox that is read and written step by step, inside transactions, on SQLite, MariaDB and MySQL.

Times are milliseconds. Lanes and numbers of messages are ours, and stand in the text where there are many.
"""

from collections.abc import Iterable

from dupeproof.sql.statements import Dialect

# ruff: noqa: S608 - nothing of the caller's is in the text of a statement
FOR_EVER = 2**62
NOW_IN_MYSQL = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000"
_COLUMNS = "seq, lane, created_at, not_before, id, aggregatetype, aggregateid, type, payload, headers"
_NOT_STUCK = """
    (aggregateid IS NULL OR aggregateid NOT IN (
        SELECT `key` FROM dupeproof_outbox_failing WHERE retry_at > :now AND `key` IS NOT NULL))
    AND seq NOT IN (SELECT seq FROM dupeproof_outbox_failing WHERE retry_at > :now)
"""
_DUE_NOW = f"FROM dupeproof_outbox WHERE lane = :lane AND {_NOT_STUCK} ORDER BY seq"
_DUE_LATER = f"FROM dupeproof_outbox WHERE lane = -1 - :lane AND lane < 0 AND not_before <= :now AND {_NOT_STUCK} ORDER BY not_before, seq"
_ANY_DUE = " OR ".join(
    f"EXISTS (SELECT 1 {due.replace(':lane', 'dupeproof_outbox_lanes.lane')})"
    for due in (_DUE_NOW, _DUE_LATER)
)
NO_LANES = "SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM dupeproof_outbox_lanes)"
MAKE_LANE: dict[Dialect, str] = {
    "sqlite": "INSERT OR IGNORE INTO dupeproof_outbox_lanes (lane) VALUES (:lane)",
    "mysql": "INSERT IGNORE INTO dupeproof_outbox_lanes (lane) VALUES (:lane)",
}
FREE = f"""
    SELECT lane FROM dupeproof_outbox_lanes WHERE (lease_until <= :now OR token = :token) AND ({_ANY_DUE})
    ORDER BY lease_until LIMIT :lanes
"""
_MESSAGE = """
    SELECT lane, seq, id, aggregatetype, aggregateid, type, payload, headers,
           (:now - coalesce(not_before, created_at)) / 1e3,
           coalesce((SELECT attempts FROM dupeproof_outbox_failing AS f WHERE f.seq = dupeproof_outbox.seq), 0)
"""
READ = [f"{_MESSAGE} {due} LIMIT :most" for due in (_DUE_LATER, _DUE_NOW)]
COUNT_SENT = "UPDATE dupeproof_outbox_lanes SET sent = sent + :number WHERE lane = :lane"
_FAIL = """
    INSERT INTO dupeproof_outbox_failing (seq, lane, `key`, attempts, retry_at, error)
    SELECT seq, lane, aggregateid, 1, :retry_at, :error FROM dupeproof_outbox WHERE seq = :seq
"""
FAIL: dict[Dialect, str] = {
    "sqlite": f"{_FAIL} ON CONFLICT (seq) DO UPDATE SET attempts = attempts + 1, retry_at = :retry_at, error = :error",
    "mysql": f"{_FAIL} ON DUPLICATE KEY UPDATE attempts = attempts + 1, retry_at = :retry_at, error = :error",
}
BURY = f"""
    INSERT INTO dupeproof_outbox_dead ({_COLUMNS}, died_at, attempts, error)
    SELECT o.{_COLUMNS.replace(", ", ", o.")}, :now, f.attempts, f.error
    FROM dupeproof_outbox AS o JOIN dupeproof_outbox_failing AS f ON f.seq = o.seq WHERE o.seq = :seq
"""
KEY_WAITS = "UPDATE dupeproof_outbox_failing SET retry_at = :retry_at WHERE seq = :seq AND `key` IS NOT NULL"
NO_KEY = "DELETE FROM dupeproof_outbox_failing WHERE seq = :seq AND `key` IS NULL"
GIVE_BACK = "UPDATE dupeproof_outbox_lanes SET token = NULL, lease_until = :now WHERE token = :token"
STATUS = """
    SELECT (SELECT count(*) FROM dupeproof_outbox WHERE coalesce(not_before, 0) <= :now),
           (SELECT count(*) FROM dupeproof_outbox WHERE not_before > :now),
           (SELECT (:now - min(coalesce(not_before, created_at))) / 1e3 FROM dupeproof_outbox
            WHERE coalesce(not_before, 0) <= :now),
           (SELECT count(*) FROM dupeproof_outbox_failing WHERE retry_at < :ever),
           (SELECT count(*) FROM dupeproof_outbox_dead),
           (SELECT count(*) FROM dupeproof_outbox_sent),
           (SELECT count(DISTINCT token) FROM dupeproof_outbox_lanes WHERE lease_until > :now),
           (SELECT coalesce(sum(sent), 0) FROM dupeproof_outbox_lanes),
           (SELECT coalesce(sum(taken_over), 0) FROM dupeproof_outbox_lanes)
"""
DEAD = """
    SELECT id, aggregatetype, aggregateid, type, attempts, error, (:now - died_at) / 1e3
    FROM dupeproof_outbox_dead ORDER BY seq LIMIT :most
"""
ALL_DEAD = "SELECT seq, id FROM dupeproof_outbox_dead"
DEAD_BY_ID = f"{ALL_DEAD} WHERE id = :id"
EXPIRED = "SELECT seq FROM dupeproof_outbox_sent WHERE purge_from <= :now ORDER BY purge_from LIMIT :most"


def lease(lanes: Iterable[int]) -> str:
    """What another one has taken meanwhile stays with it."""
    return f"""
        UPDATE dupeproof_outbox_lanes
        SET taken_over = taken_over + CASE WHEN token <> :token THEN 1 ELSE 0 END, token = :token, lease_until = :until
        WHERE {_among("lane", lanes)} AND (lease_until <= :now OR token = :token)
    """


def owned(dialect: Dialect, lanes: Iterable[int]) -> str:
    """Those of them that are ours, and stay so until the end of the transaction."""
    locked = {"sqlite": "", "mysql": " FOR UPDATE"}[dialect]
    return f"SELECT lane FROM dupeproof_outbox_lanes WHERE {_among('lane', lanes)} AND token = :token ORDER BY lane{locked}"


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
