"""Who messages are handed to: a publisher of batches, or a function called with one message after the other."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from dupeproof.core.callables import is_async
from dupeproof.errors import ConfigError
from dupeproof.outbox._async.runtime import IS_ASYNC, OTHER_KIND, OTHER_RELAY, call
from dupeproof.outbox.failures import HeldBack, publisher_down
from dupeproof.outbox.messages import Message

Results = list[BaseException | None]
"""For each message None, which means that it is safe with the broker, or why not."""
TimeIsUp = Callable[[], bool]


@runtime_checkable
class AsyncPublisher(Protocol):
    async def publish(self, messages: Sequence[Message]) -> Results:
        """Publish in this order, wait for the broker's confirmation, and say for each message what became of it.

        After a message that failed no other with its key may be sent: answer `HeldBack()` for those. Raising means that
        nothing can be published for now; then no message is blamed, and all that has no result is sent again.
        """
        ...


Function = Callable[[Message], object]


class AsyncCalling:
    """A function as a publisher. It returns when the message is safe, and raises when it is not.

    An OSError, such as a refused connection or a timeout, says that the way is closed: no message is blamed for it.
    """

    def __init__(self, function: Function) -> None:
        self._function = function

    async def publish_until(self, messages: Sequence[Message], time_is_up: TimeIsUp) -> Results:
        results: Results = []
        stuck: set[str] = set()
        down = False
        for message in messages:
            if down or message.key in stuck or time_is_up():
                results.append(HeldBack())
                continue
            try:
                await call(self._function, message)
                results.append(None)
            except OSError as exc:
                down = True
                results.append(publisher_down(exc))
            except Exception as exc:  # noqa: BLE001 - whatever the function raises is what is wrong with the message
                results.append(exc)
                if message.key is not None:
                    stuck.add(message.key)
        return results


class AsyncBatching:
    """A publisher of batches, whose answer is looked at before it is believed."""

    def __init__(self, publisher: AsyncPublisher) -> None:
        self._publisher = publisher

    async def publish_until(self, messages: Sequence[Message], time_is_up: TimeIsUp) -> Results:
        if time_is_up():
            return [HeldBack() for _ in messages]
        results = list(await self._publisher.publish(messages))
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
        return results


def publisher_of(given: Any) -> AsyncCalling | AsyncBatching:
    method = getattr(given, "publish", None)
    if callable(method):
        if inspect.iscoroutinefunction(method) is not IS_ASYNC:
            raise _other_kind(type(given).__qualname__)
        return AsyncBatching(given)
    if not callable(given):
        raise ConfigError(
            f"publisher must be a Publisher or a function of one message; got {type(given).__qualname__}"
        )
    if not IS_ASYNC and is_async(given):
        raise _other_kind(getattr(given, "__qualname__", type(given).__qualname__))
    return AsyncCalling(given)


def _other_kind(name: str) -> ConfigError:
    return ConfigError(f"{name} is {OTHER_KIND}; give it to {OTHER_RELAY}")
