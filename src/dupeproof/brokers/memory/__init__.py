"""A broker in this process: for tests of your handlers, and for trying things out. Nothing survives the process."""

from typing import Any, Unpack

from dupeproof.brokers.base import Handler
from dupeproof.brokers.factory import AnyConsumer, make_consumer
from dupeproof.brokers.memory.broker import broker_of
from dupeproof.brokers.memory.publisher import MemoryPublisher
from dupeproof.brokers.memory.publisher_async import AsyncMemoryPublisher
from dupeproof.brokers.memory.source import MemorySource
from dupeproof.brokers.memory.source_async import AsyncMemorySource
from dupeproof.brokers.options import ConsumeOptions, Queues, check_place
from dupeproof.brokers.several import one_of
from dupeproof.brokers.several_async import one_of as one_of_async

__all__ = ["AsyncMemoryPublisher", "MemoryPublisher", "broker_of", "consume", "consumer"]


def consumer(
    url: str,
    queue: Queues,
    handler: Handler,
    *,
    inbox: Any = None,
    once: Any = None,
    create: bool = False,
    delays: bool = True,
    **options: Unpack[ConsumeOptions],
) -> AnyConsumer:
    """A consumer to `run` and `stop`. With `delays=False` as a broker that keeps messages in order while one is retried."""
    queues = check_place(url, queue)
    broker = broker_of(url)
    return make_consumer(
        lambda: one_of([MemorySource(broker, each, create=create, delays=delays) for each in queues]),
        lambda: one_of_async(
            [AsyncMemorySource(broker, each, create=create, delays=delays) for each in queues]
        ),
        handler,
        None,
        inbox,
        once,
        options,
    )


def consume(url: str, queue: Queues, handler: Handler, **options: Any) -> Any:
    """Run a `consumer` until SIGTERM; to be awaited when the handler is async."""
    return consumer(url, queue, handler, **options).run()
