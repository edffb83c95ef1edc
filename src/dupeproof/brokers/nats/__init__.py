"""NATS JetStream: a publisher whose messages the server knows by id, and durable consumers. For threads and for tasks.

consume("nats://…", queue="orders", handler=handle, inbox=inbox)
"""

from typing import Any, Unpack

from dupeproof.brokers.base import Handler
from dupeproof.brokers.consuming import AnyConsumer, group_of, make_consumer
from dupeproof.brokers.nats._async.publisher import AsyncNatsPublisher
from dupeproof.brokers.nats._async.source import AsyncNatsSource
from dupeproof.brokers.nats._sync.publisher import NatsPublisher
from dupeproof.brokers.nats._sync.source import NatsSource
from dupeproof.brokers.options import ConsumeOptions, check_place
from dupeproof.core.durations import Duration, milliseconds

__all__ = ["AsyncNatsPublisher", "NatsPublisher", "consume", "consumer"]


def consumer(
    url: str,
    queue: str,
    handler: Handler,
    *,
    inbox: Any = None,
    once: Any = None,
    group: str | None = None,
    create: bool = False,
    ack_wait: Duration = "30s",
    **options: Unpack[ConsumeOptions],
) -> AnyConsumer:
    """A consumer to `run` and `stop`, of the subject `queue`, which a stream has to keep; `create` adds one.

    A message whose consumer gave no sign of life for `ack_wait` comes again. What is put aside goes to the subject
    `<queue>.dead`, in a stream of its own.
    """
    check_place(url, queue)
    seconds = milliseconds(ack_wait, name="ack_wait") / 1_000
    return make_consumer(
        lambda: NatsSource(url, queue, group_of(group, inbox, once), create=create, ack_wait=seconds),
        lambda: AsyncNatsSource(url, queue, group_of(group, inbox, once), create=create, ack_wait=seconds),
        handler,
        group,
        inbox,
        once,
        options,
    )


def consume(url: str, queue: str, handler: Handler, **options: Any) -> Any:
    """Run a `consumer` until SIGTERM; to be awaited when the handler is async."""
    return consumer(url, queue, handler, **options).run()
