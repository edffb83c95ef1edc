"""The inbox inside FastStream, on its real brokers: what its own client sends twice has one effect."""

import asyncio
import contextlib
import json
import logging
import uuid
from typing import ClassVar

import pytest
from brokers_ledgers import PostgresLedger
from faststream import AckPolicy, Context
from faststream.exceptions import AckMessage

from dupeproof import AsyncInbox, Inbox
from dupeproof.brokers.faststream import InboxMiddleware
from dupeproof.errors import ConfigError

PATIENCE = 30
CONNECTION = Context("connection")


class Rabbit:
    server = "rabbitmq"
    safe: ClassVar[dict] = {"ack_policy": AckPolicy.NACK_ON_ERROR}

    def __init__(self, url: str) -> None:
        self.url = url

    def broker(self, *middlewares):
        from faststream.rabbit import RabbitBroker

        return RabbitBroker(self.url, middlewares=middlewares)

    def subscriber(self, broker, queue, **options):
        from faststream.rabbit import RabbitQueue

        return broker.subscriber(RabbitQueue(queue, durable=True), **{**self.safe, **options})

    async def publish(self, broker, queue, body, ident, **headers):
        await broker.publish(body, queue, message_id=ident, headers=headers)

    async def send(self, broker, queue, body, **headers):
        """By another client than FastStream's, which would add an id of its own making."""
        import pika

        channel = pika.BlockingConnection(pika.URLParameters(self.url)).channel()
        properties = pika.BasicProperties(headers=headers, content_type=headers.get("content-type"))
        channel.basic_publish("", queue, json.dumps(body).encode(), properties)
        channel.connection.close()


class Nats(Rabbit):
    server = "nats"

    def broker(self, *middlewares):
        from faststream.nats import NatsBroker

        return NatsBroker(self.url, middlewares=middlewares)

    def subscriber(self, broker, queue, **options):
        from faststream.nats import JStream

        stream = JStream(queue, duplicate_window=0.1)
        return broker.subscriber(
            queue,
            stream=stream,
            durable=queue,
            deliver_policy="all",
            pull_sub=True,
            **{**self.safe, **options},
        )

    async def publish(self, broker, queue, body, ident, **headers):
        ids = {} if ident is None else {"dupeproof-id": ident}
        await broker.publish(body, queue, stream=queue, headers={**ids, **headers})

    async def send(self, broker, queue, body, **headers):
        await self.publish(broker, queue, body, None, **headers)


class Kafka(Rabbit):
    server = "kafka"

    def broker(self, *middlewares):
        from faststream.confluent import KafkaBroker

        return KafkaBroker(self.url, middlewares=middlewares)

    def subscriber(self, broker, queue, **options):
        return broker.subscriber(
            queue, group_id=queue, auto_offset_reset="earliest", **{**self.safe, **options}
        )

    async def publish(self, broker, queue, body, ident, **headers):
        ids = {} if ident is None else {"message-id": ident}
        await broker.publish(body, queue, headers={**ids, **headers})

    async def send(self, broker, queue, body, **headers):
        await self.publish(broker, queue, body, None, **headers)


class Redis(Rabbit):
    server = "redis"

    def broker(self, *middlewares):
        from faststream.redis import RedisBroker

        return RedisBroker(self.url, middlewares=middlewares)

    def subscriber(self, broker, queue, **options):
        from faststream.redis import StreamSub

        return broker.subscriber(
            stream=StreamSub(queue, group=queue, consumer="one"), **{**self.safe, **options}
        )

    async def publish(self, broker, queue, body, ident, **headers):
        ids = {} if ident is None else {"message-id": ident}
        await broker.publish(body, stream=queue, headers={**ids, **headers})

    async def send(self, broker, queue, body, **headers):
        await self.publish(broker, queue, body, None, **headers)


@pytest.fixture(
    params=[
        pytest.param(kind, marks=pytest.mark.server(kind.server, "postgres"), id=kind.server)
        for kind in (Rabbit, Nats, Kafka, Redis)
    ]
)
def place(request):
    return request.param(request.getfixturevalue(f"{request.param.server}_server").url)


@pytest.fixture
def queue():
    return f"orders-{uuid.uuid4().hex[:10]}"


@pytest.fixture
def ledger(postgres_module_url):
    ledger = PostgresLedger(postgres_module_url)
    ledger.empty()
    return ledger


@pytest.fixture
def inbox(ledger, queue):
    return AsyncInbox(queue, database=ledger.url)


@contextlib.asynccontextmanager
async def started(broker):
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop()


async def until(condition) -> None:
    for _ in range(PATIENCE * 50):
        if condition():
            return
        await asyncio.sleep(0.02)
    pytest.fail(f"waited {PATIENCE} s in vain")


async def write(connection, ident) -> None:
    await connection.execute("INSERT INTO effects (message_id) VALUES (%s)", [ident])


async def test_what_comes_twice_has_one_effect(place, queue, inbox, ledger):
    broker = place.broker(InboxMiddleware(inbox))
    seen: list = []

    @place.subscriber(broker, queue)
    async def handle(body: dict, connection=CONNECTION):
        seen.append(body["n"])
        await write(connection, str(body["n"]))

    async with started(broker):
        for n in (1, 2, 1, 2, 1, 3):
            await place.publish(broker, queue, {"n": n}, f"m-{n}")
            await asyncio.sleep(0.15)  # NATS's own window is over
        await until(lambda: 3 in seen)
        await asyncio.sleep(0.3)
    assert ledger.counts() == {"1": 1, "2": 1, "3": 1}
    assert sorted(seen) == [1, 2, 3]


@pytest.mark.parametrize("mode", ["binary", "structured"])
async def test_a_cloudevent_is_known_by_its_id(place, queue, inbox, ledger, mode):
    """Sent by whoever sends CloudEvents: without an id of the broker's own."""
    broker = place.broker(InboxMiddleware(inbox))
    seen: list = []

    @place.subscriber(broker, queue)
    async def handle(body, connection=CONNECTION):
        seen.append(json.loads(body) if isinstance(body, bytes) else body)
        await write(connection, str(body))

    events = [{"id": f"evt-{n}", "source": "/shop", "type": "t", "specversion": "1.0"} for n in (1, 1, 2)]
    async with started(broker):
        for event in events:
            binary = {f"ce-{name}": value for name, value in event.items()}
            kind = {"content-type": "application/cloudevents+json"}
            await place.send(broker, queue, event, **(binary if mode == "binary" else kind))
            await asyncio.sleep(0.15)  # NATS's own window is over
        await until(lambda: events[2] in seen)
    assert seen == [events[0], events[2]]


@pytest.mark.server("rabbitmq", "postgres")
class TestRabbit:
    @pytest.fixture
    def place(self, rabbitmq_server):
        return Rabbit(rabbitmq_server.url)

    async def test_a_handler_that_fails_leaves_neither_effect_nor_mark_and_has_another_try(
        self, place, queue, inbox, ledger
    ):
        broker = place.broker(InboxMiddleware(inbox))
        tries: list = []

        @place.subscriber(broker, queue)
        async def handle(body: dict, connection=CONNECTION):
            tries.append(body["n"])
            await write(connection, str(body["n"]))
            if len(tries) < 3:
                raise ValueError("not yet")

        async with started(broker):
            await place.publish(broker, queue, {"n": 1}, "m-1")
            await until(lambda: len(tries) == 3)
        assert ledger.counts() == {"1": 1}

    async def test_a_handler_that_says_it_is_done_has_its_work_committed(self, place, queue, inbox, ledger):
        broker = place.broker(InboxMiddleware(inbox))
        seen: list = []

        @place.subscriber(broker, queue)
        async def handle(body: dict, connection=CONNECTION):
            seen.append(body["n"])
            await write(connection, str(body["n"]))
            raise AckMessage

        async with started(broker):
            await place.publish(broker, queue, {"n": 1}, "m-1")
            await place.publish(broker, queue, {"n": 1}, "m-1")
            await place.publish(broker, queue, {"n": 2}, "m-2")
            await until(lambda: 2 in seen)
        assert ledger.counts() == {"1": 1, "2": 1}

    async def test_a_duplicate_is_not_answered(self, place, queue, inbox, ledger):
        """FastStream publishes what a handler returns; of a duplicate there is nothing to publish."""
        broker = place.broker(InboxMiddleware(inbox))
        answers: list = []

        @broker.publisher(f"{queue}-answers")
        @place.subscriber(broker, queue)
        async def handle(body: dict, connection=CONNECTION):
            return {"answer": body["n"]}

        @place.subscriber(broker, f"{queue}-answers")
        async def listen(body):
            answers.append(body)

        async with started(broker):
            for n in (1, 1, 1, 2):
                await place.publish(broker, queue, {"n": n}, f"m-{n}")
            await until(lambda: {"answer": 1} in answers and {"answer": 2} in answers)
        assert sorted(each["answer"] for each in answers) == [1, 2]

    async def test_a_random_id_of_the_client_is_not_taken_for_one(self, place, queue, ledger):
        """Without a message_id FastStream makes one up at every delivery; two of them would be two messages."""
        inbox = AsyncInbox(queue, database=ledger.url)
        broker = place.broker(InboxMiddleware(inbox, id_of=lambda message: message.headers.get("order")))
        seen: list = []

        @place.subscriber(broker, queue)
        async def handle(body: dict, connection=CONNECTION):
            seen.append(body["n"])
            await write(connection, str(body["n"]))

        async with started(broker):
            for n in (1, 1, 2):
                await broker.publish({"n": n}, queue, headers={"order": f"o-{n}"})
            await until(lambda: 2 in seen)
        assert ledger.counts() == {"1": 1, "2": 1}

    async def test_a_task_of_celery_is_known_by_its_id(self, place, queue, inbox, ledger):
        broker = place.broker(InboxMiddleware(inbox))
        seen: list = []

        @place.subscriber(broker, queue)
        async def handle(body, connection=CONNECTION):
            seen.append(body)

        async with started(broker):
            for n in (1, 1, 2):
                await place.send(broker, queue, n, task="shop.mail", id=f"task-{n}", root_id=f"task-{n}")
            await until(lambda: len(seen) == 2)
        assert sorted(seen) == [1, 2]

    async def test_an_event_for_two_subscribers_reaches_both(self, place, queue, inbox):
        from faststream.rabbit import ExchangeType, RabbitExchange, RabbitQueue

        broker = place.broker(InboxMiddleware(inbox))
        exchange = RabbitExchange(f"{queue}-events", type=ExchangeType.FANOUT)
        seen: list = []

        @broker.subscriber(RabbitQueue(f"{queue}-billing", durable=True), exchange, **place.safe)
        async def bill(body: dict, connection=CONNECTION):
            seen.append(("billing", body["n"]))

        @broker.subscriber(RabbitQueue(f"{queue}-shipping", durable=True), exchange, **place.safe)
        async def ship(body: dict, connection=CONNECTION):
            seen.append(("shipping", body["n"]))

        async with started(broker):
            for n in (1, 1, 2):
                await broker.publish({"n": n}, exchange=exchange, message_id=f"m-{n}")
            await until(lambda: {("billing", 2), ("shipping", 2)} <= set(seen))
        assert sorted(seen) == [("billing", 1), ("billing", 2), ("shipping", 1), ("shipping", 2)]

    @pytest.mark.parametrize("policy", [AckPolicy.ACK_FIRST, AckPolicy.ACK, AckPolicy.REJECT_ON_ERROR])
    async def test_an_unsafe_ack_policy_is_told_once(self, place, queue, inbox, caplog, policy):
        broker = place.broker(InboxMiddleware(inbox))
        seen: list = []

        @place.subscriber(broker, queue, ack_policy=policy)
        async def handle(body: dict):
            seen.append(body["n"])

        with caplog.at_level(logging.ERROR, "dupeproof"):
            async with started(broker):
                for n in range(3):
                    await place.publish(broker, queue, {"n": n}, f"m-{n}")
                await until(lambda: len(seen) == 3)
        assert caplog.text.count("NACK_ON_ERROR") == 1


def test_bad_input_is_refused_when_the_middleware_is_made(ledger):
    with pytest.raises(ConfigError, match="AsyncInbox"):
        InboxMiddleware(Inbox("g", database=ledger.url))
    with pytest.raises(ConfigError, match="database="):
        InboxMiddleware(AsyncInbox("g"))
    with pytest.raises(ConfigError, match="missing_id"):
        InboxMiddleware(AsyncInbox("g", database=ledger.url), missing_id="dead")
