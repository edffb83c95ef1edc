"""Each broker as the one suite sees it: its module, a queue of the test's own, and a way to send it anything."""

import asyncio
import uuid
from typing import ClassVar

import pika

from dupeproof.brokers import memory, rabbitmq
from dupeproof.outbox.messages import Message


def new_queue() -> str:
    return f"orders-{uuid.uuid4().hex[:10]}"


def message(
    queue: str, ident: str, payload: bytes = b"{}", key: str | None = None, **headers: str
) -> Message:
    return Message(id=ident, topic=queue, key=key, payload=payload, headers=headers)


class Place:
    """A broker at a URL. `module` has `consumer`; `sync` and `async` publishers are made by name."""

    module = memory
    publishers = (memory.MemoryPublisher, memory.AsyncMemoryPublisher)
    consuming: ClassVar[dict] = {}
    """Options of `consumer` for the tests: short times."""
    wrong_login: str | None = None

    def __init__(self, url: str) -> None:
        self.url = url

    def publisher(self, *, is_async: bool = False):
        return self.publishers[is_async](self.url)

    def publish(self, *messages: Message, is_async: bool = False) -> list:
        """All at once, by a publisher of its own."""
        if not is_async:
            with self.publisher() as publisher:
                return publisher.publish(messages)

        async def send():
            async with self.publisher(is_async=True) as publisher:
                return await publisher.publish(messages)

        return asyncio.run(send())

    def consumer(self, queue: str, handler, **options):
        return self.module.consumer(self.url, queue, handler, **{"create": True, **self.consuming, **options})

    def declare(self, queue: str) -> None:
        raise NotImplementedError

    def send_raw(self, queue: str, body: bytes, headers: dict[str, str]) -> None:
        """A message as someone else would send it: without an id unless `headers` has one."""
        raise NotImplementedError


class MemoryPlace(Place):
    def __init__(self, url: str = "") -> None:
        super().__init__(f"memory://{uuid.uuid4()}")

    def declare(self, queue: str) -> None:
        memory.broker_of(self.url).declare(queue)

    def send_raw(self, queue: str, body: bytes, headers: dict[str, str]) -> None:
        from dupeproof.brokers.memory.broker import Entry

        memory.broker_of(self.url).put(queue, Entry(headers.pop("id", None), body, headers, None, queue))


class OrderedMemoryPlace(MemoryPlace):
    """As a broker that brings nothing again by itself."""

    consuming: ClassVar[dict] = {"delays": False}


class RabbitPlace(Place):
    module = rabbitmq
    publishers = (rabbitmq.RabbitPublisher, rabbitmq.AsyncRabbitPublisher)

    @property
    def wrong_login(self) -> str:
        return self.url.replace("dupeproof:", "dupeproof:not")

    def channel(self):
        return pika.BlockingConnection(pika.URLParameters(self.url)).channel()

    def declare(self, queue: str) -> None:
        channel = self.channel()
        channel.queue_declare(queue, durable=True)
        channel.connection.close()

    def send_raw(self, queue: str, body: bytes, headers: dict[str, str]) -> None:
        channel = self.channel()
        ident = headers.pop("id", None)
        long = {"dupeproof-id": ident} if ident is not None and len(ident) > 255 else {}
        properties = pika.BasicProperties(message_id=None if long else ident, headers={**headers, **long})
        channel.basic_publish("", queue, body, properties)
        channel.connection.close()


PLACES = {"memory": MemoryPlace, "ordered_memory": OrderedMemoryPlace, "rabbitmq": RabbitPlace}
SERVERS = {"rabbitmq": "rabbitmq"}
"""Which of them need a server, and which."""
