"""The record of finished work in the caller's own transaction: the statements that write and read it. Pure.

A record is written in one step: new, or in place of this very claim's, or of one that has expired, as
`core.decisions.finish_in_transaction` decides. Whoever finds anything else there is not the owner of the key any more, and
has to roll back.
"""

from typing import Any

from msgspec import Struct

from dupeproof.core.records import ClaimRequest
from dupeproof.errors import ConfigError
from dupeproof.sql.statements import Dialect

_SQLITE_NOW = "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)"
_POSTGRES_UNTIL = "clock_timestamp() + CAST(:window AS bigint) * interval '1 millisecond'"

_COLUMNS = (
    "(key, state, token, attempt, fingerprint, namespace, hold, created_at, lease_until, finished_at, expires_at,"
    " purge_from, codec, error, result, window_ms, name, kept_key)"
)
_OVERWRITE = (
    " ON CONFLICT (key) DO UPDATE SET state = 'done', token = excluded.token, attempt = excluded.attempt,"
    " fingerprint = excluded.fingerprint, finished_at = excluded.finished_at, expires_at = excluded.expires_at,"
    " codec = excluded.codec, error = '', result = excluded.result, window_ms = excluded.window_ms,"
)
WRITE: dict[Dialect, str] = {
    "postgresql": "INSERT INTO dupeproof_records AS known "  # noqa: S608 - of our own pieces
    + _COLUMNS
    + " VALUES (CAST(CAST(:key AS text) AS uuid), 'done', decode(CAST(:token AS text), 'hex'), CAST(:attempt AS integer),"
    " decode(CAST(:fingerprint AS text), 'hex'), CAST(:namespace AS text), false,"
    " clock_timestamp(), clock_timestamp(), clock_timestamp(),"
    f" {_POSTGRES_UNTIL}, {_POSTGRES_UNTIL}, CAST(:codec AS text), '', decode(CAST(:result AS text), 'hex'),"
    " CAST(:window AS bigint), CAST(:name AS text), CAST(:kept_key AS text))"
    + _OVERWRITE
    + " purge_from = least(known.purge_from, excluded.purge_from)"
    " WHERE (known.token = excluded.token AND known.state = 'running') OR known.expires_at <= clock_timestamp()",
    "sqlite": "INSERT INTO dupeproof_records "  # noqa: S608
    + _COLUMNS
    + " VALUES (:key, 'done', :token, :attempt, :fingerprint, :namespace, 0,"
    f" {_SQLITE_NOW}, {_SQLITE_NOW}, {_SQLITE_NOW}, {_SQLITE_NOW} + :window, {_SQLITE_NOW} + :window, :codec, '', :result,"
    " :window, :name, :kept_key)" + _OVERWRITE + " purge_from = CASE WHEN dupeproof_records.purge_from > 0"
    " THEN min(dupeproof_records.purge_from, excluded.purge_from) ELSE excluded.purge_from END"
    " WHERE (dupeproof_records.token = excluded.token AND dupeproof_records.state = 'running')"
    f" OR (dupeproof_records.expires_at > 0 AND dupeproof_records.expires_at <= {_SQLITE_NOW})",
}
READ: dict[Dialect, str] = {
    "postgresql": "SELECT state, encode(token, 'hex'), encode(fingerprint, 'hex'), encode(result, 'hex'), codec"
    " FROM dupeproof_records"
    " WHERE key = CAST(CAST(:key AS text) AS uuid) AND expires_at > clock_timestamp()",
    "sqlite": "SELECT state, lower(hex(token)), lower(hex(fingerprint)), hex(result), codec"  # noqa: S608
    " FROM dupeproof_records"
    f" WHERE key = :key AND (expires_at = 0 OR expires_at > {_SQLITE_NOW})",
}


class WrittenRecord(Struct, frozen=True):
    """What is there under a key, as far as who wants to finish it in a transaction needs to know."""

    state: str
    token: bytes
    fingerprint: bytes
    result: bytes
    codec: str


def check_dialect(dialect: Dialect) -> None:
    if dialect not in WRITE:
        raise ConfigError("responses are recorded in PostgreSQL and SQLite; for others leave it to the store")


def key_values(dialect: Dialect, key: bytes) -> dict[str, Any]:
    return _sent(dialect, {"key": key})


def done_values(
    dialect: Dialect, request: ClaimRequest, attempt: int, result: bytes, codec: str
) -> dict[str, Any]:
    values = {
        "key": request.key,
        "token": request.token,
        "fingerprint": request.fingerprint,
        "result": result,
    }
    terms = request.terms
    return _sent(dialect, values) | {
        "attempt": attempt,
        "namespace": terms.namespace,
        "window": terms.window,
        "codec": codec,
        "name": terms.name,
        "kept_key": request.kept_key,
    }


def _sent(dialect: Dialect, values: dict[str, bytes]) -> dict[str, Any]:
    """Drivers differ in how they pass bytes to PostgreSQL. All pass text."""
    if dialect == "postgresql":
        return {name: value.hex() for name, value in values.items()}
    return dict(values)
