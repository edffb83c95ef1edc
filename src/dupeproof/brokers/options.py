"""The options of a consumer, checked when it is made."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypedDict, get_args

from msgspec import Struct

from dupeproof import defaults
from dupeproof.brokers.base import UNGUARDED, Handler, Message, Middleware
from dupeproof.brokers.handlers import wanted_by
from dupeproof.core.callables import is_async, takes
from dupeproof.core.durations import Duration, milliseconds
from dupeproof.core.events import Listener, as_listeners
from dupeproof.errors import ConfigError
from dupeproof.inbox.entities import Version
from dupeproof.keys.names import Key

MissingId = Literal["dead", "content", "pass"]
IdOf = Callable[[Message], str | None]
OrderBy = Callable[[Message], tuple[Key, Version] | None]


class ConsumeOptions(TypedDict, total=False):
    """What every broker's `consume` takes beside its own."""

    concurrency: int
    """How many handlers run at once."""
    batch: int
    """With an inbox: how many messages share a transaction at most; nobody waits for a batch to fill."""
    middleware: Iterable[Middleware]
    missing_id: MissingId
    """For a message without an id: dead-letter it, use the id of its content, or let it through unguarded."""
    id_of: IdOf
    """Reads the id from the message, where it is not where the broker has it."""
    order_by: OrderBy
    """With an inbox: reads (entity, version) from the message. One that is older than what its entity has got is acknowledged
    without being worked on; one for which this is None is worked on as ever."""
    max_attempts: int | None
    backoff: Duration
    max_backoff: Duration
    drain: Duration
    """How long work under way may take to end after SIGTERM."""
    events: Iterable[Listener]


class Plan(Struct, frozen=True):
    """The options as the runner works with them; durations in seconds."""

    concurrency: int
    batch: int
    middleware: tuple[Middleware, ...]
    missing_id: MissingId
    id_of: IdOf | None
    order_by: OrderBy | None
    max_attempts: int | None
    backoff: float
    max_backoff: float
    drain: float
    listeners: tuple[Listener, ...]

    def delay(self, attempt: int) -> float:
        """Doubled each time, up to the longest."""
        return float(min(self.max_backoff, self.backoff * 2.0 ** min(attempt - 1, 60)))


def make_plan(
    *,
    concurrency: int = defaults.CONCURRENCY,
    batch: int = defaults.CONSUMER_BATCH,
    middleware: Iterable[Middleware] = (),
    missing_id: MissingId = "dead",
    id_of: IdOf | None = None,
    order_by: OrderBy | None = None,
    max_attempts: int | None = defaults.MAX_ATTEMPTS,
    backoff: Duration = defaults.BACKOFF,
    max_backoff: Duration = defaults.CONSUMER_MAX_BACKOFF,
    drain: Duration = defaults.CONSUMER_DRAIN,
    events: Iterable[Listener] = (),
) -> Plan:
    if id_of is not None and not callable(id_of):
        raise ConfigError(
            "id_of must be a function of a message, such as lambda message: message.headers.get('x-id'); "
            f"got a {type(id_of).__qualname__}"
        )
    given: Any = order_by
    if given is not None and (not callable(given) or is_async(given)):
        raise ConfigError(
            "order_by must be a plain function of a message that returns its entity and version, such as "
            f"lambda message: (message.json()['id'], message.json()['version']); got a {type(given).__qualname__}"
        )
    if missing_id not in get_args(MissingId):
        raise ConfigError(f"missing_id must be 'dead', 'content' or 'pass'; got {missing_id!r:.40}")
    return Plan(
        concurrency=whole(concurrency, "concurrency", 1_000),
        batch=whole(batch, "batch", 10_000),
        middleware=tuple(middleware),
        missing_id=missing_id,
        id_of=id_of,
        order_by=order_by,
        max_attempts=None if max_attempts is None else whole(max_attempts, "max_attempts", 1_000_000),
        backoff=milliseconds(backoff, name="backoff") / 1_000,
        max_backoff=milliseconds(max_backoff, name="max_backoff") / 1_000,
        drain=milliseconds(drain, name="drain") / 1_000,
        listeners=as_listeners(events),
    )


def whole(value: object, name: str, most: int) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most:
        return value
    raise ConfigError(f"{name} must be a whole number from 1 to {most:,}; got {value!r:.40}")


Queues = str | Iterable[str]
"""One, or several for one consumer."""


def check_place(url: object, queue: object) -> list[str]:
    """Before a driver sees them, each of which makes something else of nothing. The queues, also where it is one."""
    _check_name("url", url)
    if isinstance(queue, str) or not isinstance(queue, Iterable):
        queue = [queue]
    names = [_check_name("queue", each) for each in queue]
    if not names:
        raise ConfigError("queue must name at least one; got an empty list")
    if len(set(names)) < len(names):
        raise ConfigError("queue names one of them twice")
    return names


def _check_name(what: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{what} must be a text, and not empty; got {type(value).__qualname__}")
    return value


def check_known(options: Iterable[str]) -> None:
    for name in options:
        if name not in ConsumeOptions.__annotations__:
            raise TypeError(
                f"consume() got an unexpected keyword argument {name!r}; beside those of this broker it takes "
                f"{', '.join(ConsumeOptions.__annotations__)}"
            )


def check_middleware(handler: Handler, middleware: Iterable[Middleware]) -> tuple[Middleware, ...]:
    """For a plain handler nobody would await what a coroutine function returns."""
    if not isinstance(middleware, Iterable):
        raise ConfigError("middleware must be a list; write middleware=[…]")
    layers = tuple(middleware)
    if not is_async(handler) and any(map(is_async, layers)):
        raise ConfigError("the middleware is async, and the handler is not; make them alike")
    return layers


def check_guard(handler: Handler, inbox: Any, once: Any) -> None:
    """One of the two, and of the same kind as the handler."""
    if not callable(handler):
        raise ConfigError(f"handler must be a function; got a {type(handler).__qualname__}")
    wanted = wanted_by(handler)
    if wanted.batch and inbox is None:
        raise ConfigError(
            "a handler of batches needs inbox=: its messages share a transaction, and a claim is for one message"
        )
    if once is UNGUARDED and inbox is None:
        check_arguments(handler, "message")
        return
    if (inbox is None) is (once is None):
        raise ConfigError(
            "give inbox= (the effect is in its database, in one transaction with the mark) or "
            "once= (the effect is elsewhere, under a leased claim): one of the two"
        )
    guard, method = (once, "run") if inbox is None else (inbox, "first")
    if not hasattr(guard, method):
        name = "once= takes a Once or AsyncOnce" if inbox is None else "inbox= takes an Inbox or AsyncInbox"
        raise ConfigError(f"{name}; got a {type(guard).__qualname__}")
    if inspect.iscoroutinefunction(getattr(guard, method)) is not is_async(handler):
        kind = type(guard).__qualname__
        other = kind.removeprefix("Async") if kind.startswith("Async") else f"Async{kind}"
        raise ConfigError(
            f"the handler is {'async' if is_async(handler) else 'not async'}, and {kind} is "
            f"{'not' if is_async(handler) else 'only for those that are'}; use {other}, or change the handler"
        )
    also = ("message",) if wanted.message else ()
    if inbox is None:
        check_arguments(handler, "message", because=" with once=", also=also)
    else:
        first = "messages" if wanted.batch else "message"
        check_arguments(handler, first, "connection", because=" with inbox=", also=also)


def check_arguments(handler: Handler, *names: str, because: str = "", also: Iterable[str] = ()) -> None:
    """Else every message would fail, and in the end be dead-lettered, for what is wrong with none of them."""
    if not takes(handler, len(names), also):
        raise ConfigError(
            f"the handler is called as handler({', '.join(names)}){because}, and "
            f"{getattr(handler, '__qualname__', type(handler).__qualname__)} takes other arguments"
        )
