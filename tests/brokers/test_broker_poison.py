"""A message that makes the broker hang up is found, counted and dead-lettered; its neighbours arrive."""

import asyncio
import inspect
import sqlite3
import threading
import time
from collections import Counter
from functools import partial

import pytest
from brokers_places import PLACES, SERVERS, new_queue

from dupeproof import AsyncRelay, Outbox, Relay
from dupeproof.brokers.base import UNGUARDED
from dupeproof.outbox.sources import open_source

NEIGHBOURS = 300
MOST_COPIES = 4
"""Of a neighbour: with all, then in parts of 38, 5 and 1."""
REASONS = {
    "rabbitmq": "also alone: RabbitMQ closed the connection: FRAME_ERROR",
    "nats": "also alone: NATS closed the connection: maximum payload violation",
    "redis_streams": "Protocol error: invalid bulk length",
}


class Shop:
    """An outbox in a file, and a relay that runs beside the test."""

    def __init__(self, path, **options):
        self.url = f"sqlite:///{path}?synchronous=normal"
        self._connection = sqlite3.connect(path)
        self.outbox = Outbox(**options)
        self.outbox.create_schema(self._connection)

    def add(self, *messages):
        with self._connection:
            self.outbox.add_many(self._connection, messages)

    def relaying(self, publisher, **options):
        options = {"poll": "20ms", "backoff": "50ms", "max_backoff": "50ms", **options}
        is_async = inspect.iscoroutinefunction(publisher.publish)
        relay = (AsyncRelay if is_async else Relay)(self.url, publisher=publisher, **options)

        def run():
            with publisher:
                relay.run()

        async def run_async():
            async with publisher:
                await relay.run()

        thread = threading.Thread(target=(lambda: asyncio.run(run_async())) if is_async else run, daemon=True)
        thread.start()
        return relay, thread

    def status(self):
        return Relay(self.url, publisher=print).status()


def unchecked(place, *, is_async, **options):
    """A publisher that does not know the limits of its broker, as it knows not all reasons for which one hangs up."""
    publisher = place.publisher(is_async=is_async, **options)
    publisher._unfit = lambda _: None
    return publisher


@pytest.fixture
def poisoned(request):
    """A broker of each kind, and what it hangs up on."""

    def made(name):
        if name == "rabbitmq":
            return PLACES[name](request.getfixturevalue("rabbitmq_server").url), {
                "payload": b"{}",
                "headers": {"h": "y" * 200_000},
            }
        if name == "nats":
            return PLACES[name](request.getfixturevalue("nats_server").url), {"payload": b"x" * 1_048_576}
        server = request.getfixturevalue("own_redis")(options={"proto-max-bulk-len": "1mb"})
        return PLACES[name](server.url), {"payload": b"x" * 1_200_000}

    return made


def arrived(place, queue, run, until, least):
    """How often each message is in the queue."""
    found = []
    group = {} if place.name == "rabbitmq" else {"group": "readers"}
    reader = run(place.consumer(queue, found.append, once=UNGUARDED, **group))
    until(lambda: len({each.id for each in found}) >= least, lambda: len(found))
    time.sleep(0.3)  # for what should not be there
    reader.stop()
    return Counter(each.id for each in found)


@pytest.mark.parametrize(
    ("name", "is_checked"),
    [
        pytest.param("rabbitmq", True, marks=pytest.mark.server("rabbitmq"), id="rabbitmq-known-limit"),
        pytest.param("rabbitmq", False, marks=pytest.mark.server("rabbitmq"), id="rabbitmq"),
        pytest.param("nats", True, marks=pytest.mark.server("nats"), id="nats-known-limit"),
        pytest.param("nats", False, marks=pytest.mark.server("nats"), id="nats"),
        pytest.param("redis_streams", False, marks=pytest.mark.server("redis"), id="redis"),
    ],
)
def test_a_message_the_broker_hangs_up_on_is_put_aside_and_its_neighbours_arrive(
    name, is_checked, is_async, poisoned, tmp_path, run, until
):
    place, poison = poisoned(name)
    queue = new_queue()
    place.declare(queue)
    shop = Shop(tmp_path / "shop.db", max_payload=2_000_000, max_headers=300_000)
    neighbours = [{"topic": queue, "payload": b"{}", "id": f"m-{n}"} for n in range(NEIGHBOURS)]
    shop.add(*neighbours[:200], {"topic": queue, "id": "poison", **poison}, *neighbours[200:])
    make = place.publisher if is_checked else partial(unchecked, place)
    relay, thread = shop.relaying(make(is_async=is_async), max_attempts=3)
    until(lambda: shop.status().failing or shop.status().dead, shop.status)
    shop.add(*({"topic": queue, "payload": b"{}", "id": f"late-{n}"} for n in range(50)))
    until(lambda: shop.status().backlog == 0, shop.status)
    relay.stop()
    thread.join(20)
    [dead] = open_source(shop.url).dead(10)
    assert (dead.id, dead.attempts) == ("poison", 3)
    assert (REASONS[name] if not is_checked else "raise") in dead.error
    counts = arrived(place, queue, run, until, NEIGHBOURS + 50)
    assert "poison" not in counts
    assert set(counts) == {f"m-{n}" for n in range(NEIGHBOURS)} | {f"late-{n}" for n in range(50)}
    most = 1 if is_checked else MOST_COPIES
    assert max(counts[f"m-{n}"] for n in range(NEIGHBOURS)) <= most, counts.most_common(5)
    # Those that came when it had failed before are not sent with it.
    assert {counts[f"late-{n}"] for n in range(50)} == {1}


@pytest.mark.server("rabbitmq")
def test_many_such_messages_are_all_found(is_async, poisoned, tmp_path, run, until):
    place, poison = poisoned("rabbitmq")
    queue = new_queue()
    place.declare(queue)
    shop = Shop(tmp_path / "shop.db", max_headers=300_000)
    bad = [{"topic": queue, "id": f"poison-{n}", **poison} for n in range(12)]
    good = [{"topic": queue, "payload": b"{}", "id": f"m-{n}"} for n in range(60)]
    shop.add(*(each for n, one in enumerate(bad) for each in (*good[n * 5 : n * 5 + 5], one)))
    relay, thread = shop.relaying(unchecked(place, is_async=is_async), max_attempts=2)
    until(lambda: shop.status().backlog == 0, shop.status)
    relay.stop()
    thread.join(20)
    assert {each.id for each in open_source(shop.url).dead(100)} == {each["id"] for each in bad}
    assert set(arrived(place, queue, run, until, 60)) == {each["id"] for each in good}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.server(server)) for name, server in SERVERS.items()]
)
def test_every_broker_takes_the_largest_message_that_an_outbox_takes(name, request, tmp_path, until):
    """With the settings that both have unless told otherwise."""
    place, queue = PLACES[name](request.getfixturevalue(f"{SERVERS[name]}_server").url), new_queue()
    place.declare(queue)
    shop = Shop(tmp_path / "shop.db")
    names = {"key": "k" * 4_096, "id": "i" * 4_096, "type": "t" * 255}
    shop.add({"topic": queue, "payload": b"x" * 1_000_000, "headers": {"h": "v" * 32_750}, **names})
    relay, thread = shop.relaying(place.publisher())
    until(lambda: relay.sent == 1, shop.status)
    relay.stop()
    thread.join(20)
    assert shop.status().backlog == 0


@pytest.mark.timeout(180)
def test_a_broker_that_goes_down_is_no_reason_to_blame_a_message(
    own_rabbitmq, own_nats, tmp_path, run, until
):
    """Killed and restarted three times under load, with nothing in hand lost and hardly anything sent again."""
    for number, server in enumerate((own_rabbitmq(), own_nats())):
        place, queue = PLACES[server.name](server.url), new_queue()
        place.declare(queue)
        for is_async in (False, True):
            shop = Shop(tmp_path / f"shop-{number}-{is_async}.db")
            relay, thread = shop.relaying(place.publisher(is_async=is_async), max_attempts=2)
            idents = []
            for _ in range(3):
                new = [f"{is_async}-{len(idents) + n}" for n in range(1_000)]
                idents += new
                shop.add(*({"topic": queue, "payload": b"{}", "id": ident} for ident in new))
                until(lambda relay=relay, idents=idents: relay.sent > len(idents) - 900)
                server.kill()
                time.sleep(0.2)
                server.start()
            until(lambda shop=shop: shop.status().backlog == 0, shop.status)
            relay.stop()
            thread.join(20)
            assert not thread.is_alive()
            assert shop.status().dead == 0
            counts = arrived(place, queue, run, until, 3_000)
            assert set(counts) == set(idents)
