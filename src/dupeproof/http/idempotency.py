"""For handlers: the request with a key that is being handled.

from dupeproof.http import idempotency

idempotency.attempt()             # 1, or more when an earlier run failed or vanished
idempotency.child_key("charge")   # to pass downstream: the same in every attempt, another for every name
idempotency.store()               # whatever the status; also release() and hold()

with session.begin(), idempotency.transaction(session) as keep:
    ...                           # your work, and the record of it, committed together
    return keep(response)

Ask and decide before the response begins: a stream comes to its chunks when the handler is over.
"""

from types import TracebackType
from typing import Any

from dupeproof.errors import KeyMissing
from dupeproof.http.handler_context import Handling, current
from dupeproof.http.statuses import Fate
from dupeproof.http.transaction import Recording, create_schema
from dupeproof.http.transaction_async import AsyncRecording
from dupeproof.http.transaction_async import create_schema as create_schema_async

__all__ = [
    "attempt",
    "child_key",
    "create_schema",
    "create_schema_async",
    "hold",
    "is_guarded",
    "release",
    "store",
    "transaction",
]


class Transaction:
    """What `transaction` gives: to be entered with `with` or `async with`, as the connection is."""

    def __init__(self, connection: Any) -> None:
        self._sync = Recording(connection)
        self._async = AsyncRecording(connection)

    def __enter__(self) -> Recording:
        return self._sync.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._sync.__exit__(kind, exc, traceback)

    async def __aenter__(self) -> AsyncRecording:
        return await self._async.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._async.__aexit__(kind, exc, traceback)


def transaction(connection: Any) -> Transaction:
    """Record the response in your own transaction, on a connection or session of any kind that the inbox takes.

        with session.begin(), idempotency.transaction(session) as keep:
            session.add(order)
            return keep(JSONResponse({"id": order.id}, 201))

    Your work and its record are committed together or not at all, so a crash anywhere leaves neither or both, and a run
    that lost its key cannot commit. The record is made when the inner block ends; committing stays yours. It raises when
    an earlier run has committed: let that pass, its response is sent. Without a key it does nothing.
    """
    return Transaction(connection)


def is_guarded() -> bool:
    """Whether this request has a key, and is handled under it."""
    return current.get() is not None


def attempt() -> int:
    """Which attempt at this key this is, from 1."""
    return _current().attempt


def child_key(name: str) -> str:
    """A key for a request that this one makes. Each name gives one, which is the same in every attempt."""
    return _current().child_key(name)


def store() -> None:
    """Store the response, whatever its status."""
    _current().decide(Fate.STORE)


def release() -> None:
    """Nothing was done: let the next request with this key run, whatever the status of this response."""
    _current().decide(Fate.RELEASE)


def hold() -> None:
    """Nobody knows what was done: no other run of this key until someone has resolved it."""
    _current().decide(Fate.HOLD)


def _current() -> Handling:
    handling = current.get()
    if handling is None:
        raise KeyMissing(
            "this request is not handled under a key; ask is_guarded() first, or require keys with required=True"
        )
    return handling
