"""Dead letters: find those of a queue, look at one, put it back, or give it up. The same for every broker.

with dead_letters("amqp://…", "orders") as letters:
    letters.retry(["order-17"])
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from importlib import import_module
from itertools import islice
from types import TracebackType
from typing import Any, Protocol, Self

from msgspec import Struct

from dupeproof.brokers.base import Message, dead_name
from dupeproof.brokers.errors import NotPublished
from dupeproof.brokers.options import check_place, whole
from dupeproof.errors import ConfigError
from dupeproof.stores.urls import redact

Progress = Callable[[int], None]
"""Told how many dead letters were looked at."""
_SCAN = 100_000
_ALL = 2**62
_CHUNK = 100
"""Letters that are moved together, where the broker can do that."""
GONE = "gone"
"""The `reason` of a `NotPublished`: the letter was moved by somebody else."""
_SUFFIX = dead_name("")
_HOST = re.compile(r"[\w.\[\]:-]+:\d+(,[\w.\[\]:-]+:\d+)*", re.ASCII)
_BROKERS = {
    "rabbitmq": ("RabbitDeadLetters", ("amqp", "amqps")),
    "kafka": ("KafkaDeadLetters", ("kafka", "kafkas")),
    "redis_streams": (
        "RedisDeadLetters",
        (
            "redis",
            "rediss",
            "unix",
            "redis+sentinel",
            "rediss+sentinel",
            "redis+cluster",
            "rediss+cluster",
        ),
    ),
    "nats": ("NatsDeadLetters", ("nats", "tls", "ws", "wss")),
}
_KNOWN = "amqp://…, host:port or kafka://… of Kafka, redis://…, nats://…"
_DATABASES = ("postgresql", "postgres", "sqlite", "mysql", "mariadb")


class DeadLetter(Struct, frozen=True, kw_only=True):
    """A message that was dead-lettered, and why."""

    place: str
    """Names it where an id does not: a position in its queue, or of RabbitMQ, which has none, a digest of what it is."""
    queue: str | None
    """Where it came from and is put back to; None where nobody knows."""
    reason: str
    attempts: int | None
    died: datetime | None
    """When it was dead-lettered, in UTC; None where nobody has written that down."""
    message: Message
    """As its handler will get it, when it is put back."""
    receipt: Any = None
    """What its broker wants to see again."""

    @property
    def name(self) -> str:
        """What commands call it: its id, or its place where it has none."""
        return self.place if self.message.id is None else self.message.id

    def is_called(self, name: str) -> bool:
        return name in (self.message.id, self.place)

    def is_copy_of(self, other: "DeadLetter") -> bool:
        """Whether it makes no difference which of the two a handler gets."""
        mine, theirs = self.message, other.message
        return (mine.id, mine.body, mine.key, mine.type, mine.headers) == (
            theirs.id,
            theirs.body,
            theirs.key,
            theirs.type,
            theirs.headers,
        )


Letters = list[DeadLetter]


class Moved(Struct, frozen=True):
    """What became of those that were to be put back, or dropped."""

    done: list[str]
    missing: list[str]
    """Names that no dead letter has."""
    refused: dict[str, str]
    """By name, why the broker did not take it. It is still a dead letter."""


class DeadLetterQueue(Protocol):
    """What a broker does for it. Every verb raises `BrokerUnavailable` when the connection is lost; nothing is lost by that."""

    name: str
    """Where the dead letters are."""

    def open(self) -> None:
        """Connect. `ConfigError` if there is neither this place nor the queue that it belongs to."""
        ...

    def scan(self, most: int) -> Iterator[DeadLetter]:
        """Those that are there now, at most so many, the oldest first."""
        ...

    def keep(self, letter: DeadLetter) -> None:
        """It stays a dead letter: nothing is to be done with it."""
        ...

    def put_back(self, letters: Sequence[DeadLetter]) -> list[NotPublished | None]:
        """Publish each to its queue, and remove it when that is confirmed; for each None, or why not."""
        ...

    def remove(self, letters: Sequence[DeadLetter]) -> list[NotPublished | None]:
        """For good; the answers are those of `put_back`."""
        ...

    def finish(self) -> None:
        """All that was to be done is done."""
        ...

    def close(self) -> None:
        """Disconnect, also when that is broken. Closing twice is fine."""
        ...


class DeadLetters:
    """Connects for each call, and leaves what it does not move as it was."""

    def __init__(
        self, queue: DeadLetterQueue, *, scan: int = _SCAN, progress: Progress = lambda _: None
    ) -> None:
        self._queue = queue
        self._scan = whole(scan, "scan", 100_000_000)
        self._progress = progress

    @property
    def name(self) -> str:
        """Where the dead letters are."""
        return self._queue.name

    def list(self, limit: int = 100) -> Letters:
        """The oldest first."""
        with self._opened() as queue:
            found = [*self._looked_at(queue, whole(limit, "limit", self._scan))]
            for each in found:
                queue.keep(each)
        return found

    def get(self, name: str) -> Letters:
        """Those with this id, or at this place; several where an id was dead-lettered more than once."""
        with self._opened() as queue:
            return self._called(queue, [name], keep=True)

    def retry(self, names: Iterable[str] | None = None) -> Moved:
        """Put these back into their queue, or all that are there now. Each is published, then removed.

        The message has its id, headers and body, and all its attempts before it. A crash in between leaves the dead letter
        there: done again, the message is sent twice with one id, which an inbox or a guard knows as a duplicate.
        """
        return self._move(names, "put_back")

    def drop(self, names: Iterable[str] | None = None) -> Moved:
        """Give these up for good, or all that are there now."""
        return self._move(names, "remove")

    def _move(self, names: Iterable[str] | None, verb: str) -> Moved:
        moved = Moved([], [], {})
        if isinstance(names, str):
            raise ConfigError("the ids must be a list of texts; write [id]")
        with self._opened() as queue:
            if names is None:
                letters = self._looked_at(queue, None)
            else:
                wanted = [*dict.fromkeys(names)]
                found = self._called(queue, wanted)
                for name in wanted:
                    same = [each for each in found if each.is_called(name)]
                    if not same:
                        moved.missing.append(name)
                    _check_same(name, same)
                letters = iter(found)
            while chunk := [*islice(letters, _CHUNK)]:
                for each, fault in zip(chunk, getattr(queue, verb)(chunk), strict=True):
                    if fault is None:
                        moved.done.append(each.name)
                    elif fault.reason == GONE:
                        moved.missing.append(each.name)
                    else:
                        moved.refused[each.name] = str(fault)
                        queue.keep(each)
        return moved

    def _called(self, queue: DeadLetterQueue, names: Sequence[str], *, keep: bool = False) -> Letters:
        """All are looked at, since an id may be there twice."""
        wanted = set(names)
        found = []
        looked_at = 0
        for looked_at, each in enumerate(self._looked_at(queue, self._scan), 1):  # noqa: B007 - the last one counts
            is_wanted = not wanted.isdisjoint({each.message.id, each.place})
            if is_wanted:
                found.append(each)
            if keep or not is_wanted:
                queue.keep(each)
        unseen = [name for name in names if not any(each.is_called(name) for each in found)]
        if unseen and looked_at == self._scan:
            raise ConfigError(
                f"{unseen[0]!r:.80} is not among the first {self._scan:,} dead letters of {self.name!r}, and no more are looked at; "
                "look at more with --scan"
            )
        return found

    def _looked_at(self, queue: DeadLetterQueue, most: int | None) -> Iterator[DeadLetter]:
        for number, each in enumerate(queue.scan(_ALL if most is None else most), 1):
            if number % _CHUNK == 0:
                self._progress(number)
            yield each

    @contextmanager
    def _opened(self) -> Iterator[DeadLetterQueue]:
        try:
            self._queue.open()
            yield self._queue
            self._queue.finish()
        finally:
            self._queue.close()

    def close(self) -> None:
        """Closing twice is fine."""
        self._queue.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _check_same(name: str, letters: Sequence[DeadLetter]) -> None:
    """Of two messages with one id a consumer works on one only, so somebody has to choose."""
    if any(not each.is_copy_of(letters[0]) for each in letters[1:]):
        places = ", ".join(each.place for each in letters[:10])
        raise ConfigError(
            f"{len(letters)} dead letters have the id {name!r:.80} and differ, and a consumer takes the first of them only; "
            f"look at them with `dupeproof dead show`, and name one by its place: {places}"
        )


def places_of(queue: str, dead: str | None) -> tuple[str, str]:
    """The queue, and its dead-letter queue. A name that ends with `.dead` is that of the dead-letter queue itself."""
    if dead is not None:
        return queue, dead
    if queue.endswith(_SUFFIX) and queue != _SUFFIX:
        return queue.removesuffix(_SUFFIX), queue
    return queue, dead_name(queue)


def nothing_there(what: str, queue: str, dead: str) -> ConfigError:
    return ConfigError(
        f"there is no {what} {queue!r}, and no {dead!r} with its dead letters; check the name, or name the dead-letter "
        f"{what} with --dead"
    )


def dead_letters(
    url: str,
    queue: str,
    *,
    dead: str | None = None,
    scan: int = _SCAN,
    progress: Progress = lambda _: None,
) -> DeadLetters:
    """The dead letters of a queue, by the URL and the name that `consume` takes.

    They are in `dead`, `<queue>.dead` unless given; `queue` may be that name, too. At most `scan` of them are looked at to find
    one. `progress` is called with how many were.
    """
    [name] = check_place(url, queue)
    if dead is not None:
        check_place(url, dead)
    module, kind = _of(url)
    made = getattr(import_module(f"dupeproof.brokers.{module}.dead"), kind)
    return DeadLetters(made(url, name, dead), scan=scan, progress=progress)


def _of(url: str) -> tuple[str, str]:
    scheme, separator, _ = url.partition("://")
    if not separator and _HOST.fullmatch(url):
        scheme = "kafka"
    for module, (kind, schemes) in _BROKERS.items():
        if scheme in schemes:
            return module, kind
    if separator and scheme.partition("+")[0] in _DATABASES:
        raise ConfigError(
            f"{redact(url)!r} is a database; dead messages of its outbox are seen with `dupeproof outbox dead`, a broker's with "
            f"{_KNOWN}"
        )
    raise ConfigError(f"{redact(url)!r} is no broker with dead letters; there are: {_KNOWN}")


def as_count(text: str | None) -> int | None:
    """Attempts as a header has them, which may be somebody else's."""
    return int(text) if text is not None and text.isascii() and text.isdigit() else None
