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


LIMIT = 65_536


@pytest.fixture
def narrow(own_nats):
    place = NatsPlace(own_nats(settings={"max_payload": LIMIT}).url)
    place.declare("orders")
    return place


@pytest.fixture
def refusing(is_async, run):
    """A consumer that refuses what begins with x, and what it has seen."""

    def start(place, queue):
        seen = []

        def handle(message):
            seen.append(message.id)
            if message.body.startswith(b"x"):
                raise Reject("no")

        async def handle_async(message):
            handle(message)

        once = (AsyncOnce if is_async else Once)("memory://", namespace=new_queue())
        handler = handle_async if is_async else handle
        return run(place.consumer(queue, handler, once=once, backoff="50ms", group="readers")), seen

    return start


def test_a_dead_letter_with_no_room_for_its_reason_holds_up_itself_only(narrow, refusing, until, caplog):
    narrow.send_raw("orders", b"x" * (LIMIT - 40), {"id": "bad"})
    running, seen = refusing(narrow, "orders")
    until(lambda: "max_payload" in caplog.text or running.ended, lambda: running.error)
    narrow.publish(*(message("orders", f"m-{n}") for n in range(20)))
    until(lambda: running.tally.done == 20, lambda: (running.tally, running.error))
    until(lambda: caplog.text.count("max_payload") > 2)
    assert running.consumer.health().in_hand == 1
    running.stop()
    assert running.tally.reconnects == 0
    assert seen.count("bad") == 1


def test_a_dead_letter_leaves_out_headers_that_have_no_room(narrow, refusing, until, dead_letters):
    headers = {"id": "bad", "small": "kept", "large": "l" * 3_000}
    narrow.send_raw("orders", b"x" * (LIMIT - 3_060), headers)
    running, _ = refusing(narrow, "orders")
    until(lambda: running.tally.dead == 1, lambda: (running.tally, running.error))
    running.stop()
    assert running.tally.reconnects == 0
    [letter] = dead_letters(narrow, "orders")
    assert letter.id == "bad"
    assert letter.headers["small"] == "kept"
    assert letter.headers["dupeproof-dropped"] == "large"
    assert "large" not in letter.headers


def test_what_the_server_is_told_to_do_with_a_message_is_not_done_with_its_dead_letter(
    nats_server, refusing, until, dead_letters
):
    from nats.js.api import StreamConfig

    place, queue = NatsPlace(nats_server.url), new_queue()

    async def add(client):
        await client.jetstream().add_stream(
            StreamConfig(name=queue, subjects=[queue], allow_rollup_hdrs=True)
        )

    asyncio.run(place.with_client(add))
    theirs = {
        "Nats-Expected-Stream": queue,
        "Nats-Expected-Last-Sequence": "0",
        "Nats-Rollup": "sub",
        "Nats-TTL": "1h",
    }
    place.send_raw(queue, b"x", {"id": "bad", "mine": "1", **theirs})
    running, _ = refusing(place, queue)
    until(lambda: running.tally.dead == 1 or running.tally.reconnects > 1, lambda: running.error)
    running.stop()
    assert running.tally.reconnects == 0
    [letter] = dead_letters(place, queue)
    assert (letter.id, letter.headers["mine"]) == ("bad", "1")
    for name, value in theirs.items():
        assert letter.headers[f"dupeproof-{name}"] == value


def test_an_id_that_cannot_be_one_is_kept_under_another_name(nats_server, refusing, until, dead_letters):
    place, queue = NatsPlace(nats_server.url), new_queue()
    place.declare(queue)
    place.send_raw(queue, b"x", {"id": "i" * 5_000})
    running, seen = refusing(place, queue)
    until(lambda: running.tally.dead == 1, lambda: (running.tally, running.error))
    running.stop()
    assert seen == []
    [letter] = dead_letters(place, queue)
    assert letter.headers["dupeproof-unusable-id"] == "i" * 5_000


@pytest.fixture
def dead_letters(run, until):
    def read(place, queue):
        found = []
        once = Once("memory://", namespace=new_queue())
        reader = run(place.consumer(f"{queue}.dead", found.append, once=once, missing_id="pass", group="r"))
        until(lambda: found or reader.ended, lambda: reader.error)
        reader.stop()
        return found

    return read
