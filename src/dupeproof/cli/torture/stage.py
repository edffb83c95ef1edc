"""What the torture happens on: a broker and a database, our own or given."""

import logging
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Self

from msgspec import Struct

from dupeproof.brokers.errors import BrokerUnavailable
from dupeproof.cli.torture.pipes import PipeBroker
from dupeproof.cli.torture.worker import Config
from dupeproof.core.events import logger
from dupeproof.errors import ConfigError
from dupeproof.outbox.messages import Message
from dupeproof.stores import open_store
from dupeproof.testing import servers

_PUBLISH_SECONDS = 180.0


class Kind(Struct, frozen=True):
    """A broker, as the torture uses it. Times are short: nobody has all day."""

    module: str
    publisher: str
    server: Callable[[], servers.Server]
    options: dict[str, Any]
    keeps_order: bool
    redelivers_within: float
    """Seconds after which a message that a dead consumer had comes again, for sure."""
    quiet: float = 2.0
    """Seconds without a word, once all is done, after which no duplicate comes any more: its own time to redeliver is over."""
    declare: Callable[[str, str], None] | None = None


def _single_active(url: str, queue: str) -> None:
    """One consumer at a time gets messages, the others stand by: so RabbitMQ keeps their order."""
    from dupeproof.brokers.rabbitmq._sync.driver import parameters, pika, translated  # noqa: PLC0415 - an extra

    with translated(url), closing(pika.BlockingConnection(parameters(url))) as connection:
        connection.channel().queue_declare(queue, durable=True, arguments={"x-single-active-consumer": True})


KINDS = {
    "rabbitmq": Kind(
        "dupeproof.brokers.rabbitmq",
        "RabbitPublisher",
        servers.RabbitMQ,
        {"backoff": "200ms", "max_backoff": "1s", "batch": 50},
        keeps_order=True,
        redelivers_within=20.0,
        declare=_single_active,
    ),
    "kafka": Kind(
        "dupeproof.brokers.kafka",
        "KafkaPublisher",
        servers.Kafka,
        {
            "create": True,
            "backoff": "200ms",
            "max_backoff": "1s",
            "config": {"session.timeout.ms": 6_000},
            "batch": 100,
        },
        keeps_order=True,
        redelivers_within=25.0,
    ),
    "redis": Kind(
        "dupeproof.brokers.redis_streams",
        "RedisStreamPublisher",
        lambda: servers.Redis(appendonly=True),
        {"create": True, "backoff": "200ms", "max_backoff": "1s", "takeover": "3s", "batch": 50},
        keeps_order=False,
        redelivers_within=25.0,
        quiet=5.0,
    ),
    "nats": Kind(
        "dupeproof.brokers.nats",
        "NatsPublisher",
        servers.Nats,
        {"create": True, "backoff": "200ms", "max_backoff": "1s", "ack_wait": "3s", "batch": 50},
        keeps_order=False,
        redelivers_within=25.0,
        quiet=5.0,
    ),
}
PIPE_OPTIONS = {"backoff": "200ms", "max_backoff": "1s", "batch": 20}
BROKERS = ("memory", *KINDS)


@contextmanager
def _logged(file: Path) -> Iterator[None]:
    """What is told of servers that come and go is no news here, and would run through the progress bar."""
    handler = logging.FileHandler(file)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        handler.close()


class Stage:
    """Entered, it is ready: servers up, tables made, the queue there."""

    def __init__(self, broker: str, *, url: str | None, database: str | None, consumers: int) -> None:
        if broker not in BROKERS:
            raise ConfigError(f"there is no broker {broker!r}; there are: {', '.join(BROKERS)}")
        if broker == "memory" and url is not None:
            raise ConfigError("--url is for a broker that has one; memory has none")
        self.broker = broker
        self.kind = KINDS.get(broker)
        self.queue = f"torture-{uuid.uuid4().hex[:10]}"
        self.pipes: PipeBroker | None = PipeBroker(consumers) if self.kind is None else None
        self.versions: dict[str, str] = {}
        self._url, self._database = url, database
        self._servers: dict[str, servers.Server] = {}
        self._stack = ExitStack()
        self._publisher: Any = self.pipes
        self._was_there = False

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dupeproof-torture-")))
            stack.enter_context(_logged(self.folder / "publisher.log"))
            if self.kind is not None:
                # What is not installed is told before a server is started.
                module = import_module(self.kind.module)
                if self._url is None:
                    self._url = self._start(stack, "broker", self.kind.server()).url
                if self._database is None:
                    self._database = self._start(stack, "database", servers.Postgres()).url
                if self.kind.declare is not None:
                    self.kind.declare(self._url, self.queue)
                self._publisher = getattr(module, self.kind.publisher)(self._url)
                stack.callback(self._publisher.close)
            elif self._database is None:
                self._database = f"sqlite:///{self.folder}/torture.db"
            with closing(open_store(self._database)) as store:
                store.check()  # makes the tables
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self, stack: ExitStack, role: str, server: servers.Server) -> servers.Server:
        self._servers[role] = stack.enter_context(server)
        self.versions[server.name] = server.version
        return server

    @property
    def database(self) -> str:
        assert self._database is not None
        return self._database

    @property
    def keeps_order(self) -> bool:
        return self.kind is None or self.kind.keeps_order

    def is_through(self, quiet: float, *, is_all: bool) -> bool:
        """Whether nothing comes any more. Our own pipes know; of a broker it is told by so many seconds without a word."""
        if self.pipes is not None:
            return self.pipes.is_empty
        assert self.kind is not None
        return quiet > (self.kind.quiet if is_all else self.kind.redelivers_within)

    def owns(self, role: str) -> bool:
        """Whether it may be killed: only what was started here."""
        return role in self._servers

    def restart(self, role: str) -> None:
        """Without a word, as by kill -9, and up again on the same data."""
        server = self._servers[role]
        server.kill()
        server.start()

    def config(self, handler: str | None) -> Config:
        if self.kind is None:
            return Config(None, "", self.queue, self.database, handler, PIPE_OPTIONS)
        return Config(
            self.kind.module, self._url or "", self.queue, self.database, handler, self.kind.options
        )

    def publish(self, messages: Sequence[Message]) -> int:
        """Until every one is confirmed; how many were sent again for want of a confirm.

        A broker that is away comes back, if it was ever there.
        """
        left, again = list(messages), 0
        give_up = time.monotonic() + _PUBLISH_SECONDS
        while left:
            try:
                results = self._publisher.publish(left)
            except BrokerUnavailable:
                if not self._was_there:
                    raise
            else:
                self._was_there = True
                left = [each for each, result in zip(left, results, strict=True) if result is not None]
            if left:
                again += len(left)
                if time.monotonic() > give_up:
                    raise ConfigError(f"the broker did not take messages for {_PUBLISH_SECONDS:.0f} s")
                time.sleep(0.1)
        return again
