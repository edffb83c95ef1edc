"""RabbitMQ: a publisher with confirms, and consumers that acknowledge after the commit. For threads and for tasks.

consume("amqp://…", queue="orders", handler=handle, inbox=inbox)
"""

from collections.abc import Iterable
from typing import Any, Unpack

from dupeproof.brokers.base import Handler
from dupeproof.brokers.factory import AnyConsumer, make_consumer
from dupeproof.brokers.options import ConsumeOptions, Queues, check_place, whole
from dupeproof.brokers.rabbitmq.publisher import RabbitPublisher
from dupeproof.brokers.rabbitmq.publisher_async import AsyncRabbitPublisher
from dupeproof.brokers.rabbitmq.source import RabbitSource
from dupeproof.brokers.rabbitmq.source_async import AsyncRabbitSource
from dupeproof.brokers.rabbitmq.topology import ExchangeType, QueueType, make_topology
from dupeproof.brokers.several import one_of
from dupeproof.brokers.several_async import one_of as one_of_async

__all__ = ["AsyncRabbitPublisher", "RabbitPublisher", "consume", "consumer"]


def consumer(
    url: str,
    queue: Queues,
    handler: Handler,
    *,
    inbox: Any = None,
    once: Any = None,
    create: bool = False,
    queue_type: QueueType = "quorum",
    exchange: str | None = None,
    exchange_type: ExchangeType = "topic",
    bindings: str | Iterable[str] = (),
    dead: str | None = None,
    prefetch: int | None = None,
    **options: Unpack[ConsumeOptions],
) -> AnyConsumer:
    """A consumer to `run` and `stop`, of one queue or of several.

    `create` makes the queue, durable and of the type `queue_type`, if it is not there; and with `exchange` that exchange, of
    `exchange_type`, with a binding of the queue for each routing key in `bindings` (`orders.*`). What is there already is
    left as it is. Dead letters go to `dead`, which is `<queue>.dead` unless given. `prefetch` is how many messages the broker
    hands out ahead; enough to keep all handlers at work unless given.
    """
    queues = check_place(url, queue)
    if prefetch is not None:
        prefetch = whole(prefetch, "prefetch", 65_535)
    topology = make_topology(create, queue_type, exchange, exchange_type, bindings)

    def made(kind: Any) -> list[Any]:
        return [kind(url, each, topology=topology, dead=dead, prefetch=prefetch) for each in queues]

    return make_consumer(
        lambda: one_of(made(RabbitSource)),
        lambda: one_of_async(made(AsyncRabbitSource)),
        handler,
        None,
        inbox,
        once,
        options,
    )


def consume(url: str, queue: Queues, handler: Handler, **options: Any) -> Any:
    """Run a `consumer` until SIGTERM; to be awaited when the handler is async."""
    return consumer(url, queue, handler, **options).run()
