"""What may be given instead of a URL, what is refused when a guard is built, and where a client can be used."""

import tempfile
from pathlib import Path

import asyncpg
import httpx
import psycopg
import psycopg_pool
import pytest
import redis
import redis.asyncio
import sqlalchemy
from redis.sentinel import Sentinel
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session, sessionmaker
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from dupeproof import AsyncCooldown, AsyncOnce, ConfigError, Cooldown, Once, OneTimeTokens, StoreUnavailable
from dupeproof.cleanup import Purger
from dupeproof.filters import CompactSeen, RedisBloom, SequenceGuard
from dupeproof.http import SHARED, IdempotencyMiddleware

ENGINE = "postgresql+psycopg://nobody@127.0.0.1:1/nothing"


def pool(kind=psycopg_pool.ConnectionPool):
    return kind("postgresql://nobody@127.0.0.1:1/nothing", open=False)


@pytest.mark.parametrize(
    ("guard", "make", "advice"),
    [
        (Once, redis.asyncio.Redis, "give redis.Redis here, or use the async class"),
        (AsyncOnce, redis.Redis, "give redis.asyncio.Redis here, or use the sync class"),
        (Cooldown, redis.asyncio.Redis, "give redis.Redis here"),
        (AsyncCooldown, redis.Redis, "give redis.asyncio.Redis here"),
        (Once, lambda: pool(psycopg_pool.AsyncConnectionPool), "give psycopg_pool.ConnectionPool here"),
        (AsyncOnce, pool, "give psycopg_pool.AsyncConnectionPool here"),
        (Once, lambda: create_async_engine(ENGINE), "give an Engine"),
        (AsyncOnce, lambda: sqlalchemy.create_engine(ENGINE), "give an AsyncEngine"),
        (Once, lambda: sqlalchemy.create_engine("sqlite://"), "give the URL: sqlite:///file.db"),
        (Once, lambda: sqlalchemy.create_engine("mysql+pymysql://nobody@127.0.0.1/x"), "for mysql"),
        (Once, lambda: redis.Redis().pipeline(), "give the client it comes from"),
        (Once, redis.ConnectionPool, r"redis.Redis\(connection_pool=pool\)"),
        (Once, lambda: Sentinel([("127.0.0.1", 1)]), "master_for"),
        (Once, lambda: Sentinel([("127.0.0.1", 1)]).slave_for("x"), "reads from replicas"),
        (Once, lambda: sessionmaker(sqlalchemy.create_engine(ENGINE)), "give the engine"),
        (Once, lambda: Session(sqlalchemy.create_engine(ENGINE)), "give the engine"),
        (Once, lambda: psycopg.Connection.__new__(psycopg.Connection), "give the pool or engine"),
        (Once, lambda: asyncpg.Pool.__new__(asyncpg.Pool), "give psycopg_pool.ConnectionPool"),
        (Once, object, "expected a store URL, a store, or a client"),
    ],
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_cannot_be_used_is_refused_when_the_guard_is_built(guard, make, advice):
    with pytest.raises(ConfigError, match=advice):
        guard(make())


def test_nothing_is_opened_when_a_guard_is_built():
    Once(redis.Redis(port=1))
    AsyncOnce(redis.asyncio.Redis(port=1))
    Once(pool())
    AsyncOnce(pool(psycopg_pool.AsyncConnectionPool))
    Once(sqlalchemy.create_engine(ENGINE))
    AsyncOnce(create_async_engine(ENGINE))


@pytest.mark.server("redis")
def test_every_class_that_takes_a_store_takes_a_client(redis_url):
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        once = Once(client)

        @once(key="order_id")
        def charge(order_id: str) -> int:
            return 500

        assert charge("o-1") == charge("o-1") == 500
        assert Cooldown(client).allow("user", "mail", within="5m")
        tokens = OneTimeTokens(client, secret="s" * 32)
        tokens.redeem(tokens.issue({"user": 1}, ttl="5m"), {"user": 1})
        assert not CompactSeen(client, namespace="c").seen("a")
        assert not RedisBloom(client, name="b", capacity=1_000, accept_errors=True).seen("a")
        assert SequenceGuard(client).first("producer", 1, 1)
        assert Purger(client).run_once().removed == 0


@pytest.mark.server("redis")
async def test_the_middleware_takes_a_client(redis_url):
    runs = []

    async def pay(request):
        runs.append(1)
        return PlainTextResponse("paid", 201)

    app = Starlette(routes=[Route("/pay", pay, methods=["POST"])])
    async with redis.asyncio.Redis.from_url(redis_url) as client:
        app.add_middleware(IdempotencyMiddleware, store=client, scope=SHARED)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
            answers = [await http.post("/pay", headers={"Idempotency-Key": "k-1"}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert runs == [1]


@pytest.mark.server("postgres")
def test_a_pool_makes_the_tables_it_does_not_find(postgres_url):
    with psycopg_pool.ConnectionPool(postgres_url, min_size=0, max_size=2, open=True) as given:
        once = Once(given)
        assert once.run("key", lambda: 1) == 1
        assert not once.seen("key")
        assert once.check().store == "postgresql"


@pytest.mark.server("postgres")
def test_a_pool_that_is_not_open_says_so(postgres_url):
    given = psycopg_pool.ConnectionPool(postgres_url, open=False)
    with pytest.raises(Exception, match="not open"):
        Once(given).run("key", int)


def test_a_pool_in_front_of_a_transaction_pooler_works(own_pgbouncer, postgres_url):
    pgbouncer_url = own_pgbouncer(postgres_url).url
    for settings in ({"prepare_threshold": None}, {}):
        with psycopg_pool.ConnectionPool(
            pgbouncer_url, kwargs=settings, min_size=0, max_size=4, open=True
        ) as given:
            once = Once(given, namespace=str(len(settings)))
            assert [once.run(f"key-{n}", lambda: 1) for n in range(20)] == [1] * 20
            assert once.get("key-1").state == "done"


@pytest.fixture
def socket_path(own_redis):
    with tempfile.TemporaryDirectory() as folder:  # short: the path of a socket has 108 bytes at most
        path = f"{folder}/redis.sock"
        Path(folder).chmod(0o777)
        own_redis(options={"unixsocket": path, "unixsocketperm": "777", "requirepass": "s3cret"})
        yield path


@pytest.mark.parametrize(
    "form",
    [
        "unix://:s3cret@{}",
        "redis+unix://default:s3cret@{}?db=2",
        "unix://{}?password=s3cret&db=1&timeout=2s",
    ],
)
async def test_a_unix_socket_is_reached_by_its_path(socket_path, form):
    url = form.format(socket_path)
    with Once(url) as once:
        assert once.run("key", lambda: 1) == 1
        assert "s3cret" not in str(once.check())
    async with AsyncOnce(url) as once:
        assert (await once.get("key")).state == "done"
    with redis.Redis(unix_socket_path=socket_path, password="s3cret") as client:
        assert Once(client).run("other", lambda: 2) == 2


def test_a_socket_that_is_not_there_is_a_store_that_is_down():
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        Once("unix:///nowhere/redis.sock").seen("id")


@pytest.mark.parametrize("url", ["unix://", "unix://host/path", "redis+unix://", "unix:///a?ssl_ca_certs=x"])
def test_a_url_without_the_path_of_a_socket_is_refused(url):
    with pytest.raises(ConfigError, match=r"path of a socket|no option"):
        Once(url)
