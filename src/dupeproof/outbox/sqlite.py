"""The outbox in an SQLite file. Whoever writes has the file to itself, so a decision is reads and writes in a row."""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from dupeproof.core.clock import Clock, system_clock
from dupeproof.outbox.messages import LANES, Message, message_of
from dupeproof.outbox.reports import DeadMessage, Failure, OutboxStatus, Settlement
from dupeproof.stores.sqlite.connection import Database, transaction

P = ParamSpec("P")
R = TypeVar("R")
_FOR_EVER = 2**62
_COLUMNS = "seq, lane, created_at, not_before, id, aggregatetype, aggregateid, type, payload, headers"
# ruff: noqa: S608 - nothing of the caller's is in the text of a statement
_NOT_STUCK = """
    (aggregateid IS NULL OR aggregateid NOT IN (
        SELECT key FROM dupeproof_outbox_failing WHERE retry_at > :now AND key IS NOT NULL))
    AND seq NOT IN (SELECT seq FROM dupeproof_outbox_failing WHERE retry_at > :now)
"""
_DUE_NOW = f"FROM dupeproof_outbox WHERE lane = :lane AND {_NOT_STUCK} ORDER BY seq"
_DUE_LATER = f"FROM dupeproof_outbox WHERE lane = -1 - :lane AND lane < 0 AND not_before <= :now AND {_NOT_STUCK} ORDER BY not_before, seq"
_ANY_DUE = " OR ".join(
    f"EXISTS (SELECT 1 {due.replace(':lane', 'dupeproof_outbox_lanes.lane')})"
    for due in (_DUE_NOW, _DUE_LATER)
)
_NO_LANES = "SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM dupeproof_outbox_lanes)"
_MAKE_LANES = "INSERT OR IGNORE INTO dupeproof_outbox_lanes (lane) VALUES (?)"
_FREE = f"""
    SELECT lane FROM dupeproof_outbox_lanes WHERE (lease_until <= :now OR token = :token) AND ({_ANY_DUE})
    ORDER BY lease_until LIMIT :lanes
"""
_LEASE = """
    UPDATE dupeproof_outbox_lanes
    SET taken_over = taken_over + CASE WHEN token <> :token THEN 1 ELSE 0 END, token = :token, lease_until = :until
    WHERE lane = :lane
"""
_MESSAGE = """
    SELECT lane, seq, id, aggregatetype, aggregateid, type, payload, headers,
           (:now - coalesce(not_before, created_at)) / 1000.0,
           coalesce((SELECT attempts FROM dupeproof_outbox_failing AS f WHERE f.seq = dupeproof_outbox.seq), 0)
"""
_READ = [f"{_MESSAGE} {due} LIMIT :most" for due in (_DUE_LATER, _DUE_NOW)]
_KEEP = f"INSERT INTO dupeproof_outbox_sent ({_COLUMNS}, sent_at, purge_from) SELECT {_COLUMNS}, ?, ? FROM dupeproof_outbox WHERE seq = ?"
_REMOVE = "DELETE FROM dupeproof_outbox WHERE seq = ?"
_RECOVERED = "DELETE FROM dupeproof_outbox_failing WHERE seq = ?"
_COUNT_SENT = "UPDATE dupeproof_outbox_lanes SET sent = sent + 1 WHERE lane = max(?1, -1 - ?1)"
_OWNS = "SELECT 1 FROM dupeproof_outbox_lanes WHERE lane = max(?1, -1 - ?1) AND token = ?2"
_FAIL = """
    INSERT INTO dupeproof_outbox_failing (seq, lane, key, attempts, retry_at, error)
    SELECT seq, lane, aggregateid, 1, :retry_at, :error FROM dupeproof_outbox WHERE seq = :seq
    ON CONFLICT (seq) DO UPDATE SET attempts = attempts + 1, retry_at = excluded.retry_at, error = excluded.error
"""
_BURY = f"""
    INSERT INTO dupeproof_outbox_dead ({_COLUMNS}, died_at, attempts, error)
    SELECT o.{_COLUMNS.replace(", ", ", o.")}, :now, f.attempts, f.error
    FROM dupeproof_outbox AS o JOIN dupeproof_outbox_failing AS f USING (seq) WHERE o.seq = :seq
"""
_KEY_WAITS = "UPDATE dupeproof_outbox_failing SET retry_at = ? WHERE seq = ? AND key IS NOT NULL"
_NO_KEY = "DELETE FROM dupeproof_outbox_failing WHERE seq = ? AND key IS NULL"
_GIVE_BACK = "UPDATE dupeproof_outbox_lanes SET token = NULL, lease_until = ? WHERE token = ?"
_STATUS = """
    SELECT (SELECT count(*) FROM dupeproof_outbox WHERE coalesce(not_before, 0) <= :now),
           (SELECT count(*) FROM dupeproof_outbox WHERE not_before > :now),
           (SELECT (:now - min(coalesce(not_before, created_at))) / 1000.0 FROM dupeproof_outbox
            WHERE coalesce(not_before, 0) <= :now),
           (SELECT count(*) FROM dupeproof_outbox_failing WHERE retry_at < :ever),
           (SELECT count(*) FROM dupeproof_outbox_dead),
           (SELECT count(*) FROM dupeproof_outbox_sent),
           (SELECT count(DISTINCT token) FROM dupeproof_outbox_lanes WHERE lease_until > :now),
           (SELECT coalesce(sum(sent), 0) FROM dupeproof_outbox_lanes),
           (SELECT coalesce(sum(taken_over), 0) FROM dupeproof_outbox_lanes)
"""
_DEAD = """
    SELECT id, aggregatetype, aggregateid, type, attempts, error, (? - died_at) / 1000.0
    FROM dupeproof_outbox_dead ORDER BY seq LIMIT ?
"""
_DEAD_BY_ID = "SELECT seq, id FROM dupeproof_outbox_dead WHERE ?1 IS NULL OR id = ?1"
_BACK = (
    f"INSERT INTO dupeproof_outbox ({_COLUMNS}) SELECT {_COLUMNS} FROM dupeproof_outbox_dead WHERE seq = ?"
)
_GONE = "DELETE FROM dupeproof_outbox_dead WHERE seq = ?"
_PURGE = """
    DELETE FROM dupeproof_outbox_sent
    WHERE seq IN (SELECT seq FROM dupeproof_outbox_sent WHERE purge_from <= ? ORDER BY purge_from LIMIT ?)
"""


class SQLiteSource:
    def __init__(self, database: Database, clock: Clock = system_clock) -> None:
        self._database = database
        self._clock = clock

    def take(self, token: bytes, lease: int, lanes: int, most: int) -> list[Message]:
        return self._database.run(self._take, token, lease, lanes, most)

    def _take(
        self, connection: sqlite3.Connection, token: bytes, lease: int, lanes: int, most: int
    ) -> list[Message]:
        if connection.execute(_NO_LANES).fetchone() is not None:
            with transaction(connection):
                connection.executemany(_MAKE_LANES, [(lane,) for lane in range(LANES)])
        wanted = {"now": self._clock(), "token": token, "lanes": lanes}
        if connection.execute(_FREE, wanted).fetchone() is None:
            return []  # without the write lock: whoever finds nothing to do disturbs nobody
        with transaction(connection):
            wanted["now"] = now = self._clock()
            taken = [lane for (lane,) in connection.execute(_FREE, wanted)]
            rows = []
            for lane in taken:
                connection.execute(_LEASE, {"token": token, "until": now + lease, "lane": lane})
                share = max(1, most // len(taken))
                for read in _READ:
                    found = connection.execute(read, {"now": now, "lane": lane, "most": share}).fetchall()
                    share -= len(found)
                    rows += found
        return [message_of(row) for row in rows]

    def settle(self, settlement: Settlement) -> int:
        return self._database.run(self._settle, settlement)

    def _settle(self, connection: sqlite3.Connection, settlement: Settlement) -> int:
        with transaction(connection):
            now, removed = self._clock(), 0
            for lane, seq in settlement.sent:
                if settlement.keep:
                    connection.execute(_KEEP, (now, now + settlement.keep, seq))
                removed += connection.execute(_REMOVE, (seq,)).rowcount
                connection.execute(_COUNT_SENT, (lane,))
                connection.execute(_RECOVERED, (seq,))
            for failure in settlement.failed:
                lane = failure.message.place[0]
                if connection.execute(_OWNS, (lane, settlement.token)).fetchone() is not None:
                    _failed(connection, failure, now, key_waits=settlement.key_waits)
            connection.execute(_GIVE_BACK, (now, settlement.token))
        return removed

    def status(self) -> OutboxStatus:
        [row] = self._ask(_STATUS, {"now": self._clock(), "ever": _FOR_EVER})
        return OutboxStatus(*row)

    def dead(self, limit: int) -> list[DeadMessage]:
        return [DeadMessage(*row) for row in self._ask(_DEAD, (self._clock(), limit))]

    def retry(self, ids: Sequence[str] | None) -> list[str]:
        return self._database.run(_move, ids, (_BACK, _GONE, _RECOVERED))

    def drop(self, ids: Sequence[str] | None) -> list[str]:
        return self._database.run(_move, ids, (_GONE, _RECOVERED))

    def purge(self, limit: int) -> int:
        return self._database.run(
            lambda connection: connection.execute(_PURGE, (self._clock(), limit)).rowcount
        )

    def wake_socket(self) -> int | None:
        return None

    def woken(self) -> None:
        """Nobody wakes a relay on a file."""

    def close(self) -> None:
        self._database.close()

    def _ask(self, statement: str, parameters: dict[str, int] | tuple[int, ...]) -> list[tuple[Any, ...]]:
        return self._database.run(lambda connection: connection.execute(statement, parameters).fetchall())


def _failed(connection: sqlite3.Connection, failure: Failure, now: int, *, key_waits: bool) -> None:
    seq = failure.message.place[1]
    connection.execute(_FAIL, {"seq": seq, "retry_at": now + failure.delay, "error": failure.error})
    if failure.buried:
        connection.execute(_BURY, {"seq": seq, "now": now})
        connection.execute(_REMOVE, (seq,))
        if key_waits:
            connection.execute(_KEY_WAITS, (_FOR_EVER, seq))
        connection.execute(_NO_KEY if key_waits else _RECOVERED, (seq,))


def _move(connection: sqlite3.Connection, ids: Sequence[str] | None, steps: Sequence[str]) -> list[str]:
    moved = []
    with transaction(connection):
        for wanted in [None] if ids is None else ids:
            for seq, ident in connection.execute(_DEAD_BY_ID, (wanted,)).fetchall():
                for step in steps:
                    connection.execute(step, (seq,))
                moved.append(ident)
    return moved


class AsyncSQLiteSource:
    """One worker thread does the file I/O, so the event loop never waits for a disk."""

    def __init__(self, source: SQLiteSource) -> None:
        self._source = source
        self._worker: ThreadPoolExecutor | None = None

    async def _run(self, verb: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        if self._worker is None:
            self._worker = ThreadPoolExecutor(1, thread_name_prefix="dupeproof-outbox")
        return await asyncio.get_running_loop().run_in_executor(self._worker, lambda: verb(*args, **kwargs))

    async def take(self, token: bytes, lease: int, lanes: int, most: int) -> list[Message]:
        return await self._run(self._source.take, token, lease, lanes, most)

    async def settle(self, settlement: Settlement) -> int:
        return await self._run(self._source.settle, settlement)

    async def status(self) -> OutboxStatus:
        return await self._run(self._source.status)

    async def dead(self, limit: int) -> list[DeadMessage]:
        return await self._run(self._source.dead, limit)

    async def retry(self, ids: Sequence[str] | None) -> list[str]:
        return await self._run(self._source.retry, ids)

    async def drop(self, ids: Sequence[str] | None) -> list[str]:
        return await self._run(self._source.drop, ids)

    async def purge(self, limit: int) -> int:
        return await self._run(self._source.purge, limit)

    async def wake_socket(self) -> int | None:
        return None

    def woken(self) -> None:
        """Nobody wakes a relay on a file."""

    async def close(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            await asyncio.get_running_loop().run_in_executor(worker, self._source.close)
            worker.shutdown(wait=False)
