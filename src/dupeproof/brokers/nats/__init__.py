"""NATS JetStream: a publisher whose messages the server knows by id, and durable consumers. For threads and for tasks.

consume("nats://…", queue="orders", handler=handle, inbox=inbox)
"""

from typing import Any, Unpack

from dupeproof import defaults
from dupeproof.brokers.base import Handler
from dupeproof.brokers.factory import AnyConsumer, group_of, make_consumer
from dupeproof.brokers.nats.publisher import NatsPublisher
from dupeproof.brokers.nats.publisher_async import AsyncNatsPublisher
from dupeproof.brokers.nats.source import NatsSource
from dupeproof.brokers.nats.source_async import AsyncNatsSource
from dupeproof.brokers.options import ConsumeOptions, Queues, check_place
from dupeproof.brokers.several import one_of
from dupeproof.brokers.several_async import one_of as one_of_async
from dupeproof.core.durations import Duration, milliseconds

__all__ = ["AsyncNatsPublisher", "NatsPublisher", "consume", "consumer"]


def consumer(
    url: str,
    queue: Queues,
    handler: Handler,
    *,
    inbox: Any = None,
    once: Any = None,
    group: str | None = None,
    create: bool = False,
    ack_wait: Duration = defaults.NATS_ACK_WAIT,
    dead: str | None = None,
    **options: Unpack[ConsumeOptions],
) -> AnyConsumer:
    """A consumer to `run` and `stop`, of the subject `queue`, or of several, which a stream has to keep; `create` adds one.

    A subject may have wildcards: `orders.*`, `orders.>`. A message whose consumer gave no sign of life for `ack_wait` comes
    again. Dead letters go to the subject `dead`, in a stream of its own: `<queue>.dead` unless given, and for one with
    wildcards `dead.<queue>` with `_` for them.
    """
    queues = check_place(url, queue)
    options_ = {"create": create, "ack_wait": milliseconds(ack_wait, name="ack_wait") / 1_000, "dead": dead}

    def made(kind: Any) -> list[Any]:
        return [kind(url, each, group_of(group, inbox, once), **options_) for each in queues]

    return make_consumer(
        lambda: one_of(made(NatsSource)),
        lambda: one_of_async(made(AsyncNatsSource)),
        handler,
        group,
        inbox,
        once,
        options,
    )


def consume(url: str, queue: Queues, handler: Handler, **options: Any) -> Any:
    """Run a `consumer` until SIGTERM; to be awaited when the handler is async."""
    return consumer(url, queue, handler, **options).run()
