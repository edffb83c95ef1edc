"""A response that is recorded in the handler's own transaction: how it is read, and what an earlier one means."""

from typing import Any

from dupeproof.errors import ConfigError, DupeproofError
from dupeproof.http.answers import Answer, readable
from dupeproof.http.handler_context import Handling
from dupeproof.http.headers import storable
from dupeproof.sql.faults import table_missing
from dupeproof.stores.record_statements import WrittenRecord

MISSING = table_missing("dupeproof_records", "idempotency")


class AlreadyDone(DupeproofError):
    """An earlier run has committed its work and its response, which is sent now. Let it pass; nothing is to be done.

    To another request than that run's, which only a store that has lost the key lets in, a refusal is sent.
    """


def found(handling: Handling, known: WrittenRecord | None) -> None:
    """Raises if an earlier run is found to have done the work."""
    claim = handling.claim
    if known is None or known.state not in ("done", "resolved") or known.token == claim.token:
        return
    stored = readable(claim.codec, known.result) if known.codec == claim.codec.name else None
    handling.done = stored or Answer(200, [], None)
    handling.reused = known.fingerprint != claim.fingerprint
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
