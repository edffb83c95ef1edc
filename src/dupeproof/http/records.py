"""A record and its response in the handler's own database: the statements, and how a response is read.

A record is written in one step: new, or in place of this very claim's, or of one that has expired. Whoever finds anything
else there is not the owner of the key any more, and has to roll back.
"""

from typing import Any

from dupeproof.errors import ConfigError, DupeproofError
from dupeproof.http.answers import Answer, readable
from dupeproof.http.handler_context import Handling
from dupeproof.http.headers import storable
from dupeproof.sql.faults import table_missing
from dupeproof.sql.statements import Dialect

MISSING = table_missing("dupeproof_records", "idempotency")
_SQLITE_NOW = "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)"
_POSTGRES_UNTIL = "clock_timestamp() + CAST(:window AS bigint) * interval '1 millisecond'"

_COLUMNS = (
    "(key, state, token, attempt, fingerprint, namespace, hold, created_at, lease_until, finished_at, expires_at,"
    " purge_from, codec, error, result)"
)
_OVERWRITE = (
    " ON CONFLICT (key) DO UPDATE SET state = 'done', token = excluded.token, attempt = excluded.attempt,"
    " fingerprint = excluded.fingerprint, finished_at = excluded.finished_at, expires_at = excluded.expires_at,"
    " codec = excluded.codec, error = '', result = excluded.result,"
)
WRITE: dict[Dialect, str] = {
    "postgresql": "INSERT INTO dupeproof_records AS known "  # noqa: S608 - of our own pieces
    + _COLUMNS
    + " VALUES (CAST(CAST(:key AS text) AS uuid), 'done', decode(CAST(:token AS text), 'hex'), CAST(:attempt AS integer),"
    " decode(CAST(:fingerprint AS text), 'hex'), CAST(:namespace AS text), false,"
    " clock_timestamp(), clock_timestamp(), clock_timestamp(),"
    f" {_POSTGRES_UNTIL}, {_POSTGRES_UNTIL}, CAST(:codec AS text), '', decode(CAST(:result AS text), 'hex'))"
    + _OVERWRITE
    + " purge_from = least(known.purge_from, excluded.purge_from)"
    " WHERE (known.token = excluded.token AND known.state = 'running') OR known.expires_at <= clock_timestamp()",
    "sqlite": "INSERT INTO dupeproof_records "  # noqa: S608
    + _COLUMNS
    + " VALUES (:key, 'done', :token, :attempt, :fingerprint, :namespace, 0,"
    f" {_SQLITE_NOW}, {_SQLITE_NOW}, {_SQLITE_NOW}, {_SQLITE_NOW} + :window, {_SQLITE_NOW} + :window, :codec, '', :result)"
    + _OVERWRITE
    + " purge_from = CASE WHEN dupeproof_records.purge_from > 0"
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


class AlreadyDone(DupeproofError):
    """An earlier run has committed its work and its response, which is sent now. Let it pass; nothing is to be done.

    To another request than that run's, which only a store that has lost the key lets in, a refusal is sent.
    """


def check_dialect(dialect: Dialect) -> None:
    if dialect not in WRITE:
        raise ConfigError("responses are recorded in PostgreSQL and SQLite; for others leave it to the store")


def parameters(dialect: Dialect, handling: Handling, answer: Answer | None = None) -> dict[str, Any]:
    """Of a response to write, or of the key alone."""
    values: dict[str, Any] = {"key": handling.claim.digest}
    if answer is not None:
        values |= {
            "token": handling.claim.token,
            "fingerprint": handling.claim.fingerprint,
            "result": handling.claim.codec.encode(answer, Answer),
        }
    if dialect == "postgresql":
        values = {name: value.hex() for name, value in values.items()}
    if answer is not None:
        terms = handling.claim.terms
        values |= {
            "attempt": handling.attempt,
            "namespace": terms.namespace,
            "window": terms.window,
            "codec": handling.claim.codec.name,
        }
    return values


def found(handling: Handling, rows: list[tuple[Any, ...]]) -> None:
    """Raises if an earlier run is found to have done the work."""
    for state, token, compared, result, codec in rows:
        if state == "done" and token != handling.claim.token.hex():
            own = handling.claim.codec
            known = readable(own, bytes.fromhex(result)) if codec == own.name else None
            handling.done = known or Answer(200, [], None)
            handling.reused = compared != handling.claim.fingerprint.hex()
            raise AlreadyDone("this request was completed by an earlier run, whose response is sent again")


def answer_of(response: Any) -> Answer:
    """A response object of Starlette, Flask or Django, as it is stored."""
    if hasattr(response, "raw_headers") and hasattr(response, "body"):
        headers, body = list(response.raw_headers), bytes(response.body)
    elif hasattr(response, "get_data"):
        headers, body = _encoded(response.headers.items()), response.get_data()
    elif hasattr(response, "content"):
        headers, body = _encoded(response.items()), response.content
    else:
        raise ConfigError(
            "give the response object that the handler returns, with its whole body, which a stream or a file has not; "
            f"got a {type(response).__qualname__}"
        )
    return Answer(response.status_code, storable(headers), body)


def _encoded(headers: Any) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
