# No twin: nobody waits for dead letters in a task.
"""Dead letters in a stream of Redis, beside the stream they came from."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

from redis.crc import key_slot

from dupeproof.brokers.base import ATTEMPTS, ORIGIN, REASON
from dupeproof.brokers.dead import GONE, DeadLetter, as_count, nothing_there, places_of
from dupeproof.brokers.errors import NotPublished
from dupeproof.brokers.redis_streams import wire
from dupeproof.brokers.redis_streams.connections import connected, disconnect
from dupeproof.brokers.redis_streams.driver import check_url, translated
from dupeproof.core.crashes import armed, reached

_RETRY = files("dupeproof.brokers.redis_streams").joinpath("retry.lua").read_text()
_PAGE = 100


class RedisDeadLetters:
    def __init__(self, url: str, queue: str, dead: str | None) -> None:
        self._source, self.name = places_of(queue, dead)
        self._url = check_url(url)
        self._is_cluster = "+cluster" in url.partition("://")[0]
        self._client: Any = None

    def open(self) -> None:
        with translated(self._url, self.name, opening=True):
            self._client = connected(self._url)
            self._retry = self._client.register_script(_RETRY)
            if not any(self._client.exists(name) for name in (self.name, self._source)):
                raise nothing_there("stream", self._source, self.name)

    def scan(self, most: int) -> Iterator[DeadLetter]:
        """By pages, up to the last that is there now."""
        with translated(self._url, self.name):
            newest = self._client.xrevrange(self.name, count=1)
        start = "-"
        while newest and most > 0:
            with translated(self._url, self.name):
                page = self._client.xrange(self.name, start, newest[0][0], min(most, _PAGE))
            for entry, fields in page:
                yield self._letter(entry, fields)
            if len(page) < _PAGE:
                return
            most -= len(page)
            start = f"({page[-1][0].decode()}"

    def _letter(self, entry: bytes, fields: dict[bytes, bytes]) -> DeadLetter:
        told = {name: fields[name.encode()].decode(errors="replace") for name in _TOLD & _names(fields)}
        queue = told.get(ORIGIN) or self._source
        revived = wire.revived(fields)
        return DeadLetter(
            place=f"@{entry.decode()}",
            queue=queue,
            reason=told.get(REASON, ""),
            attempts=as_count(told.get(ATTEMPTS)),
            died=datetime.fromtimestamp(int(entry.partition(b"-")[0]) / 1_000, UTC),
            message=wire.received(queue, entry, revived, attempt=1).message,
            receipt=(entry, revived),
        )

    def keep(self, letter: DeadLetter) -> None:
        """To read it has changed nothing."""

    def put_back(self, letters: Sequence[DeadLetter]) -> list[NotPublished | None]:
        return [self._put_back(letter) for letter in letters]

    def _put_back(self, letter: DeadLetter) -> NotPublished | None:
        entry, revived = letter.receipt
        queue = letter.queue or self._source
        fields = [part for pair in revived.items() for part in pair]
        with translated(self._url, queue):
            return _answer(self._sent(queue, entry, fields), queue)

    def _sent(self, queue: str, entry: bytes, fields: Sequence[bytes]) -> bytes:
        if not self._is_cluster or key_slot(queue.encode()) == key_slot(self.name.encode()):
            return bytes(self._retry(keys=[self.name, queue], args=[entry, *fields]))
        # On another node. A crash in between leaves the dead letter, and the message is sent twice with one id.
        if not self._client.xrange(self.name, entry, entry):
            return b"gone"
        if self._client.execute_command("XADD", queue, "NOMKSTREAM", "*", *fields) is None:
            return b"unroutable"
        if armed:
            reached("after-publish-before-removal")
        self._client.xdel(self.name, entry)
        return b"done"

    def remove(self, letters: Sequence[DeadLetter]) -> list[NotPublished | None]:
        with translated(self._url, self.name):
            removed = [self._client.xdel(self.name, letter.receipt[0]) for letter in letters]
        return [None if count else _answer(b"gone", self.name) for count in removed]

    def finish(self) -> None:
        """Nothing is left to do."""

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            disconnect(client)


_TOLD = {REASON, ATTEMPTS, ORIGIN}


def _names(fields: dict[bytes, bytes]) -> set[str]:
    return {name.decode(errors="replace") for name in fields}


def _answer(answer: bytes, queue: str) -> NotPublished | None:
    match answer:
        case b"done":
            return None
        case b"gone":
            return NotPublished("it is no longer there", reason=GONE)
    return NotPublished(f"there is no stream {queue!r}; make it first", reason="unroutable")
