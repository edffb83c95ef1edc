"""What the torture happens on: a broker and a database, our own or given."""

import logging
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Self

from msgspec import Struct

from dupeproof.core.events import logger
from dupeproof.errors import ConfigError
from dupeproof.outbox import Outbox
from dupeproof.sql.databases import opened
from dupeproof.stores import open_store
from dupeproof_lab import servers
from dupeproof_lab.torture.pipes import PipeBroker
from dupeproof_lab.torture.worker import Config


class Kind(Struct, frozen=True):
    """A broker, as the torture uses it. Times are short: nobody has all day."""

    module: str
    publisher: str
    server: Callable[[], servers.Server]
    options: dict[str, Any]
    keeps_order: bool
    retries_keep_place: bool
    """A message that fails holds up those with its key; else they overtake it, and its key has no order to check."""
    positions: bool
    """Where a consumer is stands in the database: messages need no id."""
    redelivers_within: float
    """Seconds after which a message that a dead consumer had comes again, for sure."""
    session: float
    """Seconds after which a consumer that says nothing is taken for dead."""
    quiet: float = 2.0
    """Seconds without a word, once all is done, after which no duplicate comes any more: its own time to redeliver is over."""
    declare: Callable[[str, str], None] | None = None
    given: dict[str, Any] = {}
    """Options where the broker is not our own, and has other limits."""
    address: Callable[[str], str] = str
    """What is made of the URL for a consumer."""


def _short_heartbeat(url: str) -> str:
    """So that the broker gives up a frozen consumer within seconds."""
    return url if "heartbeat=" in url else f"{url}{'&' if '?' in url else '?'}heartbeat=3"


def _single_active(url: str, queue: str) -> None:
    """One consumer at a time gets messages, the others stand by: so RabbitMQ keeps their order.

    The queues in which retries wait are declared now: a quorum queue that is declared less than half a second before the
    server is killed never takes a message again (seen with 3.10.8), which is not for us to show.
    """
    from dupeproof.brokers.rabbitmq import wire  # noqa: PLC0415 - an extra
    from dupeproof.brokers.rabbitmq.driver import parameters, pika, translated  # noqa: PLC0415

    with translated(url), closing(pika.BlockingConnection(parameters(url))) as connection:
        channel = connection.channel()
        channel.queue_declare(queue, durable=True, arguments={"x-single-active-consumer": True})
        for seconds in (0.2, 0.4, 0.8, 1.0):  # as `backoff` and `max_backoff` have it
            name, arguments = wire.delay_queue(queue, seconds)
            channel.queue_declare(name, durable=True, arguments=arguments)


_OPTIONS: dict[str, Any] = {"backoff": "200ms", "max_backoff": "1s", "max_attempts": 50}
"""Of every consumer. Kills that are aimed may meet one message again and again; it is not to be dead-lettered for that."""
KINDS = {
    "rabbitmq": Kind(
        "dupeproof.brokers.rabbitmq",
        "RabbitPublisher",
        servers.RabbitMQ,
        {**_OPTIONS, "batch": 50},
        keeps_order=True,
        retries_keep_place=False,
        positions=False,
        redelivers_within=15.0,
        session=3.0,
        declare=_single_active,
        address=_short_heartbeat,
    ),
    "kafka": Kind(
        "dupeproof.brokers.kafka",
        "KafkaPublisher",
        lambda: servers.Kafka(settings={"num.partitions": 4}),
        {
            **_OPTIONS,
            "create": True,
            "missing_id": "pass",
            "config": {"session.timeout.ms": 3_000, "heartbeat.interval.ms": 1_000},
            "batch": 100,
        },
        keeps_order=True,
        retries_keep_place=True,
        positions=True,
        redelivers_within=25.0,
        session=3.0,
        given={"config": {"session.timeout.ms": 6_000}},
    ),
    "redis": Kind(
        "dupeproof.brokers.redis_streams",
        "RedisStreamPublisher",
        lambda: servers.Redis(appendonly=True),
        {**_OPTIONS, "create": True, "takeover": "3s", "batch": 50},
        keeps_order=False,
        retries_keep_place=False,
        positions=False,
        redelivers_within=25.0,
        session=3.0,
        quiet=5.0,
    ),
    "nats": Kind(
        "dupeproof.brokers.nats",
        "NatsPublisher",
        servers.Nats,
        {**_OPTIONS, "create": True, "ack_wait": "3s", "batch": 50},
        keeps_order=False,
        retries_keep_place=False,
        positions=False,
        redelivers_within=25.0,
        session=3.0,
        quiet=5.0,
    ),
}
PIPE_OPTIONS = {**_OPTIONS, "batch": 20}
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

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dupeproof-torture-")))
            stack.enter_context(_logged(self.folder / "coordinator.log"))
            if self.kind is not None:
                # What is not installed is told before a server is started.
                import_module(self.kind.module)
                if self._url is None:
                    self._url = self._start(stack, "broker", self.kind.server()).url
                if self._database is None:
                    self._database = self._start(stack, "database", servers.Postgres()).url
                if self.kind.declare is not None:
                    self.kind.declare(self._url, self.queue)
            elif self._database is None:
                self._database = f"sqlite:///{self.folder}/torture.db"
            with closing(open_store(self._database)) as store:
                store.check()  # makes the tables
            with opened(self._database)() as connection:
                Outbox().create_schema(connection)
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

    @property
    def session(self) -> float:
        return 0.0 if self.kind is None else self.kind.session

    @property
    def retries_keep_place(self) -> bool:
        return self.kind is None or self.kind.retries_keep_place

    def is_through(self, quiet: float, *, is_all: bool) -> bool:
        """Whether nothing comes any more. Our own pipes know; of a broker it is told by so many seconds without a word."""
        if self.pipes is not None:
            return self.pipes.is_empty
        assert self.kind is not None
        return quiet > (self.kind.quiet if is_all else self.kind.redelivers_within)

    def owns(self, role: str) -> bool:
        """Whether it may be killed: only what was started here."""
        return role in self._servers

    def kill(self, role: str) -> None:
        """Without a word, as by kill -9."""
        self._servers[role].kill()

    def start(self, role: str) -> None:
        """Up again, on the same data."""
        self._servers[role].start()

    def relay(self) -> Config:
        return self._config(role="relay", url=self._url or "")

    def consumer(self, number: int, handler: str | None, concurrency: int) -> Config:
        """Every other one is of tasks, where the database has a driver for those."""
        url = self._url or ""
        return self._config(
            role="consumer",
            url=url if self.kind is None else self.kind.address(url),
            handler=handler,
            locks=self.keeps_order,
            tasks=handler is None and number % 2 == 1 and not self.database.startswith("sqlite"),
            options={
                **(PIPE_OPTIONS if self.kind is None else self.kind.options),
                "concurrency": concurrency,
            },
        )

    def _options(self) -> dict[str, Any]:
        if self.kind is None:
            return PIPE_OPTIONS
        return {**self.kind.options, **({} if self.owns("broker") else self.kind.given)}

    def _config(
        self,
        *,
        role: Literal["consumer", "relay"],
        url: str,
        handler: str | None = None,
        tasks: bool = False,
        locks: bool = True,
        options: dict[str, Any] | None = None,
    ) -> Config:
        return Config(
            role=role,
            module=None if self.kind is None else self.kind.module,
            publisher=None if self.kind is None else self.kind.publisher,
            url=url,
            queue=self.queue,
            database=self.database,
            handler=handler,
            tasks=tasks,
            locks=locks,
            options=options or {},
        )
