"""Redis Streams: a publisher, and consumer groups that take over from each other. For threads and for tasks.

consume("redis://…", queue="orders", handler=handle, inbox=inbox)
"""

from typing import Any, Unpack

from dupeproof.brokers.base import Handler
from dupeproof.brokers.consuming import AnyConsumer, group_of, make_consumer
from dupeproof.brokers.options import ConsumeOptions, check_place
from dupeproof.core.durations import Duration, milliseconds
from dupeproof.errors import ConfigError

try:
    from dupeproof.brokers.redis_streams._async.publisher import AsyncRedisStreamPublisher
    from dupeproof.brokers.redis_streams._async.source import AsyncRedisStreamSource
    from dupeproof.brokers.redis_streams._sync.publisher import RedisStreamPublisher
    from dupeproof.brokers.redis_streams._sync.source import RedisStreamSource
except ModuleNotFoundError as exc:
    if (exc.name or "").partition(".")[0] not in ("redis", "hiredis"):
        raise
    raise ConfigError('Redis Streams need redis-py; run: pip install "dupeproof[redis]"') from exc

__all__ = ["AsyncRedisStreamPublisher", "RedisStreamPublisher", "consume", "consumer"]


def consumer(
    url: str,
    queue: str,
    handler: Handler,
    *,
    inbox: Any = None,
    once: Any = None,
    group: str | None = None,
    create: bool = False,
    takeover: Duration = "60s",
    **options: Unpack[ConsumeOptions],
) -> AnyConsumer:
    """A consumer to `run` and `stop`, of the stream `queue`.

    An entry whose consumer gave no sign of life for `takeover` goes to another of the group; a retry waits no longer
    than that either. What is put aside is added to `<queue>.dead`.
    """
    check_place(url, queue)
    seconds = milliseconds(takeover, name="takeover") / 1_000
    return make_consumer(
        lambda: RedisStreamSource(url, queue, group_of(group, inbox, once), create=create, takeover=seconds),
        lambda: AsyncRedisStreamSource(
            url, queue, group_of(group, inbox, once), create=create, takeover=seconds
        ),
        handler,
        group,
        inbox,
        once,
        options,
    )


def consume(url: str, queue: str, handler: Handler, **options: Any) -> Any:
    """Run a `consumer` until SIGTERM; to be awaited when the handler is async."""
    return consumer(url, queue, handler, **options).run()
