"""A broker without room: no message is blamed for it, what has room goes on, and what waits is told."""

import asyncio
import contextlib
import sqlite3
import threading

import pytest
from brokers_guards import made
from brokers_places import NatsPlace, RabbitPlace, RedisStreamPlace, message, new_queue

from dupeproof import AsyncRelay, Outbox, Relay
from dupeproof.brokers.base import Reject
from dupeproof.errors import BrokerUnavailable

COUNT = 20


class FullRedis:
    """Memory is what it lacks, so everything is full."""

    def __init__(self, request):
        self.place = RedisStreamPlace(request.getfixturevalue("own_redis")().url)
        self.queue = new_queue()
        self.place.declare(self.queue)

    def _limit(self, most):
        with self.place.client() as client:
            client.config_set("maxmemory", most)

    def fill(self):
        self._limit(1)

    def make_room(self):
        self._limit(0)

    fill_dead, make_dead_room = fill, make_room

    def length(self, queue):
        with self.place.client() as client:
            return client.xlen(queue)


class FullNats:
    def __init__(self, request):
        self.place = NatsPlace(request.getfixturevalue("nats_server").url)
        self.queue = new_queue()

    def _limit(self, queue, most):
        from nats.js.api import DiscardPolicy, StreamConfig
        from nats.js.errors import NotFoundError

        async def limit(client):
            streams = client.jetstream()
            name = queue.replace(".", "_")
            config = StreamConfig(name=name, subjects=[queue], discard=DiscardPolicy.NEW, max_msgs=most)
            try:
                await streams.update_stream(config)
            except NotFoundError:
                await streams.add_stream(config)

        asyncio.run(self.place.with_client(limit))

    def fill(self):
        self._limit(self.queue, 1)
        self.place.send_raw(self.queue, b"{}", {"id": "first"})

    def make_room(self):
        self._limit(self.queue, -1)

    def fill_dead(self):
        self._limit(f"{self.queue}.dead", 1)
        self.place.send_raw(f"{self.queue}.dead", b"{}", {"id": "first"})

    def make_dead_room(self):
        self._limit(f"{self.queue}.dead", -1)

    def length(self, queue):
        found = []

        async def look(client):
            name = await client.jetstream().find_stream_name_by_subject(queue)
            found.append((await client.jetstream().stream_info(name)).state.messages - 1)

        asyncio.run(self.place.with_client(look))
        return found[0]


class FullRabbit:
    """How long a queue may be is a policy, which can be changed."""

    def __init__(self, request):
        self.server = request.getfixturevalue("rabbitmq_server")
        self.place = RabbitPlace(self.server.url)
        self.queue = new_queue()

    @contextlib.contextmanager
    def _channel(self):
        channel = self.place.channel()
        yield channel
        channel.connection.close()

    def _declare(self, queue, arguments):
        with self._channel() as channel:
            channel.queue_declare(queue, durable=True, arguments=arguments)

    def fill(self):
        self._declare(self.queue, {"x-max-length": 1, "x-overflow": "reject-publish"})
        self.place.send_raw(self.queue, b"{}", {"id": "first"})

    def make_room(self):
        """By taking out what comes, for as long as something does."""
        self.taken, self.over = [], threading.Event()

        def take():
            with self._channel() as channel:
                while not self.over.is_set():
                    method, properties, _ = channel.basic_get(self.queue, auto_ack=True)
                    if method is not None:
                        self.taken.append(properties.message_id)

        self.taking = threading.Thread(target=take, daemon=True)
        self.taking.start()

    def fill_dead(self):
        self._declare(f"{self.queue}.dead", {"x-max-length": 0, "x-overflow": "reject-publish"})

    def make_dead_room(self):
        with self._channel() as channel:
            channel.queue_delete(f"{self.queue}.dead")
        self._declare(f"{self.queue}.dead", {})

    def length(self, queue):
        if queue == self.queue:
            self.over.set()
            self.taking.join()
            return len(set(self.taken) - {"first"})
        with self._channel() as channel:
            return channel.queue_declare(queue, passive=True).method.message_count


KINDS = {"redis": FullRedis, "nats": FullNats, "rabbitmq": FullRabbit}


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.server(name)) for name in KINDS])
def broker(request):
    return KINDS[request.param](request)


class Relaying:
    """A relay that closes its publisher in the end, and counts how often that was asked."""

    def __init__(self, url, publisher):
        self.calls = 0
        self.publisher = publisher
        options = {"max_attempts": 2, "backoff": "20ms", "max_backoff": "200ms"}
        self.relay = self.kind(url, publisher=self, **options)

    def stop(self):
        self.relay.stop()


class SyncRelaying(Relaying):
    kind = Relay

    def publish(self, messages):
        self.calls += 1
        return self.publisher.publish(messages)

    def run(self):
        with self.publisher:
            self.relay.run()


class AsyncRelaying(Relaying):
    kind = AsyncRelay

    async def publish(self, messages):
        self.calls += 1
        return await self.publisher.publish(messages)

    async def run(self):
        async with self.publisher:
            await self.relay.run()


@pytest.fixture
def relaying(tmp_path, is_async, run):
    """A relay at work on messages for these topics, which would give up after two attempts."""

    def start(place, *topics):
        with sqlite3.connect(tmp_path / "shop.db") as connection:
            Outbox().create_schema(connection)
            for number, topic in enumerate(topics):
                Outbox().add(connection, topic=topic, payload={}, id=f"m-{number}")
        kind = AsyncRelaying if is_async else SyncRelaying
        return run(kind(f"sqlite:///{tmp_path}/shop.db", place.publisher(is_async=is_async)))

    return start


@pytest.fixture
def status(tmp_path):
    def look():
        with Relay(f"sqlite:///{tmp_path}/shop.db", publisher=print) as relay:
            return relay.status()

    return look


def test_a_relay_waits_for_room_and_dead_letters_nothing(broker, relaying, status, until, caplog):
    broker.fill()
    running = relaying(broker.place, *[broker.queue] * COUNT)
    until(lambda: running.consumer.calls > 10 or running.ended, lambda: running.error)
    found = status()
    assert (found.dead, found.sent) == (0, 0)
    assert found.backlog == COUNT
    assert "no room" in caplog.text
    broker.make_room()
    until(lambda: status().sent == COUNT, status)
    running.stop()
    assert status().dead == 0
    assert broker.length(broker.queue) == COUNT


def test_a_relay_that_runs_once_says_that_there_is_no_room(broker, tmp_path):
    broker.fill()
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        Outbox().create_schema(connection)
        Outbox().add(connection, topic=broker.queue, payload={})
    publisher = broker.place.publisher()
    with Relay(f"sqlite:///{tmp_path}/shop.db", publisher=publisher) as relay:
        with pytest.raises(BrokerUnavailable, match="full"):
            relay.run_once()
        assert relay.status().backlog == 1
    publisher.close()


@pytest.mark.server("nats", "rabbitmq")
@pytest.mark.parametrize("kind", ["nats", "rabbitmq"])
def test_what_has_room_is_sent_beside_what_has_none(kind, request, relaying, status, until):
    """Also where more wait for room than go into a batch."""
    broker, other = KINDS[kind](request), new_queue()
    broker.fill()
    broker.place.declare(other)
    running = relaying(broker.place, *[broker.queue] * 250, *[other] * COUNT)
    until(lambda: status().sent == COUNT or running.ended, lambda: (status(), running.error))
    running.stop()
    assert status().dead == 0


def test_a_dead_letter_without_room_is_held_and_others_go_on(broker, is_async, run, until, caplog):
    broker.place.declare(broker.queue) if not isinstance(broker, FullRedis) else None
    calls = []

    def handle(each):
        calls.append(each.id)
        if each.id == "bad":
            raise Reject("no")

    broker.place.publish(
        message(broker.queue, "bad"), *(message(broker.queue, f"m-{n}") for n in range(COUNT))
    )
    broker.fill_dead()
    handler, once = made(handle, is_async)
    if isinstance(broker, FullRedis):  # it is full when it begins, too; then there has to be a group
        with broker.place.client() as client:
            client.config_set("maxmemory", 0)
            client.xgroup_create(broker.queue, "readers", id="0")
            client.config_set("maxmemory", 1)
    group = {} if isinstance(broker, FullRabbit) else {"group": "readers"}
    running = run(broker.place.consumer(broker.queue, handler, once=once, backoff="50ms", **group))
    until(
        lambda: (running.tally.done == COUNT and "is held" in caplog.text) or running.ended,
        lambda: (running.tally, running.error),
    )
    assert running.tally.reconnects == 0
    assert calls.count("bad") == 1
    broker.make_dead_room()
    until(lambda: broker.length(f"{broker.queue}.dead") >= 1, lambda: running.tally)
    until(lambda: running.tally.dead == 1, lambda: running.tally)
    running.stop()
    assert calls.count("bad") == 1 or isinstance(broker, FullRabbit)


def test_a_consumer_that_holds_a_dead_letter_stops_and_the_next_one_has_it(
    broker, is_async, run, until, caplog
):
    broker.place.declare(broker.queue) if not isinstance(broker, FullRedis) else None
    attempts = []

    def handle(each):
        attempts.append(each.attempt)
        raise Reject("no")

    group = {} if isinstance(broker, FullRabbit) else {"group": "readers"}
    broker.place.publish(message(broker.queue, "bad"))
    handler, once = made(handle, is_async)
    if isinstance(broker, FullRedis):
        with broker.place.client() as client:
            client.xgroup_create(broker.queue, "readers", id="0")
    broker.fill_dead()
    first = run(broker.place.consumer(broker.queue, handler, once=once, backoff="50ms", **group))
    until(lambda: "is held" in caplog.text or first.ended, lambda: (first.tally, first.error))
    first.stop()
    broker.make_dead_room()
    second = run(broker.place.consumer(broker.queue, handler, once=once, backoff="50ms", **group))
    until(lambda: broker.length(f"{broker.queue}.dead") == 1, lambda: (second.tally, second.error))
    second.stop()
    assert attempts[0] == 1
    assert len(attempts) == 2
