"""Handlers and messages that nobody expects: none of them loses or doubles an effect, none of them stops the others."""

import asyncio
import functools
import sqlite3

import pytest
from brokers_ledgers import PostgresLedger, SqliteLedger
from brokers_places import (
    PLACES,
    SERVERS,
    KafkaPlace,
    MemoryPlace,
    NatsPlace,
    OrderedMemoryPlace,
    RedisStreamPlace,
    message,
    new_queue,
)
from psycopg_pool import ConnectionPool
from sqlalchemy import create_engine, text
from sqlalchemy.orm import sessionmaker

from dupeproof import AsyncOnce, ConfigError, Inbox, Once, child_key, step
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
        connection.execute("ROLLBACK")
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


def test_a_rollback_for_one_seen_long_ago_does_not_take_the_marks_of_its_batch(spoilt, memory, run, until):
    """The mark of that one was there before, and says nothing about the others."""
    place, queue = memory
    inbox = spoilt.inbox(is_async=False, group=queue)
    with inbox.transaction() as connection:
        assert inbox.first(connection, "late")
        connection.execute("UPDATE dupeproof_inbox SET expires_at = seen_at")

    def handle(message, connection):
        if message.id == "late":
            connection.execute("ROLLBACK")
            connection.execute("BEGIN")
        spoilt.write(message, connection)

    place.publish(message(queue, "late"), message(queue, "new"))
    running = run(place.consumer(queue, handle, inbox=inbox, batch=2))
    until(lambda: running.tally.done == 2, lambda: running.tally)
    running.stop()
    with inbox.transaction() as connection:
        assert not inbox.first(connection, "new")
    assert spoilt.counts() == {"late": 1, "new": 1}


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


def cancelling(seen):
    """A handler that waits, the first two times for one message, for something that somebody cancels."""

    async def handle(each, *connection):
        if each.id == "m-1" and each.attempt < 3:
            waiting = asyncio.ensure_future(asyncio.sleep(60))
            asyncio.get_running_loop().call_soon(waiting.cancel)
            await waiting
        seen.append(each.id)

    return handle


@pytest.mark.parametrize("kind", [MemoryPlace, OrderedMemoryPlace])
def test_a_task_cancelled_inside_a_handler_hangs_nobody(kind, run, until):
    place, queue, seen = kind(), new_queue(), []
    place.declare(queue)
    place.publish(*(message(queue, f"m-{n}", key="k") for n in range(4)))
    once = AsyncOnce("memory://", lease="200ms")
    running = run(place.consumer(queue, cancelling(seen), once=once, backoff="50ms"))
    until(lambda: len(seen) == 4, lambda: (running.tally, seen))
    running.stop()
    if kind is OrderedMemoryPlace:
        assert seen == ["m-0", "m-1", "m-2", "m-3"]


@pytest.mark.parametrize("batch", [1, 100])
def test_on_kafka_nothing_is_passed_over_when_a_task_is_cancelled_inside_a_handler(
    kafka_server, spoilt, batch, run, until
):
    place, queue, seen = KafkaPlace(kafka_server.url), new_queue(), []
    place.declare(queue)
    place.publish(*(message(queue, f"m-{n}", key="k") for n in range(4)))
    wait = cancelling(seen)

    async def handle(each, connection):
        await spoilt.write_async(each, connection)
        await wait(each)

    inbox = spoilt.inbox(is_async=True, group=queue)
    running = run(place.consumer(queue, handle, inbox=inbox, batch=batch, backoff="50ms"))
    until(lambda: running.tally.done == 4, lambda: (running.tally, seen))
    running.stop()
    assert [row[0] for row in spoilt.rows()] == ["m-0", "m-1", "m-2", "m-3"]


def test_a_handler_for_threads_may_raise_what_ends_tasks(memory, run, until):
    place, queue = memory
    place.publish(message(queue, "bad"), message(queue, "good"))

    def handle(each):
        if each.id == "bad":
            raise asyncio.CancelledError

    once = Once("memory://", lease="100ms")
    running = run(place.consumer(queue, handle, once=once, backoff="10ms", max_attempts=2))
    until(lambda: running.tally.dead == 1 and running.tally.done == 1, lambda: running.tally)
    running.stop()


async def as_task(each):
    """Done only when somebody awaits it."""


def as_generator(each):
    yield each


@pytest.mark.parametrize(
    "handler",
    [functools.partial(lambda call, each: call(each), as_task), as_generator],
    ids=["coroutine", "generator"],
)
def test_what_is_only_begun_is_not_acknowledged(memory, handler, run, until):
    place, queue = memory
    place.publish(message(queue, "m-1"))
    running = run(place.consumer(queue, handler, once=Once("memory://"), max_attempts=1))
    until(lambda: running.tally.dead == 1, lambda: running.tally)
    running.stop()
    assert running.tally.done == 0


def test_middleware_for_tasks_is_refused_for_a_handler_for_threads(memory):
    place, queue = memory

    async def layer(each, call_next):
        return call_next(each)

    with pytest.raises(ConfigError, match="async"):
        place.consumer(queue, print, once=Once("memory://"), middleware=[layer])


ON_POSTGRES = [
    pytest.param(kind, marks=pytest.mark.server("postgres")) for kind in ("url", "pool", "engine", "sessions")
]


@pytest.fixture(params=[*ON_POSTGRES, "sqlite"])
def lent(request, tmp_path):
    """A database whose connection handlers are given, and how they write."""
    if request.param == "sqlite":
        ledger = SqliteLedger(tmp_path / "effects.db")
        yield f"sqlite:///{tmp_path}/effects.db", ledger.counts, ledger.write
        return
    url = request.getfixturevalue("postgres_module_url")
    ledger = PostgresLedger(url)
    ledger.empty()
    if request.param == "url":
        yield url, ledger.counts, ledger.write
    elif request.param == "pool":
        with ConnectionPool(url, min_size=1) as pool:
            yield pool, ledger.counts, ledger.write
    else:
        engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))

        def write(each, connection):
            connection.execute(text("INSERT INTO effects (message_id) VALUES (:id)"), {"id": each.id})

        yield engine if request.param == "engine" else sessionmaker(engine), ledger.counts, write
        engine.dispose()


def test_a_handler_cannot_commit_what_others_of_its_batch_have_marked(lent, memory, run, until):
    database, counts, write = lent
    place, queue = memory

    def handle(each, connection):
        write(each, connection)
        connection.commit()

    place.publish(*(message(queue, f"m-{n}") for n in range(3)))
    running = run(place.consumer(queue, handle, inbox=Inbox(queue, database=database), max_attempts=1))
    until(lambda: running.tally.dead == 3, lambda: running.tally)
    running.stop()
    assert counts() == {}


def test_a_commit_in_plain_words_is_told_and_happens_once(spoilt, memory, run, until, caplog):
    place, queue = memory

    def handle(each, connection):
        spoilt.write(each, connection)
        connection.execute("COMMIT")

    place.publish(*(message(queue, f"m-{n}") for n in range(3)))
    running = run(place.consumer(queue, handle, inbox=spoilt.inbox(is_async=False, group=queue)))
    until(lambda: running.tally.duplicates == 3, lambda: running.tally)
    place.publish(*(message(queue, f"m-{n}") for n in range(3, 6)))
    until(lambda: spoilt.counts() == {"m-0": 1, "m-3": 1, "m-4": 1, "m-5": 1}, spoilt.counts)
    running.stop()
    assert "2 messages after it" in caplog.text


def test_an_error_that_is_only_called_as_those_of_databases_counts(memory, run, until):
    place, queue = memory

    class OperationalError(Exception):
        pass

    def handle(each):
        raise OperationalError

    place.publish(message(queue, "m-1"))
    running = run(place.consumer(queue, handle, once=Once("memory://"), max_attempts=2, backoff="10ms"))
    until(lambda: running.tally.dead == 1, lambda: running.tally)
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


def test_steps_of_a_handler_run_once_over_its_deliveries(memory, run, until):
    place, queue = memory
    place.publish(message(queue, "m-1"))
    charged, keys = [], []

    def handle(each):
        keys.append(child_key("charge"))
        step("charge", charged.append, each.id)
        if len(keys) == 1:
            raise ValueError

    running = run(place.consumer(queue, handle, once=Once("memory://"), backoff="10ms"))
    until(lambda: running.tally.done == 1, lambda: running.tally)
    running.stop()
    assert (charged, len(keys), len({*keys})) == (["m-1"], 2, 1)


def test_a_handler_with_an_inbox_has_child_keys_and_no_steps(memory, run, until, tmp_path):
    place, queue = memory
    place.publish(message(queue, "m-1"))
    keys = []

    def handle(each, connection):
        keys.append(child_key("charge"))
        with pytest.raises(ConfigError, match="once="):
            step("charge", int)

    inbox = Inbox(queue, database=f"sqlite:///{tmp_path / 'inbox.db'}")
    with sqlite3.connect(tmp_path / "inbox.db") as connection:
        inbox.create_schema(connection)
    running = run(place.consumer(queue, handle, inbox=inbox))
    until(lambda: running.tally.done == 1, lambda: running.tally)
    running.stop()
    assert len(keys) == 1
