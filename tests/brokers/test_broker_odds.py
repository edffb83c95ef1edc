"""Handlers and messages that nobody expects: none of them loses or doubles an effect, none of them stops the others."""

import asyncio

import pytest
from brokers_ledgers import PostgresLedger
from brokers_places import PLACES, SERVERS, MemoryPlace, NatsPlace, RedisStreamPlace, message, new_queue

from dupeproof import Once
from dupeproof.brokers.base import Reject
from dupeproof.brokers.memory import broker


@pytest.fixture
def spoilt(postgres_module_url):
    ledger = PostgresLedger(postgres_module_url)
    ledger.empty()
    return ledger


@pytest.fixture
def memory():
    place = MemoryPlace()
    queue = new_queue()
    place.declare(queue)
    return place, queue


def test_a_handler_that_passes_over_an_error_of_the_database_is_not_believed(spoilt, memory, run, until):
    """PostgreSQL rolls back at such a commit, and says nothing."""
    place, queue = memory

    def handle(message, connection):
        spoilt.write(message, connection)
        if message.id == "bad":
            try:
                connection.execute("SELECT nothing FROM nowhere")
            except Exception:
                return

    place.publish(message(queue, "bad"), message(queue, "good"))
    running = run(
        place.consumer(
            queue, handle, inbox=spoilt.inbox(is_async=False, group=queue), max_attempts=2, backoff="10ms"
        )
    )
    until(lambda: running.tally.dead == 1 and running.tally.done == 1, lambda: running.tally)
    running.stop()
    assert spoilt.counts() == {"good": 1}


def test_a_handler_that_rolls_back_by_itself_is_told(spoilt, memory, run, until, caplog):
    place, queue = memory

    def handle(message, connection):
        connection.rollback()
        spoilt.write(message, connection)

    place.publish(message(queue, "m-1"))
    running = run(
        place.consumer(
            queue, handle, inbox=spoilt.inbox(is_async=False, group=queue), max_attempts=2, backoff="10ms"
        )
    )
    until(lambda: running.tally.dead == 1, lambda: running.tally)
    running.stop()
    assert spoilt.counts() == {}
    assert "rolled back while" in caplog.text


def test_an_id_that_cannot_be_read_is_the_messages_fault(memory, run, until):
    place, queue = memory
    seen = []
    place.publish(message(queue, "1", b"not json"), message(queue, "2", b'{"id": "good"}'))
    running = run(
        place.consumer(
            queue, lambda each: seen.append(each.id), once=Once("memory://"), id_of=lambda m: m.json()["id"]
        )
    )
    until(lambda: running.tally.dead == 1 and running.tally.done == 1, lambda: running.tally)
    running.stop()
    assert seen == ["good"]


def test_a_task_cancelled_inside_a_handler_hangs_nobody(memory, run, until, tmp_path):
    from dupeproof import AsyncOnce

    place, queue = memory
    seen = []

    async def handle(each):
        if each.id == "bad" and each.attempt < 3:
            waiting = asyncio.ensure_future(asyncio.sleep(60))
            asyncio.get_running_loop().call_soon(waiting.cancel)
            await waiting
        seen.append(each.id)

    place.publish(message(queue, "bad"), message(queue, "good"))
    running = run(place.consumer(queue, handle, once=AsyncOnce("memory://", lease="200ms"), backoff="50ms"))
    until(lambda: set(seen) == {"bad", "good"}, lambda: running.tally)
    running.stop()


def test_a_retry_has_a_place_in_a_full_queue(memory, run, until, monkeypatch):
    monkeypatch.setattr(broker, "MOST", 3)
    place, queue = memory
    seen = []

    def handle(each):
        if each.id == "m-0" and each.attempt == 1:
            place.publish(*(message(queue, f"more-{n}") for n in range(3)))
            raise ValueError
        seen.append(each.id)

    place.publish(message(queue, "m-0"))
    running = run(place.consumer(queue, handle, once=Once("memory://"), backoff="10ms"))
    until(lambda: "m-0" in seen, lambda: (running.tally, seen))
    running.stop()


def test_on_redis_an_entry_is_not_acknowledged_before_it_is_put_aside(redis_server, run, until, caplog):
    place = RedisStreamPlace(redis_server.url)
    queue = new_queue()
    place.declare(queue)
    place.publish(message(queue, "m-1"))
    with place.client() as client:
        client.set(f"{queue}.dead", "in the way")

    def refuse(each):
        raise Reject("no")

    running = run(place.consumer(queue, refuse, once=Once("memory://", namespace="odds"), backoff="50ms"))
    until(lambda: f"{queue}.dead" in caplog.text, lambda: caplog.text)
    with place.client() as client:
        assert client.xpending(queue, "odds")["pending"] == 1
        client.delete(f"{queue}.dead")
    until(lambda: running.tally.dead == 1, lambda: running.tally)
    running.stop()


def test_on_nats_a_dead_letter_is_no_duplicate_of_its_message(nats_server, run, until):
    """Also where the subject of the dead is in the same stream."""
    place = NatsPlace(nats_server.url)
    base = new_queue()

    async def prepared():
        import nats

        client = await nats.connect(nats_server.url)
        streams = client.jetstream()
        await streams.add_stream(name=base, subjects=[f"{base}.>"])
        await client.close()

    asyncio.run(prepared())
    queue = f"{base}.new"

    def refuse(each):
        raise Reject("no")

    place.publish(message(queue, "m-1"))
    running = run(place.consumer(queue, refuse, once=Once("memory://", namespace="odds")))
    until(lambda: running.tally.dead == 1, lambda: running.tally)
    running.stop()
    seen = []
    reading = run(place.consumer(f"{queue}.dead", seen.append, once=Once("memory://", namespace="reading")))
    until(lambda: len(seen) == 1, lambda: seen)
    reading.stop()
    assert seen[0].id == "m-1"


@pytest.mark.parametrize("name", [pytest.param("rabbitmq", marks=pytest.mark.server("rabbitmq"))])
def test_messages_with_one_id_are_told_apart(request, name):
    place = PLACES[name](request.getfixturevalue(f"{SERVERS[name]}_server").url)
    queue = new_queue()
    place.declare(queue)
    for is_async in (False, True):
        results = place.publish(message(f"{queue}-missing", "A"), message(queue, "A"), is_async=is_async)
        assert [result is None for result in results] == [False, True]
