"""A broker in this process: for tests of your handlers, and for trying things out. Nothing survives the process."""

from typing import Any, Unpack

from dupeproof.brokers.base import Handler
from dupeproof.brokers.consuming import AnyConsumer, make_consumer
from dupeproof.brokers.memory._async.publisher import AsyncMemoryPublisher
from dupeproof.brokers.memory._async.source import AsyncMemorySource
from dupeproof.brokers.memory._sync.publisher import MemoryPublisher
from dupeproof.brokers.memory._sync.source import MemorySource
from dupeproof.brokers.memory.broker import broker_of
from dupeproof.brokers.options import ConsumeOptions, check_place

__all__ = ["AsyncMemoryPublisher", "MemoryPublisher", "broker_of", "consume", "consumer"]


def consumer(
    url: str,
    queue: str,
    handler: Handler,
    *,
    inbox: Any = None,
    once: Any = None,
    create: bool = False,
    delays: bool = True,
    **options: Unpack[ConsumeOptions],
) -> AnyConsumer:
    """A consumer to `run` and `stop`. With `delays=False` as a broker that keeps messages in order while one is retried."""
    check_place(url, queue)
    broker = broker_of(url)
    return make_consumer(
        lambda: MemorySource(broker, queue, create=create, delays=delays),
        lambda: AsyncMemorySource(broker, queue, create=create, delays=delays),
        handler,
        None,
        inbox,
        once,
        options,
    )


def consume(url: str, queue: str, handler: Handler, **options: Any) -> Any:
    """Run a `consumer` until SIGTERM; to be awaited when the handler is async."""
    return consumer(url, queue, handler, **options).run()
