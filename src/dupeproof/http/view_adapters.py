"""What the guard around a view needs to know of a framework's requests and responses."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple, Protocol, TypeVar

from dupeproof.http.answers import Answer, Headers
from dupeproof.http.rules import Rules

R = TypeVar("R")
READ_BEFORE = "something has read the body of this request away, so it cannot be compared; let that use {}, which keeps it"


class ReadBody(NamedTuple):
    content_type: bytes
    chunks: Iterable[bytes]


class Incoming(Protocol):
    """A request of the framework's. Nothing of its body is read before `body` is called."""

    request: Any
    method: str
    path: str
    query: bytes
    environ: dict[str, Any]

    def header_values(self, header: str) -> Sequence[str]: ...

    def body(self, limit: int) -> ReadBody:
        """The body, which the view can still read after. Raises `Refused`."""
        ...


class Framework(Protocol[R]):
    def respond(self, answer: Answer) -> R: ...

    def status(self, response: R) -> int: ...

    def seen(self, response: R, rules: Rules) -> Any:
        """The response as it will go out, an `Answer`; its body None where it is a stream, or larger than the limit.

        To be awaited where the response is read from an async iterator.
        """
        ...

    def add(self, response: R, headers: Headers) -> None: ...


def read_whole(chunks: Iterator[bytes], rules: Rules) -> tuple[bytes | None, Iterator[bytes]]:
    """The body of a response in pieces, None if it is too large or its end too far; and the pieces once more."""
    read: list[bytes] = []
    size, ends = 0, time.monotonic() + rules.stream_after
    for chunk in chunks:
        read.append(chunk)
        size += len(chunk)
        if size > rules.response_limit or time.monotonic() > ends:
            return None, chain(read, chunks)
    body = b"".join(read)
    return body, iter((body,))


async def read_whole_async(
    chunks: AsyncIterator[bytes], rules: Rules
) -> tuple[bytes | None, AsyncIterator[bytes]]:
    """The same; one that lets others wait for longer than it may is waited for no more, and not cancelled."""
    read: list[bytes] = []
    size, ends = 0, time.monotonic() + rules.stream_after
    while True:
        coming = asyncio.ensure_future(_next(chunks))
        await asyncio.wait([coming], timeout=max(0.0, ends - time.monotonic()))
        if not coming.done():
            return None, _chained(read, coming, chunks)
        chunk = await coming
        if chunk is None:
            body = b"".join(read)
            return body, _chained([body])
        read.append(chunk)
        size += len(chunk)
        if size > rules.response_limit:
            return None, _chained(read, None, chunks)


async def _next(chunks: AsyncIterator[bytes]) -> bytes | None:
    return await anext(chunks, None)


async def _chained(
    read: Iterable[bytes],
    coming: Awaitable[bytes | None] | None = None,
    chunks: AsyncIterator[bytes] | None = None,
) -> AsyncIterator[bytes]:
    for chunk in read:
        yield chunk
    if coming is not None:
        awaited = await coming
        if awaited is None:
            return
        yield awaited
    if chunks is not None:
        async for chunk in chunks:
            yield chunk
