"""Everything of ours that touches tables, done once: what a user may do who can do this is enough to work with."""

import time
from contextlib import suppress
from uuid import uuid4

from migrations_catalogues import connected

from dupeproof import Dead, Held, Inbox, Once, Outbox, Relay
from dupeproof.brokers.kafka.positions import Positions
from dupeproof.cleanup import Purger
from dupeproof.doctor import examine
from dupeproof.filters import SequenceGuard
from dupeproof.outbox.sources import open_source


class Refusal(Exception):
    pass


def fail():
    raise Refusal


def records(url):
    with Once(url, namespace=uuid4().hex, max_attempts=1) as once:
        once.check()
        once.seen("a")
        assert once.fresh(["a", "b", "c"], key=str) == ["b", "c"]
        with suppress(Refusal, Dead):
            once.run("dies", fail)
        assert once.run("ran", lambda: 1) == 1
        once.get("ran")
        once.forget("ran")
        once.forget("a")
        list(once.entries(state="dead"))
        once.resolve("dies", result=1)
        once.stats()
    with Once(url, namespace=uuid4().hex, window="1ms") as once:
        once.seen("a")
        once.run("a", int)
        time.sleep(0.005)
        once.purge()
    with Once(url, on_abandoned="hold", namespace=uuid4().hex) as once:
        with once.claim("k") as claim:
            claim.hold(reason="to see")
        with suppress(Held):
            once.run("k", int)
        once.resolve("k", result=1)


def sequences(url):
    guard, producer = SequenceGuard(url), uuid4().hex
    assert guard.first(producer, 1, 1)
    guard.stats()
    guard.retire(producer)
    guard.close()


def inbox(url):
    mine = Inbox(uuid4().hex, database=url)
    with connected(url) as connection:
        assert mine.first(connection, "m-1")
        assert mine.first_many(connection, ["m-1", "m-2", "m-3"]) == [False, True, True]
        mine.unmark(connection, ["m-3"])
        mine.begin_attempt(connection, "m-4")
        mine.begin_attempt(connection, "m-4")
        mine.end_attempts(connection, ["m-4"])
        for version in (1, 2, 1):
            mine.newer(connection, entity="e-1", version=version, id="m-1")
        mine.forget_entity(connection, "e-1")
        mine.change_window(connection, "1h")
        mine.change_window(connection, "2h")
        mine.window(connection)
        mine.change_window(connection, None)
        mine.lateness(connection)
    short = Inbox(uuid4().hex, window="1ms")
    for _ in range(3):  # what came late is counted, and goes on being counted when the mark is purged
        with connected(url) as connection:
            short.purge(connection)
            short.lateness(connection)
            short.first(connection, "m-1")
            time.sleep(0.005)
            short.first(connection, "m-1")
        time.sleep(0.005)
    positions = Positions(mine)
    positions.take({("t", 0): "id"}, "me")
    positions.take({("t", 0): "id"}, "me")
    positions.take({("t", 0): "other"}, "me")
    with mine.transaction() as connection:
        positions.record(connection, {("t", 0): (3, "me")})
    mine.close()


def outbox(url):
    def publish(message):
        if message.topic == "fails":
            raise Refusal

    box = Outbox()
    with connected(url) as connection:
        box.add(connection, topic="goes", payload={}, key="k")
        box.add(connection, topic="fails", payload={}, key="f")
        box.add(connection, topic="fails", payload={})
        box.add(connection, topic="later", payload={}, delay="1ms")
    for options in ({"max_attempts": 2}, {"keep": "1ms"}, {"max_attempts": 1}):
        with Relay(url, publisher=publish, backoff="1ms", listen=False, **options) as relay:
            for _ in range(3):
                relay.run_once()
                time.sleep(0.002)
            relay.status()
    source = open_source(url)
    dead = source.dead(10)
    assert dead
    source.retry([dead[0].id])
    with Relay(url, publisher=publish, max_attempts=1, listen=False) as relay:
        relay.run_once()
    source.drop(None)
    source.purge(100)
    source.tidy()
    source.close()


def purge(url):
    Purger(url).run_once()


def doctor(url):
    examine(url)


ALL = {
    "doctor": doctor,
    "records": records,
    "sequences": sequences,
    "inbox": inbox,
    "outbox": outbox,
    "purge": purge,
}
