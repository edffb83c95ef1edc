"""What type checkers must see of the public interface. Checked, never run."""

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, assert_type

import psycopg_pool
import redis
import redis.asyncio
import sqlalchemy
from fastapi.routing import APIRoute
from sqlalchemy.ext.asyncio import create_async_engine

from dupeproof import (
    AsyncCooldown,
    AsyncInbox,
    AsyncOnce,
    AsyncOutbox,
    AsyncRelay,
    Cooldown,
    Inbox,
    NotDone,
    Once,
    Outbox,
    Relay,
)
from dupeproof.brokers import kafka, nats, rabbitmq, redis_streams
from dupeproof.brokers.base import Message as Delivered
from dupeproof.console import ConsoleApp, ConsoleListener
from dupeproof.filters import (
    AsyncCompactSeen,
    AsyncInFront,
    AsyncSequenceGuard,
    Bloom,
    CompactSeen,
    FilterStats,
    InFront,
    RedisBloom,
    RotatingBloom,
    SequenceGuard,
    Verdict,
)
from dupeproof.guards.functions import Guarded
from dupeproof.guards.results import DeadCall, Result
from dupeproof.http import SHARED, IdempotencyMiddleware, idempotency, key_for
from dupeproof.http.drf import Idempotent as DrfIdempotent
from dupeproof.http.fastapi import idempotent_route
from dupeproof.http.ninja import Idempotent as NinjaIdempotent
from dupeproof.http.wsgi import IdempotencyMiddleware as WsgiMiddleware
from dupeproof.keys import content_id, fingerprint, new_id
from dupeproof.outbox import Message, OutboxStatus
from dupeproof.testing import crash_at, points, reached


@dataclass
class Receipt:
    order_id: str
    amount: int


def note(call: DeadCall) -> None:
    assert_type(call.error, Exception | None)


once = Once(
    "sqlite:///dedup.db",
    namespace="billing",
    window="24h",
    lease=timedelta(seconds=60),
    on_busy="wait",
    wait=10,
    on_abandoned="hold",
    max_attempts=3,
    on_dead=note,
    on_store_down="raise",
    events=[print],
)
aonce = AsyncOnce("redis://localhost", window=3600.5)


@once(key="order_id")
def charge(order_id: str, amount: int = 0, *, currency: str = "EUR") -> Receipt:
    return Receipt(order_id, amount)


@aonce(key=["order_id", "amount"], fingerprint=False, name="charge")
async def acharge(order_id: str, amount: int) -> Receipt:
    return Receipt(order_id, amount)


class Shop:
    @once(key="order.id")
    def pay(self, order: Receipt) -> int:
        return order.amount


def sync_names() -> None:
    assert_type(charge("o-1", 500, currency="USD"), Receipt)
    assert_type(charge.key_for("o-1", 500), str)
    assert_type(Shop().pay(Receipt("o-1", 5)), int)
    charge("o-1", "500")  # type: ignore[arg-type]
    charge()  # type: ignore[call-arg]
    assert_type(once.seen("a", meta={"from": "eu-1"}), bool)
    assert_type(once.fresh([Receipt("a", 1)], key=lambda receipt: receipt.order_id), list[Receipt])
    assert_type(once.run("k", charge, "o-1", 5), Receipt)
    assert_type(once.attempt("k", max, 1, 2), Result[int])
    once.run("k", charge, 5)  # type: ignore[arg-type]
    with once.claim("k", fingerprint={"a": 1}) as claim:
        if claim.won:
            claim.result = 5
    assert_type(once.forget("k"), bool)
    assert_type(once.resolve("k", result=None), bool)
    assert_type(once.purge(), int)
    guarded: Guarded[Any, Receipt] = charge
    assert guarded.__name__ == "charge"


async def async_names() -> None:
    assert_type(await acharge("o-1", 500), Receipt)
    pending: Coroutine[Any, Any, Receipt] = acharge("o-1", 500)
    assert_type(await pending, Receipt)
    assert_type(acharge.key_for("o-1", 500), str)
    assert_type(await aonce.run("k", acharge, "o-1", 5), Receipt)
    assert_type(await aonce.attempt("k", acharge, "o-1", 5), Result[Receipt])
    assert_type(await aonce.seen("a"), bool)
    assert_type(await aonce.fresh([1, 2]), list[int])
    async with aonce.claim("k") as claim:
        assert_type(claim.won, bool)
    async with AsyncCooldown("memory://").allow("user:1", "mail", within="5m") as allowed:
        assert_type(allowed, bool)


def cooldown_names() -> None:
    cooldown = Cooldown("memory://")
    with cooldown.allow("user:1", "mail", within="5m", data={"a": 1}) as allowed:
        assert int(allowed) in (0, 1)
    assert_type(cooldown.clear("user:1", "mail"), bool)


def filter_names() -> None:
    bloom = Bloom(1_000, 0.01, accept_errors=True)
    assert_type(bloom.add("a"), bool)
    assert_type(bloom.add_many(["a", 5]), list[bool])
    assert_type(bloom.fresh([Receipt("a", 1)], key=lambda receipt: receipt.order_id), list[Receipt])
    assert_type(bloom.stats(), FilterStats)
    assert_type(Bloom.restore("file"), Bloom)
    assert_type(RotatingBloom(1_000, "1h").might_have_many(["a"]), list[bool])
    assert_type(RedisBloom("redis://localhost", "ids", 1_000).add("a"), bool)
    assert_type(CompactSeen("redis://localhost", window="24h").fresh(["a"]), list[str])
    assert_type(InFront(bloom, once).unknown([1, 2]), list[int])
    InFront(bloom, CompactSeen("redis://localhost"))
    guard = SequenceGuard("memory://")
    assert_type(guard.first("p", 1, 2), bool)
    assert_type(guard.first(object(), "p", 1, 2), bool)
    assert_type(guard.first_many([("p", 1, 2)]), list[Verdict])


async def async_filter_names() -> None:
    assert_type(await AsyncInFront(Bloom(10), aonce).unknown(["a"]), list[str])
    assert_type(await AsyncCompactSeen("redis://localhost").seen("a"), bool)
    assert_type(await AsyncSequenceGuard().first_many(object(), [("p", 1, 2)]), list[Verdict])


def publish(message: Message) -> None:
    assert_type(message.id, str)
    assert_type(message.key, str | None)
    assert_type(message.payload, bytes)
    assert_type(message.headers, dict[str, str])


async def apublish(message: Message) -> None:
    publish(message)


class Broker:
    def publish(self, messages: Sequence[Message]) -> list[BaseException | None]:
        return [None for _ in messages]


def outbox_names() -> None:
    assert_type(Outbox().add(object(), topic="orders", payload={"a": 1}, key="o-1", headers={}), str)
    assert_type(Outbox().add_many(object(), [{"topic": "orders", "payload": b""}]), list[str])
    relay = Relay("sqlite:///shop.db", publisher=publish)
    assert_type(relay.run_once(), int)
    assert_type(relay.status(), OutboxStatus)
    Relay("sqlite:///shop.db", publisher=Broker()).stop()


async def async_outbox_names() -> None:
    assert_type(await AsyncOutbox().add(object(), topic="orders", payload=1), str)
    assert_type(await AsyncRelay("sqlite:///shop.db", publisher=apublish).run_once(), int)


assert_type(new_id("orders"), str)
assert_type(content_id({"a": 1}, context={"user": 1}, namespace="orders"), str)
assert_type(fingerprint({"a": 1}, include=["a"]), str)


inbox = Inbox("billing", window="payments", database="postgresql://localhost/shop")
with inbox.transaction() as connection:
    assert_type(inbox.first(connection, "m-1"), bool)
    assert_type(inbox.first_many(connection, ["m-1", 2]), list[bool])
    assert_type(inbox.insert_once(connection, "payments", {"id": 1}, key="id"), bool)
    assert_type(inbox.window(connection), timedelta)
    assert_type(inbox.lateness(connection).suggested, int | None)


async def use_inbox(async_inbox: AsyncInbox) -> None:
    async with async_inbox.transaction() as connection:
        assert_type(await async_inbox.first(connection, "m-1"), bool)
        assert_type(await async_inbox.first_many(connection, ["m-1", 2]), list[bool])
        inbox.first(connection)  # type: ignore[call-arg]


with crash_at("after-commit", 2, kill=False):
    assert_type(reached("shop.charged"), None)
assert_type(points(), dict[str, str])


def http_types(app: Any) -> None:
    asgi = IdempotencyMiddleware(app, store="memory://", scope=SHARED, window="1h", on_error="hold")
    assert_type(asgi, IdempotencyMiddleware)
    WsgiMiddleware(app, store=Once("memory://"), scope=lambda request: 1, required=True)
    assert_type(idempotent_route(store=AsyncOnce("memory://"), scope=SHARED), type[APIRoute])
    DrfIdempotent(store="memory://", scope=lambda request: request.user.pk, wait="5s")(print)
    DrfIdempotent(store="memory://", scop=SHARED)  # type: ignore[call-arg]
    operation = NinjaIdempotent(store=AsyncOnce("memory://"), scope=SHARED)(http_types)
    operation()  # type: ignore[call-arg] # it is what it was
    assert_type(key_for("user", "key"), str)
    assert_type(idempotency.attempt(), int)
    assert_type(idempotency.child_key("charge"), str)
    with idempotency.transaction(app) as keep:
        assert_type(keep(Receipt("o-1", 1)), Receipt)


def broker_names(message: Delivered) -> None:
    for publisher in (
        rabbitmq.RabbitPublisher("amqp://localhost/"),
        redis_streams.RedisStreamPublisher("redis://localhost/0"),
        nats.NatsPublisher("nats://localhost"),
        kafka.KafkaPublisher("localhost:9092"),
    ):
        Relay("sqlite:///shop.db", publisher=publisher).stop()
    AsyncRelay("sqlite:///shop.db", publisher=rabbitmq.AsyncRabbitPublisher("amqp://localhost/")).stop()
    assert_type(message.id, str | None)
    assert_type(message.body, bytes)
    rabbitmq.consumer("amqp://localhost/", "orders", print, inbox=inbox, concurrency=4).stop()
    rabbitmq.consumer("amqp://localhost/", "orders", print, inbox=inbox, concurrancy=4)  # type: ignore[call-arg]


def console_types() -> None:
    listener = ConsoleListener()
    Once("memory://", events=[listener])
    assert_type(ConsoleApp("memory://", listener=listener, token=None, hosts=("localhost",)), ConsoleApp)
    ConsoleApp("memory://", users={"ann": "a-token-of-her-own"}, settle=lambda entry: NotDone())
    ConsoleApp("memory://", "token")  # type: ignore[call-arg]


def clients_of_the_caller() -> None:
    Once(redis.Redis())
    Once(redis.RedisCluster())
    AsyncOnce(redis.asyncio.Redis())
    AsyncOnce(redis.asyncio.RedisCluster())
    Once(psycopg_pool.ConnectionPool())
    AsyncOnce(psycopg_pool.AsyncConnectionPool())
    Once(sqlalchemy.create_engine("postgresql+psycopg://"))
    AsyncOnce(create_async_engine("postgresql+asyncpg://"))
    Cooldown(redis.Redis())
    AsyncCooldown(redis.asyncio.Redis())
    CompactSeen(redis.Redis())
    SequenceGuard(redis.Redis())
    Once(7)  # type: ignore[arg-type]
