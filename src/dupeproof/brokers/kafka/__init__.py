"""Kafka: an idempotent publisher, and consumers whose position is committed with the effect. For threads and for tasks.

consume("127.0.0.1:9092", queue="orders", handler=handle, inbox=inbox)
"""

from typing import Any, Unpack

from dupeproof.brokers.base import Handler
from dupeproof.brokers.factory import AnyConsumer, group_of
from dupeproof.brokers.kafka.consumer import KafkaConsumer
from dupeproof.brokers.kafka.consumer_async import AsyncKafkaConsumer
from dupeproof.brokers.kafka.driver import Config
from dupeproof.brokers.kafka.publisher import KafkaPublisher
from dupeproof.brokers.kafka.publisher_async import AsyncKafkaPublisher
from dupeproof.brokers.kafka.source import KafkaSource
from dupeproof.brokers.kafka.source_async import AsyncKafkaSource
from dupeproof.brokers.kafka.topics import Topics
from dupeproof.brokers.kafka.transformer import Transformer, transform
from dupeproof.brokers.kafka.wire import forward
from dupeproof.brokers.options import (
    ConsumeOptions,
    Queues,
    check_guard,
    check_known,
    check_middleware,
    check_place,
)
from dupeproof.core.callables import is_async

__all__ = [
    "AsyncKafkaPublisher",
    "KafkaPublisher",
    "Transformer",
    "consume",
    "consumer",
    "forward",
    "transform",
]


def consumer(
    url: str,
    queue: Queues,
    handler: Handler,
    *,
    inbox: Any = None,
    once: Any = None,
    group: str | None = None,
    create: bool = False,
    config: Config | None = None,
    **options: Unpack[ConsumeOptions],
) -> AnyConsumer:
    """A consumer to `run` and `stop`, of the topic `queue` on the brokers `url`, written `host:port,host:port`.

    `queue` may also be a list of topics, or a pattern that begins with `^`, such as `"^orders[.].*"`. Topics that are made later
    and fit it are found within ten seconds; those that end with `.dead` are left out, unless the pattern does too.

    With an inbox, how far it is in each partition is written in the transaction of the effect, and a consumer that lost a
    partition cannot write any more. A message that fails holds up its partition, and no other, until it succeeds or is
    dead-lettered, to the topic `<topic>.dead` beside its own. `config` are settings of librdkafka, which win over ours.
    """
    topics = Topics(check_place(url, queue))
    check_known(options)
    check_guard(handler, inbox, once)
    options["middleware"] = check_middleware(handler, options.get("middleware", ()))
    name = group_of(group, inbox, once)
    if is_async(handler):
        tasks = AsyncKafkaSource(url, topics, name, create=create, config=config or {}, inbox=inbox)
        return AsyncKafkaConsumer(tasks, handler, group=name, inbox=inbox, once=once, **options)
    threads = KafkaSource(url, topics, name, create=create, config=config or {}, inbox=inbox)
    return KafkaConsumer(threads, handler, group=name, inbox=inbox, once=once, **options)


def consume(url: str, queue: Queues, handler: Handler, **options: Any) -> Any:
    """Run a `consumer` until SIGTERM; to be awaited when the handler is async."""
    return consumer(url, queue, handler, **options).run()
