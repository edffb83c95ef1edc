# Written by tools/twins.py from src/dupeproof/outbox/publishers_async.py; change that file instead.
"""Who messages are handed to: a publisher of batches, or a function called with one message after the other."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from dupeproof.core.callables import is_async
from dupeproof.errors import BrokerFull, BrokerUnavailable, ConfigError, DupeproofError
from dupeproof.outbox.failures import HeldBack, PublisherDown, is_connection_error
from dupeproof.outbox.messages import Message
from dupeproof.outbox.runtime import IS_ASYNC, OTHER_KIND, OTHER_RELAY, bounded, call

Result = BaseException | None
"""None, which means that the message is safe with the broker, or why not."""
Results = list[Result]
TimeIsUp = Callable[[], bool]
_TRIES_WHEN_DOWN = 3
"""So many messages in a row, each of another key, that fail as if nobody could be reached; then the rest is not tried."""


@runtime_checkable
class Publisher(Protocol):
    def publish(self, messages: Sequence[Message]) -> Results:
        """Publish in this order, wait for the broker's confirmation, and say for each message what became of it.

        After a message that failed no other with its key may be sent: answer `HeldBack()` for those. Raise
        `BrokerUnavailable` when nothing can be published for now; then no message is blamed, and all are sent again.
        Answer `BrokerFull` for a message whose queue has no room.
        After any other error the messages are handed over one by one, to find the one that causes it.
        """
        ...


Function = Callable[[Message], object]


class Calling:
    """A function as a publisher. It returns when the message is safe, and raises when it is not.

    `BrokerUnavailable` says that nothing can be published; a connection that is refused, lost or times out says so too.
    All other errors count against their message.
    """

    def __init__(self, function: Function) -> None:
        self._function = function

    def publish_until(self, messages: Sequence[Message], time_is_up: TimeIsUp, _: TimeIsUp) -> Results:
        return _one_by_one(self._send, messages, time_is_up, is_connection_error)

    def _send(self, message: Message) -> Result:
        call(self._function, message)
        return None


def _one_by_one(
    send: Callable[[Message], Result],
    messages: Sequence[Message],
    time_is_up: TimeIsUp,
    is_outage: Callable[[Exception], bool],
) -> Results:
    """What `send` answers or raises for each, in order per key; the rest is not tried when nobody can be reached."""
    results: Results = []
    stuck: set[str] = set()
    in_a_row = 0
    for message in messages:
        if in_a_row >= _TRIES_WHEN_DOWN or message.key in stuck or time_is_up():
            results.append(HeldBack())
            continue
        result: Result
        try:
            result = send(message)
        except BrokerFull as exc:
            result = PublisherDown(exc, tried=True)
        except BrokerUnavailable as exc:
            result, in_a_row = PublisherDown(exc, tried=True), _TRIES_WHEN_DOWN
        except Exception as exc:  # noqa: BLE001 - whatever it raises is what is wrong, with the message or with the way
            result = PublisherDown(exc, tried=True) if is_outage(exc) else exc
            in_a_row += isinstance(result, PublisherDown)
        if result is None:
            in_a_row = 0
        elif message.key is not None:
            stuck.add(message.key)
        results.append(result)
    return results


class Batching:
    """A publisher of batches, whose answer is looked at before it is believed."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher

    def publish_until(self, messages: Sequence[Message], time_is_up: TimeIsUp, late: TimeIsUp) -> Results:
        """When it is `late`, a publisher of ours is left alone with its broker; any other is waited for."""
        if time_is_up():
            return [HeldBack() for _ in messages]
        try:
            if getattr(self._publisher, "can_be_left", False):
                return bounded(lambda: self._all(messages), late)
            return self._all(messages)
        except Exception as exc:
            if len(messages) == 1 or isinstance(exc, DupeproofError) or is_connection_error(exc):
                raise
        return _one_by_one(self._one, messages, time_is_up, lambda _: True)

    def _one(self, message: Message) -> Result:
        [result] = self._all([message])
        return result

    def _all(self, messages: Sequence[Message]) -> Results:
        results = list(self._publisher.publish(messages))
        if len(results) != len(messages):
            raise ConfigError(
                f"{type(self._publisher).__qualname__}.publish was given {len(messages)} messages and answered "
                f"for {len(results)}; it must answer for each"
            )
        for result in results:
            if result is not None and not isinstance(result, BaseException):
                raise ConfigError(
                    f"{type(self._publisher).__qualname__}.publish must answer None for a message that is safe, or its "
                    f"error; it answered a {type(result).__qualname__}"
                )
        return [
            PublisherDown(result, tried=True) if isinstance(result, BrokerUnavailable) else result
            for result in results
        ]


def publisher_of(given: Any) -> Calling | Batching:
    method = getattr(given, "publish", None)
    if callable(method):
        if inspect.iscoroutinefunction(method) is not IS_ASYNC:
            raise _other_kind(type(given).__qualname__)
        return Batching(given)
    if not callable(given):
        raise ConfigError(
            f"publisher must be a Publisher or a function of one message; got {type(given).__qualname__}"
        )
    if not IS_ASYNC and is_async(given):
        raise _other_kind(getattr(given, "__qualname__", type(given).__qualname__))
    return Calling(given)


def _other_kind(name: str) -> ConfigError:
    return ConfigError(f"{name} is {OTHER_KIND}; give it to {OTHER_RELAY}")
