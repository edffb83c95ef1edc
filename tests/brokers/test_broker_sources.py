"""What sources owe their consumers: nobody is blamed for an orderly end, and no message stays where nobody looks."""

import asyncio
from collections import Counter

import pytest
from brokers_guards import made
from brokers_places import (
    PLACES,
    SERVERS,
    MemoryPlace,
    NatsPlace,
    RabbitPlace,
    RedisStreamPlace,
    message,
    new_queue,
)

from dupeproof import ConfigError, Once, StoreUnavailable
from dupeproof.brokers.nats.wire import plain_name

IDS = [f"m-{n}" for n in range(5)]


@pytest.fixture
def nats(nats_server):
    return NatsPlace(nats_server.url)


def end_while_the_database_is_down(place, queue, is_async, run, until, rounds=4, **options):
    """As many orderly ends, then one consumer that can work; with two attempts allowed. Answers the attempts it saw."""
    seen, tries = {}, []

    def refuse(each):
        tries.append(each.id)
        raise StoreUnavailable("down")

    def note(each):
        seen[each.id] = each.attempt

    refusing, once = made(refuse, is_async)
    noting, _ = made(note, is_async)
    place.publish(*(message(queue, ident) for ident in IDS))
    options = {"once": once, "max_attempts": 2, "backoff": "50ms", **options}
    for _ in range(rounds):
        tries.clear()
        running = run(place.consumer(queue, refusing, **options))
        until(lambda: tries)
        running.stop()
        assert running.tally.dead == 0
    running = run(place.consumer(queue, noting, **options))
    until(lambda: len(seen) + running.tally.dead == len(IDS), lambda: (running.tally, seen))
    running.stop()
    assert set(seen) == set(IDS)
    return set(seen.values())


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.server(SERVERS[name])) for name in ("redis_streams", "nats")],
)
def test_an_orderly_end_is_no_attempt(request, name, is_async, run, until):
    place = PLACES[name](request.getfixturevalue(f"{SERVERS[name]}_server").url)
    queue = new_queue()
    place.declare(queue)
    assert end_while_the_database_is_down(place, queue, is_async, run, until) == {1}


def test_on_nats_waiting_for_another_to_finish_is_no_attempt(nats, run, until):
    """However many consumers bring the message back meanwhile."""
    queue, seen = new_queue(), []
    nats.declare(queue)
    nats.publish(message(queue, "m-1"))
    once = Once("memory://", namespace=queue, lease="30s")
    quick = {"once": once, "max_attempts": 2, "backoff": "50ms", "max_backoff": "50ms"}
    with once.claim("m-1", fingerprint=b"{}"):
        waiting = [run(nats.consumer(queue, seen.append, **quick)) for _ in range(3)]
        until(
            lambda: sum(each.tally.redelivered for each in waiting) >= 9,
            lambda: [each.tally for each in waiting],
        )
    until(lambda: any(each.tally.duplicates + each.tally.dead for each in waiting))
    for each in waiting:
        each.stop()
    assert [each.tally.dead for each in waiting] == [0, 0, 0]


def test_on_nats_a_consumer_that_gives_up_by_itself_is_refused(nats, is_async):
    queue = new_queue()
    nats.declare(queue)
    handler, once = made(print, is_async)

    async def limit(client):
        name = plain_name(f"{once.namespace}-{queue}")
        await client.jetstream().add_consumer(queue, durable_name=name, ack_policy="explicit", max_deliver=3)

    asyncio.run(nats.with_client(limit))
    consumer = nats.consumer(queue, handler, once=once)
    with pytest.raises(ConfigError, match="set max_deliver to -1"):
        asyncio.run(consumer.run()) if is_async else consumer.run()


def test_on_redis_an_entry_behind_many_others_comes_again(redis_server, is_async, run, until):
    """Redis looks at ten times as many entries as it is asked for, and those at the front are always there again."""
    place, queue, fails = RedisStreamPlace(redis_server.url), new_queue(), Counter()
    place.declare(queue)
    place.publish(*(message(queue, f"m-{n}") for n in range(50)), message(queue, "last"))

    def handle(each):
        fails[each.id] += 1
        if each.id != "last" or fails[each.id] == 1:
            raise ValueError

    handler, once = made(handle, is_async)
    options = {"batch": 1, "max_attempts": None, "backoff": "700ms", "max_backoff": "900ms"}
    running = run(place.consumer(queue, handler, once=once, **options))
    until(lambda: running.tally.done == 1, lambda: fails)
    running.stop()
    assert fails["last"] == 2


def test_an_orderly_end_is_hardly_an_attempt_on_a_quorum_queue(rabbit, channel, is_async, run, until):
    """Which counts what is given back, and cannot be asked not to; we begin anew when it has."""
    queue = new_queue()
    channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "quorum"})
    assert end_while_the_database_is_down(rabbit, queue, is_async, run, until, rounds=5) <= {1, 2}


def test_a_queue_deleted_under_its_consumer_is_consumed_from_when_it_is_back(
    rabbit, channel, is_async, run, until
):
    queue, seen = new_queue(), []
    rabbit.declare(queue)
    rabbit.publish(message(queue, "before"))
    handler, once = made(lambda each: seen.append(each.id), is_async)
    running = run(rabbit.consumer(queue, handler, once=once, backoff="50ms"))
    until(lambda: running.tally.done == 1, lambda: running.tally)
    channel.queue_delete(queue)
    until(lambda: running.tally.reconnects >= 1, lambda: running.tally)
    rabbit.declare(queue)
    rabbit.publish(message(queue, "after"))
    until(lambda: running.tally.done == 2, lambda: running.tally)
    running.stop()
    assert seen == ["before", "after"]


@pytest.mark.parametrize("names", [("q" * 245, None), ("orders", "d" * 256)], ids=["queue", "dead"])
def test_a_queue_whose_retries_would_have_no_name_is_refused(names, is_async):
    queue, dead = names
    handler, once = made(print, is_async)
    with pytest.raises(ConfigError, match="choose a shorter one"):
        RabbitPlace("amqp://localhost/").consumer(queue, handler, once=once, dead=dead)


def test_a_key_may_be_any_text(is_async, run, until):
    place, queue, seen = MemoryPlace(), new_queue(), []
    place.declare(queue)
    place.publish(message(queue, "m-1", key="\ud800"))
    handler, once = made(seen.append, is_async)
    running = run(place.consumer(queue, handler, once=once))
    until(lambda: seen or running.ended, lambda: running.error)
    running.stop()
    assert [each.key for each in seen] == ["\ud800"]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_several_sources_are_given_signs_of_life_as_often_as_the_most_impatient_wants(kind):
    """Whichever of them is asked first."""
    from dupeproof.brokers import several, several_async
    from dupeproof.brokers.nats.source import NatsSource
    from dupeproof.brokers.nats.source_async import AsyncNatsSource

    make, join = (NatsSource, several.one_of) if kind == "sync" else (AsyncNatsSource, several_async.one_of)

    def source(subject, ack_wait):
        return make("nats://127.0.0.1:1", subject, "g", create=False, ack_wait=ack_wait, dead=None)

    for times in ([30.0, 3.0], [3.0, 30.0]):
        found = join([source(f"s{n}", each) for n, each in enumerate(times)]).features
        assert (found.keep_alive, found.delays) == (1.0, True)
