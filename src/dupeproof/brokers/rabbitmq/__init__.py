"""RabbitMQ: a publisher with confirms, and consumers that acknowledge after the commit. For threads and for tasks.

consume("amqp://…", queue="orders", handler=handle, inbox=inbox)
"""

from typing import Any, Unpack

from dupeproof.brokers.base import Handler
from dupeproof.brokers.consuming import AnyConsumer, make_consumer
from dupeproof.brokers.options import ConsumeOptions, check_place, whole
from dupeproof.brokers.rabbitmq._async.publisher import AsyncRabbitPublisher
from dupeproof.brokers.rabbitmq._async.source import AsyncRabbitSource
from dupeproof.brokers.rabbitmq._sync.publisher import RabbitPublisher
from dupeproof.brokers.rabbitmq._sync.source import RabbitSource

__all__ = ["AsyncRabbitPublisher", "RabbitPublisher", "consume", "consumer"]


def consumer(
    url: str,
    queue: str,
    handler: Handler,
    *,
    inbox: Any = None,
    once: Any = None,
    create: bool = False,
    dead: str | None = None,
    prefetch: int | None = None,
    **options: Unpack[ConsumeOptions],
) -> AnyConsumer:
    """A consumer to `run` and `stop`.

    `create` makes the queue, durable, if it is not there. What is put aside goes to `dead`, which is `<queue>.dead` unless
    given. `prefetch` is how many messages the broker hands out ahead; enough to keep all handlers at work unless given.
    """
    check_place(url, queue)
    if prefetch is not None:
        prefetch = whole(prefetch, "prefetch", 65_535)
    return make_consumer(
        lambda: RabbitSource(url, queue, create=create, dead=dead, prefetch=prefetch),
        lambda: AsyncRabbitSource(url, queue, create=create, dead=dead, prefetch=prefetch),
        handler,
        None,
        inbox,
        once,
        options,
    )


def consume(url: str, queue: str, handler: Handler, **options: Any) -> Any:
    """Run a `consumer` until SIGTERM; to be awaited when the handler is async."""
    return consumer(url, queue, handler, **options).run()
