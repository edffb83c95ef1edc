"""What only NATS has: a stream that keeps several subjects, and removes what has an id it knows."""

import asyncio

import pytest
from brokers_places import NatsPlace, message, new_queue

from dupeproof import AsyncOnce, Once
from dupeproof.brokers.base import Reject

WINDOW = 120.0


class Shop(NatsPlace):
    """A stream with two subjects, which knows ids for longer than any of these tests takes."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.stream = new_queue()
        self.billing, self.mail = f"{self.stream}.billing", f"{self.stream}.mail"

        async def add(client):
            from nats.js.api import StreamConfig

            subjects = [self.billing, self.mail]
            config = StreamConfig(name=self.stream, subjects=subjects, duplicate_window=WINDOW)
            await client.jetstream().add_stream(config)

        asyncio.run(self.with_client(add))

    @property
    def kept(self) -> int:
        found = []

        async def look(client):
            found.append((await client.jetstream().stream_info(self.stream)).state.messages)

        asyncio.run(self.with_client(look))
        return found[0]


@pytest.fixture
def place(nats_server):
    return Shop(nats_server.url)


@pytest.fixture
def collect(is_async, place, run, until):
    """The messages of a subject, by a consumer of a group of its own."""

    def collect(subject: str, expected: int, handle=lambda _: None) -> list:
        found: list = []

        def write(message):
            found.append(message)
            handle(message)

        async def write_async(message):
            write(message)

        once = (AsyncOnce if is_async else Once)("memory://", namespace=new_queue())
        running = run(place.consumer(subject, write_async if is_async else write, once=once, backoff="10ms"))
        until(lambda: len(found) == expected or running.ended, lambda: (found, running.error))
        until(lambda: running.tally.done + running.tally.dead > 0, lambda: running.tally)
        running.stop()
        return found

    return collect


def test_one_event_reaches_two_subjects_of_a_stream(place, is_async, collect):
    for_both = message(place.billing, "order-1", b"1"), message(place.mail, "order-1", b"2")
    assert place.publish(*for_both, is_async=is_async) == [None, None]
    assert [(each.id, each.body) for each in collect(place.billing, 1)] == [("order-1", b"1")]
    assert [(each.id, each.body) for each in collect(place.mail, 1)] == [("order-1", b"2")]


def test_an_event_that_is_sent_twice_to_a_subject_is_kept_once(place, is_async):
    for _ in range(2):
        assert place.publish(message(place.mail, "order-1"), is_async=is_async) == [None]
    assert place.kept == 1


def test_an_id_that_somebody_else_gave_is_found(place, collect):
    place.send_raw(place.mail, b"{}", {"id": "order-1"})
    assert [each.id for each in collect(place.mail, 1)] == ["order-1"]


def test_an_id_stays_with_its_message_when_it_comes_again_and_when_it_is_dead(place, is_async, collect):
    def fail_once(message):
        if message.attempt == 1:
            raise ValueError
        raise Reject("no good")

    place.publish(message(place.mail, "order-1"), is_async=is_async)
    assert [each.id for each in collect(place.mail, 2, fail_once)] == ["order-1", "order-1"]
    [dead] = collect(f"{place.mail}.dead", 1)
    assert (dead.id, dead.headers["dupeproof-queue"]) == ("order-1", place.mail)


def test_a_header_of_the_message_does_not_pass_for_its_id(place, is_async, collect):
    headers = {"Dupeproof-Id": "another", "nats-msg-id": "a third"}
    assert place.publish(message(place.mail, "order-1", **headers), is_async=is_async) == [None]
    assert [each.id for each in collect(place.mail, 1)] == ["order-1"]
