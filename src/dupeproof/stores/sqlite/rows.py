"""Records as rows of SQLite: the statements, and the values that go with them."""

import sqlite3

from dupeproof.core.records import NEVER, ClaimRequest, Finish, Record
from dupeproof.core.states import State

_COLUMNS = (
    "state, token, attempt, fingerprint, namespace, hold, created_at, lease_until, finished_at, expires_at, codec, error, "
    "window_ms, took_over, name, kept_key"
)
_READ = f"SELECT {_COLUMNS}, result FROM dupeproof_records WHERE key = ?"  # noqa: S608 - of our own pieces
_WAITING = (
    f"SELECT key, {_COLUMNS} FROM dupeproof_records "  # noqa: S608
    "WHERE purge_from = 0 ORDER BY created_at LIMIT ?"
)
_PAGE = f"SELECT key, {_COLUMNS} FROM dupeproof_records WHERE key > ? ORDER BY key LIMIT ?"  # noqa: S608
_FIND = "SELECT key FROM dupeproof_records WHERE key BETWEEN ? AND ? ORDER BY key LIMIT ?"
_WRITE = f"REPLACE INTO dupeproof_records VALUES ({', '.join('?' * 19)})"  # noqa: S608
_ADD = (
    "INSERT INTO dupeproof_records VALUES (?, 'running', ?, 1, ?, ?, ?, ?, ?, 0, ?, ?, '', '', x'', ?, 0, ?, ?) "
    "ON CONFLICT (key) DO NOTHING"
)
_CLOSE = (
    "UPDATE dupeproof_records SET state = 'done', finished_at = ?, expires_at = ?, codec = ?, result = ?, window_ms = ?, took_over = 0, error = '' "
    "WHERE key = ? AND token = ? AND state = 'running' AND expires_at > ? AND purge_from <= ?"
)
_REMOVE = "DELETE FROM dupeproof_records WHERE key = ?"


def read(connection: sqlite3.Connection, key: bytes) -> Record | None:
    row = connection.execute(_READ, (key,)).fetchone()
    if row is None:
        return None
    return _record(*row)


def waiting(connection: sqlite3.Connection, limit: int) -> list[tuple[bytes, Record]]:
    return [(key, _record(*row)) for key, *row in connection.execute(_WAITING, (limit,))]


def page(connection: sqlite3.Connection, after: bytes, limit: int) -> list[tuple[bytes, Record]]:
    return [(key, _record(*row)) for key, *row in connection.execute(_PAGE, (after, limit))]


def find(connection: sqlite3.Connection, digits: str, limit: int) -> list[bytes]:
    bounds = (bytes.fromhex(digits.ljust(32, end)) for end in "0f")
    return [key for (key,) in connection.execute(_FIND, (*bounds, limit))]


def _record(
    state: str, token: bytes, attempt: int, fingerprint: bytes, namespace: str, hold: int, created_at: int,
    lease_until: int, finished_at: int, expires_at: int, codec: str, error: str, window: int,
    took_over: int, name: str, kept_key: str, result: bytes = b"",
) -> Record:  # fmt: skip
    return Record(
        state=State(state),
        token=token,
        attempt=attempt,
        fingerprint=fingerprint,
        namespace=namespace,
        hold=bool(hold),
        created_at=created_at,
        lease_until=lease_until,
        finished_at=finished_at,
        expires_at=expires_at,
        codec=codec,
        error=error,
        result=result,
        window=window,
        took_over=bool(took_over),
        name=name,
        kept_key=kept_key,
    )


def write(connection: sqlite3.Connection, key: bytes, record: Record) -> None:
    if record.attempt == 0 and not record.result:
        remove(connection, key)
        return
    connection.execute(
        _WRITE,
        (
            key,
            str(record.state),
            record.token,
            record.attempt,
            record.fingerprint,
            record.namespace,
            record.hold,
            record.created_at,
            record.lease_until,
            record.finished_at,
            record.expires_at,
            record.expires_at,
            record.codec,
            record.error,
            record.result,
            record.window,
            record.took_over,
            record.name,
            record.kept_key,
        ),
    )


def remove(connection: sqlite3.Connection, key: bytes) -> None:
    connection.execute(_REMOVE, (key,))


def add(connection: sqlite3.Connection, request: ClaimRequest, now: int) -> bool:
    """The first claim of a key nobody knows, in one statement. False when the key is known."""
    terms = request.terms
    lease_until, purge_from = now + terms.lease, now + terms.window
    expires_at = lease_until + terms.window
    if terms.hold:
        expires_at = purge_from = NEVER
    values = (
        request.key, request.token, request.fingerprint, terms.namespace, terms.hold, now, lease_until,
        expires_at, purge_from, terms.window, terms.name, request.kept_key,
    )  # fmt: skip
    return connection.execute(_ADD, values).rowcount == 1


def close(connection: sqlite3.Connection, change: Finish, now: int) -> bool:
    """The finish of a running claim, in one statement. False when it takes a closer look."""
    expires_at = now + change.window
    values = (
        now, expires_at, change.codec, change.result, change.window, change.key, change.token, now, expires_at,
    )  # fmt: skip
    return not change.resolver and connection.execute(_CLOSE, values).rowcount == 1
