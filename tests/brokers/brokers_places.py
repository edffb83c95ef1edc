"""Each broker as the one suite sees it: its module, a queue of the test's own, and a way to send it anything."""

import asyncio
import contextlib
import time
import uuid
from importlib import import_module
from typing import ClassVar

from dupeproof.outbox.messages import Message


def new_queue() -> str:
    return f"orders-{uuid.uuid4().hex[:10]}"


def message(
    queue: str, ident: str, payload: bytes = b"{}", key: str | None = None, **headers: str
) -> Message:
    return Message(id=ident, topic=queue, key=key, payload=payload, headers=headers)


class Place:
    """A broker at a URL. Its module is imported when it is needed: workers that are killed have to start fast."""

    name = ""
    publishers = ""
    consuming: ClassVar[dict] = {}
    """Options of `consumer` for the tests: short times."""
    wrong_login: str | None = None

    def __init__(self, url: str) -> None:
        self.url = url

    @property
    def module(self):
        return import_module(f"dupeproof.brokers.{self.name}")

    def publisher(self, *, is_async: bool = False, **options):
        kind = f"Async{self.publishers}" if is_async else self.publishers
        return getattr(self.module, kind)(self.url, **options)

    def publish(self, *messages: Message, is_async: bool = False, **options) -> list:
        """All at once, by a publisher of its own."""
        if not is_async:
            with self.publisher(**options) as publisher:
                return publisher.publish(messages)

        async def send():
            async with self.publisher(is_async=True, **options) as publisher:
                return await publisher.publish(messages)

        return asyncio.run(send())

    def publish_again(self, *messages: Message, is_async: bool = False) -> list:
        """As a producer does whose confirmation was lost, so that the consumer gets them twice."""
        return self.publish(*messages, is_async=is_async)

    def consumer(self, queue: str, handler, **options):
        return self.module.consumer(self.url, queue, handler, **{"create": True, **self.consuming, **options})

    def declare(self, queue: str) -> None:
        raise NotImplementedError

    def send_raw(self, queue: str, body: bytes, headers: dict[str, str]) -> None:
        """A message as someone else would send it: without an id unless `headers` has one."""
        raise NotImplementedError


class MemoryPlace(Place):
    name = "memory"
    publishers = "MemoryPublisher"

    def __init__(self, url: str = "") -> None:
        super().__init__(f"memory://{uuid.uuid4()}")

    def declare(self, queue: str) -> None:
        self.module.broker_of(self.url).declare(queue)

    def send_raw(self, queue: str, body: bytes, headers: dict[str, str]) -> None:
        from dupeproof.brokers.memory.broker import Entry

        self.module.broker_of(self.url).put(queue, Entry(headers.pop("id", None), body, headers, None, queue))


class OrderedMemoryPlace(MemoryPlace):
    """As a broker that brings nothing again by itself."""

    consuming: ClassVar[dict] = {"delays": False}


class RabbitPlace(Place):
    name = "rabbitmq"
    publishers = "RabbitPublisher"

    @property
    def wrong_login(self) -> str:
        return self.url.replace("dupeproof:", "dupeproof:not")

    def channel(self):
        import pika

        return pika.BlockingConnection(pika.URLParameters(self.url)).channel()

    def declare(self, queue: str) -> None:
        channel = self.channel()
        channel.queue_declare(queue, durable=True)
        channel.connection.close()

    def send_raw(self, queue: str, body: bytes, headers: dict[str, str]) -> None:
        import pika

        channel = self.channel()
        ident = headers.pop("id", None)
        long = {"dupeproof-id": ident} if ident is not None and len(ident) > 255 else {}
        properties = pika.BasicProperties(message_id=None if long else ident, headers={**headers, **long})
        channel.basic_publish("", queue, body, properties)
        channel.connection.close()


class RedisStreamPlace(Place):
    name = "redis_streams"
    publishers = "RedisStreamPublisher"
    consuming: ClassVar[dict] = {"takeover": "1s"}

    def publisher(self, *, is_async: bool = False, **options):
        return super().publisher(is_async=is_async, **{"create": False, **options})

    @property
    def wrong_login(self) -> str:
        return self.url.replace("redis://", "redis://nobody:secret@")

    def client(self):
        import redis

        return redis.Redis.from_url(self.url)

    def declare(self, queue: str) -> None:
        with self.client() as client:
            client.xgroup_create(queue, "declared", mkstream=True)

    def send_raw(self, queue: str, body: bytes, headers: dict[str, str]) -> None:
        with self.client() as client:
            client.xadd(queue, {"body": body, **headers})


class SentinelStreamPlace(RedisStreamPlace):
    @contextlib.contextmanager
    def client(self):
        from dupeproof.brokers.redis_streams.connections import connected, disconnect

        client = connected(self.url)
        try:
            yield client
        finally:
            disconnect(client)


class ClusterStreamPlace(SentinelStreamPlace):
    """Streams of one test lie on any of the nodes."""


class NatsPlace(Place):
    name = "nats"
    publishers = "NatsPublisher"
    consuming: ClassVar[dict] = {"ack_wait": "1s"}
    window = 0.1

    @property
    def wrong_login(self) -> str:
        return self.url.replace("dupeproof:", "dupeproof:not")

    async def with_client(self, act):
        import nats

        client = await nats.connect(self.url)
        try:
            await act(client)
        finally:
            await client.close()

    def declare(self, queue: str) -> None:
        from nats.js.api import StreamConfig

        async def declare(client):
            config = StreamConfig(
                name=queue.replace(".", "-"), subjects=[queue], duplicate_window=self.window
            )
            await client.jetstream().add_stream(config)

        asyncio.run(self.with_client(declare))

    def publish_again(self, *messages: Message, is_async: bool = False) -> list:
        time.sleep(self.window * 3)  # until the server has forgotten the ids
        return self.publish(*messages, is_async=is_async)

    def send_raw(self, queue: str, body: bytes, headers: dict[str, str]) -> None:
        async def send(client):
            ours = {"Nats-Msg-Id": headers.pop("id")} if "id" in headers else {}
            await client.jetstream().publish(queue, body, headers={**headers, **ours} or None)

        asyncio.run(self.with_client(send))


class KafkaPlace(Place):
    name = "kafka"
    publishers = "KafkaPublisher"
    consuming: ClassVar[dict] = {"config": {"session.timeout.ms": 2_000, "heartbeat.interval.ms": 500}}

    def admin(self):
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.url})

    def declare(self, queue: str, partitions: int = 2, **config: str) -> None:
        from confluent_kafka.admin import NewTopic

        admin = self.admin()
        admin.create_topics([NewTopic(queue, partitions, 1, config=config)])[queue].result(20)

    def members(self, group: str) -> int:
        admin = self.admin()
        return len(admin.describe_consumer_groups([group])[group].result(20).members)

    def send(self, queue: str, value: bytes | None, **fields) -> None:
        """A record of any kind: `key`, `headers`, `partition`, `timestamp`."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.url})
        producer.produce(queue, value, **fields)
        assert producer.flush(20) == 0

    def read(self, queue: str, expected: int, seconds: float = 30.0, quiet: float = 0.5) -> list:
        """What is committed in a topic: so many, and whatever comes shortly after; fewer when the time is over."""
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        settings = {
            "bootstrap.servers": self.url,
            "group.id": new_queue(),
            "isolation.level": "read_committed",
        }
        reader = Consumer(settings)
        partitions = reader.list_topics(queue, 20).topics[queue].partitions
        reader.assign([TopicPartition(queue, number, OFFSET_BEGINNING) for number in partitions])
        found, until = [], time.monotonic() + seconds
        while time.monotonic() < until:
            some = [each for each in reader.consume(500, 0.2) if each.error() is None]
            found += some
            if some and len(found) >= expected:
                until = time.monotonic() + quiet
        reader.close()
        return found

    def send_raw(self, queue: str, body: bytes, headers: dict[str, str]) -> None:
        from confluent_kafka import Producer

        ours = {"message-id": headers.pop("id")} if "id" in headers else {}
        producer = Producer({"bootstrap.servers": self.url})
        producer.produce(queue, body, headers=list({**headers, **ours}.items()))
        assert producer.flush(20) == 0


PLACES = {
    "memory": MemoryPlace,
    "ordered_memory": OrderedMemoryPlace,
    "rabbitmq": RabbitPlace,
    "redis_streams": RedisStreamPlace,
    "nats": NatsPlace,
    "kafka": KafkaPlace,
}
SERVERS = {"rabbitmq": "rabbitmq", "redis_streams": "redis", "nats": "nats", "kafka": "kafka"}
"""Which of them need a server, and which."""
