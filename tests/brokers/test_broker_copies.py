"""Copies are whole: what comes again, or is dead-lettered, has every property and header that its sender gave it."""

import asyncio
import time
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from brokers_places import new_queue

from dupeproof.brokers.base import Reject
from dupeproof.outbox.messages import Message

WHEN = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
HEADERS = {
    "text": "ü",
    "yes": True,
    "no": False,
    "small": 7,
    "large": 2**40,
    "negative": -5,
    "fraction": 1.5,
    "money": Decimal("12.34"),
    "when": WHEN,
    "nothing": None,
    "bytes": bytearray(b"\x00\xff"),
    "nested": {"list": [1, "two", None, {"deep": 2.25}], "empty": {}},
}
PROPERTIES = {
    "content_type": "application/json",
    "content_encoding": "identity",
    "correlation_id": "c-1",
    "reply_to": "answers",
    "priority": 4,
    "message_id": "m-1",
    "app_id": "shop",
}


def send(url: str, queue: str, **more) -> None:
    import aio_pika

    async def publish():
        connection = await aio_pika.connect(url)
        async with connection:
            channel = await connection.channel()
            message = aio_pika.Message(
                b'{"amount": 5}', headers=HEADERS, timestamp=WHEN, type="placed", **{**PROPERTIES, **more}
            )
            await channel.default_exchange.publish(message, queue)

    asyncio.run(publish())


def read(url: str, queue: str):
    """The one message of a queue, by a driver that knows all types."""
    import aio_pika

    async def get():
        connection = await aio_pika.connect(url)
        async with connection:
            channel = await connection.channel()
            found = await (await channel.get_queue(queue)).get()
            await found.ack()
            return found

    return asyncio.run(get())


def told(headers: dict) -> dict:
    return {name: value for name, value in headers.items() if not name.startswith(("dupeproof-", "x-"))}


@pytest.fixture
def seen_by(rabbit, is_async, run, until):
    """What a handler sees of each attempt until it rejects the message; the raw messages, too."""

    def consume(queue: str, *, fail: int) -> list:
        from dupeproof import AsyncOnce, Once

        seen: list = []

        def work(message):
            seen.append(message)
            if len(seen) <= fail:
                raise ValueError("not yet")
            raise Reject("never")

        async def work_async(message):
            work(message)

        once = (AsyncOnce if is_async else Once)("memory://", namespace=queue)
        consumer = rabbit.consumer(queue, work_async if is_async else work, once=once, backoff="10ms")
        running = run(consumer)
        until(lambda: consumer.tally.dead == 1 or running.ended, lambda: (consumer.tally, running.error))
        running.stop()
        return seen

    return consume


@pytest.mark.server("rabbitmq")
class TestRabbitMQ:
    def test_retries_and_dead_letters_keep_every_property(self, rabbit, seen_by):
        queue = new_queue()
        rabbit.declare(queue)
        send(rabbit.url, queue)
        seen = seen_by(queue, fail=2)
        assert len(seen) == 3
        for attempt, message in enumerate(seen, 1):
            assert (message.attempt, message.id, message.type) == (attempt, "m-1", "placed")
            assert (message.content_type, message.correlation_id) == ("application/json", "c-1")
            assert message.timestamp == WHEN
            assert message.topic == queue
            assert message.headers["fraction"] == "1.5"
            assert message.raw.body == b'{"amount": 5}'
        dead = read(rabbit.url, f"{queue}.dead")
        assert {name: getattr(dead, name) for name in PROPERTIES} == PROPERTIES
        assert (dead.timestamp, dead.type, dead.body) == (WHEN, "placed", b'{"amount": 5}')

    def test_every_header_keeps_its_type(self, rabbit, seen_by):
        queue = new_queue()
        rabbit.declare(queue)
        send(rabbit.url, queue)
        seen_by(queue, fail=2)
        dead = told(read(rabbit.url, f"{queue}.dead").headers)
        assert dead == HEADERS
        assert {name: type(value) for name, value in dead.items()} == {
            name: type(value) for name, value in HEADERS.items()
        }

    def test_an_expiration_is_kept_where_it_cannot_end_the_copy(self, rabbit, seen_by):
        queue = new_queue()
        rabbit.declare(queue)
        send(rabbit.url, queue, expiration=2.0)
        seen_by(queue, fail=1)
        time.sleep(2.2)  # a dead letter that had the property itself would be gone by now
        dead = read(rabbit.url, f"{queue}.dead")
        assert dead.expiration is None
        assert dead.headers["dupeproof-expiration"] == "2000"

    @pytest.mark.parametrize("is_async", [False])  # aio-pika itself cannot read such a message
    @pytest.mark.parametrize("stamp", [1_700_000_000_000, 2**63 - 1])
    def test_a_time_that_no_date_can_hold_does_not_stop_the_consumer(
        self, rabbit, channel, seen_by, is_async, stamp
    ):
        import pika

        queue = new_queue()
        rabbit.declare(queue)
        channel.basic_publish("", queue, b"{}", pika.BasicProperties(message_id="m-1", timestamp=stamp))
        seen_by(queue, fail=1)
        _, properties, _ = channel.basic_get(f"{queue}.dead", auto_ack=True)
        assert properties.timestamp is None
        assert properties.headers["dupeproof-timestamp"] == stamp

    def test_headers_that_filled_a_frame_leave_room_for_ours(self, rabbit, channel, seen_by):
        """The broker hangs up on a message whose headers do not fit into one frame."""
        import pika

        queue = new_queue()
        rabbit.declare(queue)
        headers = {**{f"h{n}": "x" * 1_000 for n in range(128)}, "largest": "y" * 1_100}
        channel.basic_publish("", queue, b"{}", pika.BasicProperties(message_id="m-1", headers=headers))
        seen_by(queue, fail=1)
        dead = read(rabbit.url, f"{queue}.dead")
        assert dead.headers["dupeproof-dropped"].split(", ")[0] == "largest"
        assert "never" in dead.headers["dupeproof-reason"]

    def test_copies_go_to_nobody_else(self, rabbit, channel, seen_by):
        queue, other = new_queue(), new_queue()
        rabbit.declare(queue)
        rabbit.declare(other)
        import pika

        properties = pika.BasicProperties(message_id="m-1", headers={"CC": [other]})
        channel.basic_publish("", queue, b"{}", properties)
        seen_by(queue, fail=1)
        assert channel.queue_declare(other, passive=True).method.message_count == 1
        assert read(rabbit.url, f"{queue}.dead").headers["dupeproof-cc"] == [other]

    def test_the_name_of_another_user_does_not_cost_the_message(self, rabbit, seen_by):
        """The broker refuses what says it is from a user who is not the one that publishes."""
        queue = new_queue()
        rabbit.declare(queue)
        send(rabbit.url, queue, user_id="dupeproof")
        seen_by(queue, fail=1)
        assert read(rabbit.url, f"{queue}.dead").headers["dupeproof-user-id"] == "dupeproof"


def test_headers_are_written_without_loss():
    """Neither of precision, as pamqp would, nor refused, as bytes by pamqp and fractions by pika."""
    from pamqp import decode

    from dupeproof.brokers.rabbitmq.properties import Properties, table

    headers = {**HEADERS, "exact": 0.1, "bytes": b"\xff", "deep": {"also": [0.1, b"\x00"]}}
    _, read = decode.field_table(table(headers))
    assert read == headers
    whole = Properties(content_type="a", headers=headers, reply_to="b")
    again = Properties()
    again.unmarshal(*_flags_and_rest(whole.marshal()))
    assert (again.content_type, again.headers, again.reply_to) == ("a", headers, "b")


def _flags_and_rest(written: bytes) -> tuple[int, bytes]:
    return int.from_bytes(written[:2], "big"), written[2:]


@pytest.mark.server("redis", "postgres")
def test_a_dead_letter_on_redis_is_the_entry_as_it_was(redis_server, run, until):
    from brokers_places import RedisStreamPlace

    from dupeproof import Once

    place, queue = RedisStreamPlace(redis_server.url), new_queue()
    place.declare(queue)
    fields = {
        b"id": b"m-1",
        b"body": b"{}",
        b"type": b"placed",
        b"binary": b"\x00\xff",
        b"headers": b'{"a": "1"}',
    }

    def reject(message):
        raise Reject("never")

    with place.client() as client:
        client.xadd(queue, fields)
        consumer = place.consumer(queue, reject, once=Once("memory://", namespace=queue))
        running = run(consumer)
        until(lambda: consumer.tally.dead == 1 or running.ended, lambda: running.error)
        running.stop()
        [(_, found)] = client.xrange(f"{queue}.dead")
    assert fields.items() <= found.items()
    assert b"never" in found[b"dupeproof-reason"]


def test_the_type_of_an_outgoing_message_reaches_the_handler_and_its_dead_letter(
    place, queue, is_async, run, until, dead_letters
):
    from dupeproof import AsyncOnce, Once

    event = Message(
        id="m-1",
        topic=queue,
        key="k",
        payload=b"{}",
        type="placed",
        headers={"content-type": "application/json", "correlation-id": "c-1"},
    )
    assert place.publish(event, is_async=is_async) == [None]
    seen: list = []

    def work(message):
        seen.append(message)
        raise Reject("never")

    async def work_async(message):
        work(message)

    once = (AsyncOnce if is_async else Once)("memory://", namespace=queue)
    running = run(place.consumer(queue, work_async if is_async else work, once=once))
    until(lambda: running.tally.dead == 1 or running.ended, lambda: running.error)
    running.stop()
    [message] = seen
    [dead] = dead_letters(queue, 1)
    for each in (message, dead):
        assert (each.id, each.key, each.type) == ("m-1", "k", "placed")
        assert each.headers["content-type"] == "application/json"
        assert each.raw is not None
    assert message.timestamp is None or abs((datetime.now(UTC) - message.timestamp).total_seconds()) < 60
