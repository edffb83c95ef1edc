"""What every broker has to do, for threads and for tasks: one suite, run on each."""

import threading
import time
from collections import Counter

import pytest
from brokers_places import message

from dupeproof import AsyncOnce, ConfigError, Once
from dupeproof.brokers.base import ATTEMPTS, ORIGIN, REASON, Reject
from dupeproof.brokers.errors import NotPublished

FAST = {"backoff": "50ms", "max_backoff": "200ms"}


def failing(handler, is_async, fails):
    """The handler, after `fails(message)` had its chance to raise."""

    def sync(message, connection):
        fails(message)
        handler(message, connection)

    async def tasks(message, connection):
        fails(message)
        await handler(message, connection)

    return tasks if is_async else sync


def test_every_message_has_one_effect_however_often_it_comes(
    place, queue, ledger, inbox, handler, is_async, run, until
):
    messages = [message(queue, f"m-{n}", b'{"n": %d}' % n, key=f"k-{n % 5}") for n in range(60)]
    assert place.publish(*messages, is_async=is_async) == [None] * 60
    place.publish_again(*messages[:20], is_async=is_async)
    running = run(place.consumer(queue, handler, inbox=inbox, concurrency=3, batch=10))
    until(lambda: running.tally.done == 60 and running.tally.duplicates == 20, lambda: running.tally)
    running.stop()
    assert ledger.counts() == Counter(f"m-{n}" for n in range(60))
    rows = ledger.rows()
    assert {row[2] for row in rows} == {f'{{"n": {n}}}' for n in range(60)}
    for key in {row[1] for row in rows}:
        numbers = [int(row[0][2:]) for row in rows if row[1] == key]
        assert numbers == sorted(numbers), f"the order within {key} was not kept"


def test_the_handler_sees_the_message_as_it_was_published(place, queue, ledger, inbox, is_async, run, until):
    seen = []
    place.publish(message(queue, "m-1", b"\x00\xff", key="k", tenant="eu"), is_async=is_async)
    consumer = place.consumer(queue, failing(None, is_async, seen.append), inbox=inbox, max_attempts=1)
    running = run(consumer)
    until(lambda: running.tally.dead == 1, lambda: running.tally)
    [found] = seen
    assert (found.id, found.body, found.key, found.topic) == ("m-1", b"\x00\xff", "k", queue)
    assert found.headers["tenant"] == "eu"
    assert found.attempt == 1


def test_what_fails_comes_again_later_and_others_go_on(
    place, queue, ledger, inbox, handler, is_async, run, until
):
    attempts = []

    def fails(message):
        if message.id == "bad":
            attempts.append((message.attempt, time.monotonic()))
            if message.attempt < 3:
                raise RuntimeError("not yet")

    names = ["good-1", "bad", "good-2"]
    place.publish(*(message(queue, name, key=name) for name in names), is_async=is_async)
    running = run(place.consumer(queue, failing(handler, is_async, fails), inbox=inbox, **FAST))
    until(lambda: len(ledger.rows()) == 3, lambda: (attempts, running.tally))
    running.stop()
    assert ledger.counts() == Counter(names)
    numbers, times = zip(*attempts, strict=True)
    # In a batch that fails as a whole each is tried again alone, so the first attempt may be seen twice.
    assert sorted(set(numbers)) == [1, 2, 3]
    assert times[-1] - times[0] >= 0.1


def test_what_always_fails_is_put_aside_with_the_reason(
    place, queue, ledger, inbox, handler, is_async, run, until, dead_letters
):
    def fails(message):
        if message.id == "bad":
            raise ValueError("no such account, password=hunter2")

    place.publish(*(message(queue, name, b"[1]") for name in ("bad", "good")), is_async=is_async)
    running = run(
        place.consumer(queue, failing(handler, is_async, fails), inbox=inbox, max_attempts=3, **FAST)
    )
    until(lambda: ledger.counts() == Counter(["good"]) and running.tally.dead == 1, lambda: running.tally)
    place.publish(message(queue, "after"), is_async=is_async)
    until(lambda: ledger.counts()["after"] == 1)
    running.stop()
    [dead] = dead_letters(queue, 1)
    assert (dead.id, dead.body) == ("bad", b"[1]")
    assert "no such account" in dead.headers[REASON]
    assert "hunter2" not in dead.headers[REASON]
    assert dead.headers[ATTEMPTS] == "3"
    assert dead.headers[ORIGIN] == queue


def test_what_is_hopeless_is_put_aside_at_once(
    place, queue, ledger, inbox, handler, is_async, run, until, dead_letters
):
    tries = Counter()

    def fails(message):
        tries[message.id] += 1
        if message.id == "rejected":
            raise Reject("the customer is gone")
        message.json()

    place.publish(
        message(queue, "rejected"),
        message(queue, "unreadable", b"{"),
        message(queue, "good"),
        is_async=is_async,
    )
    running = run(place.consumer(queue, failing(handler, is_async, fails), inbox=inbox, batch=1))
    until(lambda: running.tally.dead == 2 and running.tally.done == 1, lambda: running.tally)
    running.stop()
    assert ledger.counts() == Counter(["good"])
    assert tries == Counter(["rejected", "unreadable", "good"])
    reasons = {dead.id: dead.headers[REASON] for dead in dead_letters(queue, 2)}
    assert "the customer is gone" in reasons["rejected"]
    assert "DecodeError" in reasons["unreadable"]


@pytest.mark.parametrize(("policy", "effects", "aside"), [("dead", 0, 2), ("content", 1, 0), ("pass", 2, 0)])
def test_a_message_without_an_id_meets_the_policy(
    place, queue, ledger, inbox, handler, is_async, run, until, dead_letters, policy, effects, aside
):
    place.send_raw(queue, b'{"order": 1}', {})
    place.send_raw(queue, b'{"order": 1}', {})
    place.publish(message(queue, "good"), is_async=is_async)
    running = run(place.consumer(queue, handler, inbox=inbox, missing_id=policy))
    until(lambda: ledger.counts()["good"] == 1 and running.tally.done == effects + 1, lambda: running.tally)
    until(lambda: running.tally.dead == aside, lambda: running.tally)
    running.stop()
    assert len(ledger.rows()) == effects + 1
    if aside:
        assert all("no id" in dead.headers[REASON] for dead in dead_letters(queue, aside))


def test_an_id_that_cannot_be_one_is_put_aside(
    place, queue, ledger, inbox, handler, is_async, run, until, dead_letters
):
    place.send_raw(queue, b"{}", {"id": "x" * 10_000})
    place.publish(message(queue, "good"), is_async=is_async)
    running = run(place.consumer(queue, handler, inbox=inbox))
    until(lambda: running.tally.dead == 1 and running.tally.done == 1, lambda: running.tally)
    running.stop()
    [dead] = dead_letters(queue, 1)
    assert "KeyInvalid" in dead.headers[REASON]
    assert "xxx" not in dead.headers[REASON]


def test_a_claim_guards_effects_outside_the_database(place, queue, is_async, run, until, tmp_path):
    effects = []
    once = (AsyncOnce if is_async else Once)(f"sqlite:///{tmp_path}/claims.db", namespace=queue)

    def sync(message):
        effects.append(message.id)
        if message.id == "m-3" and effects.count("m-3") == 1:
            raise OSError("the other side hung up")

    async def tasks(message):
        sync(message)

    messages = [message(queue, f"m-{n}") for n in range(10)]
    place.publish(*messages, is_async=is_async)
    place.publish_again(*messages, is_async=is_async)
    running = run(place.consumer(queue, tasks if is_async else sync, once=once, concurrency=4, **FAST))
    until(lambda: running.tally.done == 10 and running.tally.duplicates == 10, lambda: running.tally)
    running.stop()
    assert Counter(effects) == Counter([*(f"m-{n}" for n in range(10)), "m-3"])


def test_the_same_id_with_another_body_is_not_taken_for_a_duplicate(
    place, queue, is_async, run, until, tmp_path, dead_letters
):
    async def tasks(message):
        effects.append(message.body)

    effects = []
    once = (AsyncOnce if is_async else Once)(f"sqlite:///{tmp_path}/claims.db", namespace=queue)
    handler = tasks if is_async else lambda message: effects.append(message.body)
    running = run(place.consumer(queue, handler, once=once))
    place.publish(message(queue, "m-1", b"one"), is_async=is_async)
    until(lambda: running.tally.done == 1)
    place.publish_again(message(queue, "m-1", b"another"), is_async=is_async)
    until(lambda: running.tally.dead == 1)
    running.stop()
    assert effects == [b"one"]
    [dead] = dead_letters(queue, 1)
    assert "KeyReused" in dead.headers[REASON]


def test_stopping_ends_what_is_under_way_and_gives_the_rest_back(
    place, queue, ledger, inbox, handler, is_async, run, until
):
    began, go_on = threading.Event(), threading.Event()

    def waits(message):
        began.set()
        go_on.wait(20)

    place.publish(*(message(queue, f"m-{n}") for n in range(5)), is_async=is_async)
    running = run(place.consumer(queue, failing(handler, is_async, waits), inbox=inbox, batch=1))
    assert began.wait(20)
    threading.Timer(0.3, go_on.set).start()
    running.stop()
    # One was under way, and was ended and acknowledged; nothing else was begun.
    assert len(ledger.rows()) == 1
    assert running.tally.done == 1
    again = run(place.consumer(queue, handler, inbox=inbox))
    until(lambda: len(ledger.rows()) == 5, lambda: again.tally)
    again.stop()
    assert ledger.counts() == Counter(f"m-{n}" for n in range(5))
    assert again.tally.duplicates == 0


def test_middleware_is_around_every_handler(place, queue, ledger, inbox, handler, is_async, run, until):
    calls = []

    def outer(message, call_next):
        calls.append("outer")
        return call_next(message)

    def inner(message, call_next):
        calls.append("inner")
        return call_next(message)

    place.publish(message(queue, "m-1"), is_async=is_async)
    running = run(place.consumer(queue, handler, inbox=inbox, middleware=[outer, inner]))
    until(lambda: running.tally.done == 1, lambda: running.tally)
    running.stop()
    assert calls == ["outer", "inner"]


def test_a_queue_that_is_not_there_is_an_error_at_once(place, inbox, handler, run, until):
    running = run(place.consumer("nobody-made-this", handler, inbox=inbox, create=False))
    until(lambda: running.ended)
    assert isinstance(running.error, ConfigError)
    assert "nobody-made-this" in str(running.error)
    assert "create=True" in str(running.error)


def test_publishing_to_nowhere_is_an_error_of_that_message_alone(place, queue, is_async):
    results = place.publish(
        message(queue, "m-1"), message("nobody-made-this", "m-2"), message(queue, "m-3"), is_async=is_async
    )
    assert results[0] is results[2] is None
    assert isinstance(results[1], NotPublished)
    assert "nobody-made-this" in str(results[1])
