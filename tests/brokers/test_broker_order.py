"""Consumers that are told how messages are ordered: an older one is acknowledged, counted, and overwrites nothing."""

import json
import random

import pytest
from brokers_places import MemoryPlace, message, new_queue

from dupeproof import ConfigError, Inbox, Once
from dupeproof.brokers.base import Message
from dupeproof.brokers.memory import consumer


@pytest.fixture
def place(rabbit):
    return rabbit


def order_by(each: Message):
    event = each.json()
    return event["entity"], event["version"]


def event(queue, number, entity, version, **fields):
    return message(
        queue, f"m-{number}", json.dumps({"entity": entity, "version": version, **fields}).encode()
    )


@pytest.fixture(params=["one by one", "in batches"])
def work(request, handler, is_async):
    """Writes down each message; a handler of batches too."""
    if request.param == "one by one":
        return handler
    if is_async:

        async def all_async(messages: list[Message], connection):
            for each in messages:
                await handler(each, connection)

        return all_async

    def all_of_them(messages: list[Message], connection):
        for each in messages:
            handler(each, connection)

    return all_of_them


@pytest.mark.server("rabbitmq", "postgres")
@pytest.mark.parametrize("batch", [1, 100])
def test_an_older_one_is_acknowledged_and_counted(
    place, queue, ledger, inbox, run, until, work, is_async, batch
):
    versions = [(f"sub_{entity}", version) for entity in range(3) for version in range(10)]
    random.Random(7).shuffle(versions)
    sent = [event(queue, number, *each) for number, each in enumerate(versions)]
    assert not any(place.publish(*sent, *sent[:5], is_async=is_async))
    events = []
    running = run(
        place.consumer(queue, work, inbox=inbox, order_by=order_by, batch=batch, events=[events.append])
    )
    until(
        lambda: running.tally.done + running.tally.stale + running.tally.duplicates == 35 or running.ended,
        lambda: (running.tally, running.error),
    )
    running.stop()
    newest, expected = {}, []
    for number, (entity, version) in enumerate(versions):
        if version > newest.get(entity, -1):
            newest[entity] = version
            expected.append(f"m-{number}")
    assert ledger.counts() == dict.fromkeys(expected, 1)
    assert (running.tally.done, running.tally.stale, running.tally.duplicates) == (
        len(expected),
        30 - len(expected),
        5,
    )
    kinds = [each.kind for each in events]
    assert (kinds.count("fresh"), kinds.count("stale"), kinds.count("seen")) == (
        len(expected),
        30 - len(expected),
        5,
    )


@pytest.mark.server("rabbitmq", "postgres")
def test_what_has_failed_has_not_taken_the_version(
    place, queue, ledger, inbox, run, until, handler, is_async
):
    """Version 3 fails twice and comes again: 2 is worked on meanwhile, and 1, which comes last, is stale."""
    tried = []

    def judge(each):
        tried.append(each.id)
        if each.id == "m-3" and tried.count("m-3") < 3:
            raise ValueError("not yet")

    def fails(each, connection):
        handler(each, connection)
        judge(each)

    async def fails_async(each, connection):
        await handler(each, connection)
        judge(each)

    sent = [event(queue, number, "sub_1", number) for number in (3, 2)]
    assert not any(place.publish(*sent, is_async=is_async))
    running = run(
        place.consumer(
            queue, fails_async if is_async else fails, inbox=inbox, order_by=order_by, backoff="50ms"
        )
    )
    until(lambda: running.tally.done == 2 or running.ended, lambda: (running.tally, running.error))
    assert not any(place.publish(event(queue, 1, "sub_1", 1), is_async=is_async))
    until(lambda: running.tally.stale == 1 or running.ended, lambda: (running.tally, running.error))
    running.stop()
    assert ledger.counts() == {"m-2": 1, "m-3": 1}


@pytest.mark.server("rabbitmq", "postgres")
def test_without_an_order_a_message_is_worked_on_and_with_a_wrong_one_dead_lettered(
    place, queue, ledger, inbox, run, until, work, is_async
):
    def order(each):
        found = each.json()
        match found["entity"]:
            case "none":
                return None
            case "text":
                return "no pair"
        return found["entity"], found["version"]

    sent = [
        event(queue, 1, "none", 0),
        event(queue, 2, "sub_1", 7),
        event(queue, 3, "sub_1", 1.5),
        event(queue, 4, "text", 0),
        message(queue, "m-5", b"{}"),
        event(queue, 6, "none", 0),
    ]
    assert not any(place.publish(*sent, is_async=is_async))
    running = run(place.consumer(queue, work, inbox=inbox, order_by=order))
    until(
        lambda: (running.tally.done == 3 and running.tally.dead == 3) or running.ended,
        lambda: (running.tally, running.error),
    )
    running.stop()
    assert ledger.counts() == {"m-1": 1, "m-2": 1, "m-6": 1}


class TestWhenItIsMade:
    @pytest.fixture
    def place(self):
        return MemoryPlace()

    def test_order_by_is_a_plain_function_and_needs_an_inbox(self, place):
        def handle(each, connection=None):
            """Nothing."""

        async def order_async(each):
            """Nothing."""

        inbox = Inbox("billing", database="sqlite:///orders.db")
        for wrong in ("entity", order_async):
            with pytest.raises(ConfigError, match="order_by must be a plain function"):
                consumer(place.url, queue="orders", handler=handle, inbox=inbox, order_by=wrong)
        with pytest.raises(ConfigError, match="order_by= needs inbox="):
            consumer(place.url, queue="orders", handler=handle, once=Once("memory://"), order_by=order_by)

    def test_a_missing_table_is_told_at_the_start(self, place, tmp_path):
        url = f"sqlite:///{tmp_path}/orders.db"
        inbox = Inbox("billing", database=url)
        with inbox.transaction() as connection:
            inbox.create_schema(connection)
            connection.execute("DROP TABLE dupeproof_entities")
        queue = new_queue()
        place.declare(queue)
        with pytest.raises(ConfigError, match="dupeproof_entities is not there yet"):
            consumer(
                place.url, queue=queue, handler=lambda each, connection: None, inbox=inbox, order_by=order_by
            ).run()
