"""Redis Streams: a publisher, and consumer groups that take over from each other. For threads and for tasks.

consume("redis://…", queue="orders", handler=handle, inbox=inbox)
"""

from typing import Any, Unpack

from dupeproof import defaults
from dupeproof.brokers.base import Handler
from dupeproof.brokers.factory import AnyConsumer, group_of, make_consumer
from dupeproof.brokers.options import ConsumeOptions, Queues, check_place
from dupeproof.brokers.several import one_of
from dupeproof.brokers.several_async import one_of as one_of_async
from dupeproof.core.durations import Duration, milliseconds
from dupeproof.errors import ConfigError

try:
    from dupeproof.brokers.redis_streams.publisher import RedisStreamPublisher
    from dupeproof.brokers.redis_streams.publisher_async import AsyncRedisStreamPublisher
    from dupeproof.brokers.redis_streams.source import RedisStreamSource
    from dupeproof.brokers.redis_streams.source_async import AsyncRedisStreamSource
except ModuleNotFoundError as exc:
    if (exc.name or "").partition(".")[0] not in ("redis", "hiredis"):
        raise
    raise ConfigError('Redis Streams need redis-py; run: pip install "dupeproof[redis]"') from exc

__all__ = ["AsyncRedisStreamPublisher", "RedisStreamPublisher", "consume", "consumer"]


def consumer(
    url: str,
    queue: Queues,
    handler: Handler,
    *,
    inbox: Any = None,
    once: Any = None,
    group: str | None = None,
    create: bool = False,
    takeover: Duration = defaults.STREAM_TAKEOVER,
    **options: Unpack[ConsumeOptions],
) -> AnyConsumer:
    """A consumer to `run` and `stop`, of the stream `queue`, or of several.

    An entry whose consumer gave no sign of life for `takeover` goes to another of the group; a retry waits no longer
    than that either. What is dead-lettered is added to `<queue>.dead`.
    """
    queues = check_place(url, queue)
    options_ = {"create": create, "takeover": milliseconds(takeover, name="takeover") / 1_000}

    def made(kind: Any) -> list[Any]:
        return [kind(url, each, group_of(group, inbox, once), **options_) for each in queues]

    return make_consumer(
        lambda: one_of(made(RedisStreamSource)),
        lambda: one_of_async(made(AsyncRedisStreamSource)),
        handler,
        group,
        inbox,
        once,
        options,
    )


def consume(url: str, queue: Queues, handler: Handler, **options: Any) -> Any:
    """Run a `consumer` until SIGTERM; to be awaited when the handler is async."""
    return consumer(url, queue, handler, **options).run()
