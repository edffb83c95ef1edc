# No twin: nats-py is for tasks only, and is driven here by the thread that uses it.
"""Dead letters in a stream of JetStream, found by their subject."""

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, TypeVar

from dupeproof.brokers.base import ATTEMPTS, ORIGIN, REASON, TOPIC
from dupeproof.brokers.dead import GONE, DeadLetter, as_count, nothing_there, places_of
from dupeproof.brokers.errors import NotPublished
from dupeproof.brokers.nats import wire
from dupeproof.brokers.nats.driver_async import TIMEOUT, check_url, connect, leave, streams, translated
from dupeproof.brokers.nats.publisher_async import confirmed
from dupeproof.core.crashes import armed, reached

T = TypeVar("T")
_NO_SUCH = (10037, 10043)
"""Numbers of the server's errors: no message with this number, or of this subject after it."""


class NatsDeadLetters:
    def __init__(self, url: str, queue: str, dead: str | None) -> None:
        if dead is None and not wire.has_wildcards(queue):
            self._source, self.name = places_of(queue, None)
        else:
            self._source, self.name = queue, wire.dead_subject(queue, dead)
        self._url = check_url(url)
        self._runner = asyncio.Runner()
        self._client: Any = None

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        async def translated_() -> T:
            with translated(self._url, self.name, lambda: self._client):
                return await work

        return self._runner.run(translated_())

    def open(self) -> None:
        self._runner = asyncio.Runner()
        self._run(self._open())

    async def _open(self) -> None:
        self._client = await connect(self._url)
        self._streams = self._client.jetstream(timeout=TIMEOUT)
        self._stream = await self._stream_of(self.name)
        if not self._stream and not await self._stream_of(self._source):
            raise nothing_there("subject", self._source, self.name)

    async def _stream_of(self, subject: str) -> str:
        try:
            return str(await self._streams.find_stream_name_by_subject(subject))
        except streams.NotFoundError:
            return ""

    def scan(self, most: int) -> Iterator[DeadLetter]:
        """One by one, which makes no consumer and changes nothing; up to the last that is there now."""
        if not self._stream:
            return
        last = self._run(self._streams.stream_info(self._stream)).state.last_seq
        number = 0
        while most > 0 and number < last:
            raw = self._run(self._next(number + 1))
            if raw is None or raw.seq > last:
                return
            number, most = raw.seq, most - 1
            yield self._letter(raw)

    async def _next(self, number: int) -> Any:
        try:
            return await self._streams.get_msg(self._stream, seq=number, subject=self.name, next=True)
        except streams.NotFoundError as exc:
            if exc.err_code not in _NO_SUCH:
                raise
            return None

    def _letter(self, raw: Any) -> DeadLetter:
        told = wire.headers_of(raw)
        named = [each for each in (told.get(TOPIC), told.get(ORIGIN), self._source) if each]
        queue = next((each for each in named if not wire.has_wildcards(each)), None)
        ident = f"retry-{self._stream}-{raw.seq}-{raw.time.timestamp():.6f}"
        headers = wire.revived(told, ident)
        return DeadLetter(
            place=f"@{raw.seq}",
            queue=queue,
            reason=told.get(REASON, ""),
            attempts=as_count(told.get(ATTEMPTS)),
            died=raw.time,
            message=wire.stored(raw, headers, queue or self.name).message,
            receipt=(raw, headers),
        )

    def keep(self, letter: DeadLetter) -> None:
        """To read it has changed nothing."""

    def put_back(self, letters: Sequence[DeadLetter]) -> list[NotPublished | None]:
        return [self._run(self._put_back(letter)) for letter in letters]

    async def _put_back(self, letter: DeadLetter) -> NotPublished | None:
        """Its id for the server is made of where it lies, so that one sent again shortly after is not there twice."""
        raw, headers = letter.receipt
        if letter.queue is None:
            text = f"the subject it was published to is not in its headers, and {self._source!r} has wildcards; name that subject"
            return NotPublished(text, reason="unroutable")
        fault = await confirmed(self._client, self._streams, letter.queue, letter.message.body, headers)
        if fault is None:
            if armed:
                reached("after-publish-before-removal")
            await self._deleted(raw.seq)
        return fault

    def remove(self, letters: Sequence[DeadLetter]) -> list[NotPublished | None]:
        gone = NotPublished("it is no longer there", reason=GONE)
        return [None if self._run(self._deleted(letter.receipt[0].seq)) else gone for letter in letters]

    async def _deleted(self, number: int) -> bool:
        try:
            return bool(await self._streams.delete_msg(self._stream, number))
        except streams.APIError as exc:
            if exc.err_code not in _NO_SUCH:
                raise
            return False

    def finish(self) -> None:
        """Nothing is left to do."""

    def close(self) -> None:
        client, self._client = self._client, None
        try:
            if client is not None and not client.is_closed:
                self._runner.run(leave(client))
        finally:
            self._runner.close()
            self._runner = asyncio.Runner()  # makes its loop when it is used: closing twice is fine
