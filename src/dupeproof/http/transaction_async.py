"""The record of a request in the transaction that does its work."""

from types import TracebackType
from typing import Any, Self, TypeVar

from dupeproof.core.records import ClaimRequest
from dupeproof.errors import ClaimLost, ConfigError
from dupeproof.http import records
from dupeproof.http.answers import Answer
from dupeproof.http.handler_context import Handling, current
from dupeproof.sql import AsyncCallerConnection, Translated, adapt_async
from dupeproof.sql.statements import split
from dupeproof.stores import records_in_transaction_async as records_in_transaction
from dupeproof.stores.postgres.migrate_async import migrate
from dupeproof.stores.record_statements import check_dialect
from dupeproof.stores.sqlite.connection import SCHEMA

R = TypeVar("R")
_TRANSLATED = Translated(records.MISSING)


class AsyncRecording:
    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._handling: Handling | None = None
        self._connection_adapter: AsyncCallerConnection | None = None
        self._answer: Answer | None = None

    def __call__(self, response: R) -> R:
        """The response to record, which the handler is to return; given back as it is."""
        if self._handling is not None:
            whole = self._handling.whole
            self._answer = records.answer_of(response if whole is None else whole(response))
        return response

    async def __aenter__(self) -> Self:
        handling = current.get()
        if handling is None:
            return self  # no key, so there is nothing to record
        with _TRANSLATED:
            adapted = await adapt_async(self._connection)
            adapted.check_transaction()
            known = await records_in_transaction.read(adapted, handling.claim.digest)
        records.found(handling, known)
        self._handling, self._connection_adapter = handling, adapted
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if exc is not None or self._handling is None or self._connection_adapter is None:
            return
        if self._answer is None:
            raise ConfigError("hand over the response before the block ends: return keep(response)")
        claim = self._handling.claim
        request = ClaimRequest(claim.digest, claim.token, claim.terms, claim.fingerprint)
        result = claim.codec.encode(self._answer, Answer)
        with _TRANSLATED:
            written = await records_in_transaction.finish(
                self._connection_adapter, request, self._handling.attempt, result, claim.codec.name
            )
        if not written:
            raise ClaimLost("another run of this request came first; roll back, for its work is done there")


async def create_schema(connection: Any) -> None:
    """Make the tables in which responses are recorded; making them twice is fine."""
    with _TRANSLATED:
        adapted = await adapt_async(connection)
        check_dialect(adapted.dialect)
        if adapted.dialect == "postgresql":
            await migrate(adapted)
            return
        for statement in split(SCHEMA):
            await adapted.execute(statement)
