"""One consumer of several queues, of a pattern, and what it declares."""

import pytest
from brokers_places import NatsPlace, message, new_queue

from dupeproof import AsyncOnce, Once
from dupeproof.brokers import nats, rabbitmq
from dupeproof.brokers.base import Reject
from dupeproof.errors import ConfigError


@pytest.fixture
def collect(is_async):
    """A handler that writes down what it sees, a guard for it, and what it saw; it rejects what says so."""
    seen: list = []

    def work(message):
        seen.append(message)
        if message.body == b"bad":
            raise Reject("never")

    async def work_async(message):
        work(message)

    once = (AsyncOnce if is_async else Once)("memory://", namespace=new_queue())
    return (work_async if is_async else work), once, seen


def test_one_consumer_takes_from_several_queues_and_dead_letters_by_queue(
    place, run, until, collect, is_async, dead_letters
):
    work, once, seen = collect
    queues = [new_queue() for _ in range(3)]
    for queue in queues:
        place.declare(queue)
        sent = [message(queue, f"{queue}-{n}", b"bad" if n == 3 else b"good") for n in range(10)]
        assert not any(place.publish(*sent, is_async=is_async))
    running = run(place.consumer(queues, work, once=once))
    until(
        lambda: (running.tally.done, running.tally.dead) == (27, 3) or running.ended,
        lambda: (running.tally, running.error),
    )
    running.stop()
    assert {each.topic for each in seen} == set(queues)
    for queue in queues:
        [dead] = dead_letters(queue, 1)
        assert dead.id == f"{queue}-3"


def test_no_queue_and_one_named_twice_are_refused(place, is_async, collect):
    work, once, _ = collect
    for queues in ([], ["a", "a"], [""], ["a", 5], 5):
        with pytest.raises(ConfigError, match="queue"):
            place.consumer(queues, work, once=once)


@pytest.mark.server("nats")
class TestPatterns:
    @pytest.fixture
    def place(self, nats_server):
        return NatsPlace(nats_server.url)

    def test_a_subject_with_a_wildcard_reads_all_that_match(self, place, run, until, collect, is_async):
        work, once, seen = collect
        root = new_queue()

        def declare():
            import asyncio

            from nats.js.api import StreamConfig

            async def act(client):
                await client.jetstream().add_stream(StreamConfig(name=root, subjects=[f"{root}.>"]))

            asyncio.run(place.with_client(act))

        declare()
        sent = [
            message(f"{root}.{land}", f"m-{land}", b"bad" if land == "fr" else b"{}")
            for land in ("de", "fr", "it")
        ]
        assert not any(place.publish(*sent))
        running = run(place.module.consumer(place.url, f"{root}.*", work, once=once))
        until(
            lambda: (running.tally.done, running.tally.dead) == (2, 1) or running.ended,
            lambda: (running.tally, running.error),
        )
        assert {each.topic for each in seen} == {each.topic for each in sent}
        running.stop()
        reader = run(place.module.consumer(place.url, f"dead.{root}._", work, once=once))
        until(lambda: len(seen) == 4 or reader.ended, lambda: reader.error)
        reader.stop()
        assert seen[-1].id == "m-fr"

    @pytest.mark.parametrize(
        ("subject", "dead"),
        [("orders.*", "orders.dead"), (">", None), ("orders.>", "orders.x.dead"), ("orders", "orders")],
    )
    def test_dead_letters_that_the_consumer_would_read_itself_are_refused(self, subject, dead, collect):
        work, once, _ = collect
        with pytest.raises(ConfigError, match="reads itself"):
            nats.consumer("nats://127.0.0.1:4222", subject, work, once=once, dead=dead)


@pytest.mark.server("rabbitmq")
class TestTopology:
    @pytest.fixture
    def place(self, rabbit):
        return rabbit

    def kind_of(self, channel, queue) -> str:
        """The broker tells it when another is declared."""
        import pika.exceptions

        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
            channel.connection.channel().queue_declare(
                queue, durable=True, arguments={"x-queue-type": "stream"}
            )
        return "quorum" if "quorum" in refused.value.reply_text else "classic"

    @pytest.mark.parametrize("queue_type", ["quorum", "classic"])
    def test_create_makes_a_queue_of_the_wanted_type(self, rabbit, channel, run, until, collect, queue_type):
        work, once, _ = collect
        queue = new_queue()
        options = {} if queue_type == "quorum" else {"queue_type": queue_type}
        running = run(rabbitmq.consumer(rabbit.url, queue, work, once=once, create=True, **options))
        until(lambda: running.consumer.health().ok or running.ended, lambda: running.error)
        channel.basic_publish("", queue, b"bad", None)
        running.stop()
        assert self.kind_of(channel, queue) == queue_type

    def test_create_makes_exchange_and_bindings(self, rabbit, channel, run, until, collect, is_async):
        import pika

        work, once, seen = collect
        queue, exchange = new_queue(), new_queue()
        consumer = rabbitmq.consumer(
            rabbit.url,
            queue,
            work,
            once=once,
            create=True,
            exchange=exchange,
            bindings=["orders.*", "bills.#"],
        )
        running = run(consumer)
        until(lambda: consumer.health().ok or running.ended, lambda: running.error)
        for key in ("orders.eu", "orders.eu.late", "bills.a.b", "other"):
            channel.basic_publish(exchange, key, b"{}", pika.BasicProperties(message_id=key))
        until(lambda: len(seen) == 2, lambda: seen)
        running.stop()
        assert sorted(each.topic for each in seen) == ["bills.a.b", "orders.eu"]
        # A second start finds all there.
        again = run(consumer)
        until(lambda: consumer.health().ok or again.ended, lambda: again.error)
        again.stop()

    def test_a_fanout_needs_no_binding(self, rabbit, channel, run, until, collect):
        import pika

        work, once, seen = collect
        queue, exchange = new_queue(), new_queue()
        options = {"create": True, "exchange": exchange, "exchange_type": "fanout"}
        running = run(rabbitmq.consumer(rabbit.url, queue, work, once=once, **options))
        until(lambda: running.consumer.health().ok or running.ended, lambda: running.error)
        channel.basic_publish(exchange, "any", b"{}", pika.BasicProperties(message_id="m"))
        until(lambda: len(seen) == 1, lambda: seen)
        running.stop()

    @pytest.mark.parametrize(
        ("options", "text"),
        [
            ({"exchange": "e", "bindings": "a"}, "create=True"),
            ({"create": True, "bindings": "a"}, "needs exchange="),
            ({"create": True, "exchange": "e"}, "needs bindings="),
            ({"create": True, "queue_type": "stream"}, "queue_type must be one of quorum, classic"),
            (
                {"create": True, "exchange": "e", "bindings": "a", "exchange_type": "odd"},
                "exchange_type must be",
            ),
        ],
    )
    def test_what_does_not_fit_is_refused_when_the_consumer_is_made(self, options, text, collect):
        work, once, _ = collect
        with pytest.raises(ConfigError, match=text):
            rabbitmq.consumer("amqp://127.0.0.1/", "q", work, once=once, **options)
