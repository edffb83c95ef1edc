"""Over a client of the caller's nothing is done twice, nothing late, and nothing of the caller's is closed or changed."""

import asyncio
import contextlib
import time
from urllib.parse import urlsplit

import psycopg
import psycopg_pool
import pytest
import redis
import redis.asyncio
import sqlalchemy
from redis.asyncio.retry import Retry as AsyncRetry
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.backoff import ConstantBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel
from sqlalchemy.ext.asyncio import create_async_engine

from dupeproof import AsyncOnce, Once, StoreUnavailable
from dupeproof.stores.redis.lua import script
from support.flavors import open_once
from support.load import Load
from support.proxy import Proxy
from support.workers import wait_for

either = pytest.mark.parametrize("what", ["request", "reply"])
SIGNS = {
    "redis": {
        "claim": b"$3\r\nGET\r\n$2\r\nPX\r\n",
        "finish": script("finish").sha,
        "forget": script("delete").sha,
        "mark": b"$2\r\nNX\r\n$2\r\nPX\r\n",
    },
    "postgres": {
        "claim": b"dupeproof_claim_v1",
        "finish": b"dupeproof_finish_v1",
        "forget": b"DELETE FROM dupeproof_records",
        "mark": b"dupeproof_mark_v1",
    },
}


def redis_client(url):
    """One that repeats what it can, as many are set up."""
    return redis.Redis.from_url(url, retry=Retry(ConstantBackoff(0.01), 3), retry_on_timeout=True)


def async_redis_client(url):
    retry = AsyncRetry(ConstantBackoff(0.01), 3)
    return redis.asyncio.Redis.from_url(url, retry=retry, retry_on_timeout=True)


def pool(url):
    return psycopg_pool.ConnectionPool(url, min_size=1, max_size=1, open=False)


def async_pool(url):
    return psycopg_pool.AsyncConnectionPool(url, min_size=1, max_size=1, open=False)


def engine(driver, make=sqlalchemy.create_engine, **arguments):
    return lambda url: make(f"postgresql+{driver}://{url.partition('://')[2]}", connect_args=arguments)


BOUNDED = {"connect_timeout": 2}
NAMELESS = {"statement_cache_size": 0, "prepared_statement_cache_size": 0}
"""So that each statement can be told on the wire."""


CLIENTS = {
    "redis": ("redis", "sync", redis_client),
    "async redis": ("redis", "async", async_redis_client),
    "pool": ("postgres", "sync", pool),
    "async pool": ("postgres", "async", async_pool),
    "engine": ("postgres", "sync", engine("psycopg", **BOUNDED)),
    "engine with psycopg2": ("postgres", "sync", engine("psycopg2", **BOUNDED)),
    "async engine": ("postgres", "async", engine("psycopg", create_async_engine, **BOUNDED)),
    "async engine with asyncpg": ("postgres", "async", engine("asyncpg", create_async_engine, **NAMELESS)),
}


def over(*names):
    marked = [pytest.param(name, marks=pytest.mark.server(CLIENTS[name][0])) for name in names]
    return pytest.mark.parametrize("kind", marked)


def asks_first(kind):
    """Whether the driver sends the text of a statement by itself, so that losing its reply loses the statement."""
    return "asyncpg" in kind


every_client = over(*CLIENTS)
bounded_clients = over(*(name for name in CLIENTS if "psycopg2" not in name))
"""A thread waits in psycopg2 for as long as the server takes; the guarantees say so."""
looking_clients = over(*(name for name in CLIENTS if "psycopg2" not in name and "asyncpg" not in name))
"""With these two SQLAlchemy looks only with pool_pre_ping=True; the guarantees say so."""


@pytest.fixture
def url(kind, request):
    return request.getfixturevalue(f"{CLIENTS[kind][0]}_url")


@pytest.fixture
def proxy(url):
    with contextlib.closing(Proxy(url)) as proxy:
        yield proxy


@pytest.fixture
def sign(kind):
    return SIGNS[CLIENTS[kind][0]].__getitem__


@pytest.fixture
def opened(kind):
    """`opened(url)` gives a guard over a client, and the client."""
    _, flavor, make = CLIENTS[kind]
    with contextlib.ExitStack() as stack:

        def open_over(url, **options):
            client = make(url)
            once = stack.enter_context(open_once(flavor, client, **options))
            do = getattr(once, "do", lambda done: done)
            close = next(
                getattr(client, name) for name in ("aclose", "dispose", "close") if hasattr(client, name)
            )
            stack.callback(lambda: do(close()))
            if hasattr(client, "open"):
                do(client.open())
            once.run("before", int)
            assert once.seen("before") is False
            return once, client

        yield open_over


@every_client
@either
@pytest.mark.parametrize("verb", ["claim", "finish"])
def test_a_lost_claim_or_finish_is_repeated_and_the_call_runs_once(opened, proxy, sign, what, verb):
    once, _ = opened(proxy.url)
    runs = []
    proxy.lose(what, sign(verb))
    result = once.attempt("key", lambda: runs.append(1) or "value")
    assert proxy.lost.is_set()
    assert (result.value, result.replayed, result.attempt) == ("value", False, 1)
    assert once.attempt("key", int).replayed
    assert runs == [1]


@every_client
@either
def test_a_lost_question_whether_an_id_was_seen_raises_and_is_never_answered_wrongly(
    opened, proxy, sign, what, kind
):
    once, _ = opened(proxy.url)
    proxy.lose(what, sign("mark"))
    with pytest.raises(StoreUnavailable):
        once.seen("id")
    assert proxy.lost.is_set()
    assert once.seen("id") is (what == "reply" and not asks_first(kind))


@every_client
@either
def test_what_cannot_be_repeated_is_not_whatever_the_client_would_do(url, opened, proxy, sign, what, kind):
    once, _ = opened(proxy.url)
    once.forget("before")
    with Once(url) as other:
        other.run("key", int)
        proxy.lose(what, sign("forget"))
        with pytest.raises(StoreUnavailable):
            once.forget("key")
        assert proxy.lost.is_set()
        assert (other.get("key") is None) is (what == "reply" and not asks_first(kind))


@bounded_clients
def test_a_server_that_does_not_answer_is_given_up_and_the_claim_is_handed_back(url, opened, proxy, kind):
    once, _ = opened(proxy.url)
    proxy.hold()
    began = time.monotonic()
    with pytest.raises(StoreUnavailable):
        once.run("key", lambda: "never")
    assert time.monotonic() - began < 12
    proxy.let_go()
    with Once(url) as other:
        wait_for(lambda: other.get("key") is None, what="the key to be handed back")
        assert other.run("key", lambda: "ran") == "ran"


@looking_clients
def test_a_connection_the_server_has_closed_is_noticed_before_it_is_used(url, opened, kind):
    once, _ = opened(url)
    end_connections(url)
    assert once.seen("id") is False


def end_connections(url):
    if url.startswith("redis"):
        with redis.Redis.from_url(url) as client:
            client.client_kill_filter(_type="normal", skipme=True)
    else:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
    time.sleep(0.1)


@over("redis", "pool", "engine", "engine with psycopg2")
def test_closing_the_guard_leaves_the_client_open_and_as_it_was(url, opened, kind):
    once, client = opened(url)
    once.close()
    if kind == "redis":
        assert client.ping()
    elif kind == "pool":
        with client.connection() as connection:
            assert connection.autocommit is False
            assert connection.execute("SHOW statement_timeout").fetchone() == ("0",)
    else:
        with client.connect() as connection:
            assert connection.get_isolation_level() == "READ COMMITTED"
            assert connection.exec_driver_sql("SHOW statement_timeout").scalar() == "0"
    assert once.seen("before")  # and it can be used on


def test_a_client_of_a_cluster_follows_its_fail_over(own_redis_cluster):
    cluster = own_redis_cluster(masters=3, replicas=1, node_timeout_ms=1000)
    port = urlsplit(cluster.url.split(",")[0]).port
    kinds = {"sync": redis.RedisCluster, "async": redis.asyncio.RedisCluster}
    load = Load(lambda flavor: kinds[flavor](host="127.0.0.1", port=port))
    with load.running():
        cluster.nodes[1].kill()
        cluster.wait_ok()
        load.wait_for_more()
    assert load.unexpected == []
    assert load.wrong_answers() == []
    assert len(load.repeated()) <= 8, "at most the call each caller was in when the master died"


def test_a_client_of_sentinels_follows_their_fail_over(own_redis_sentinel):
    group = own_redis_sentinel()
    old = group.master_port()
    parts = urlsplit(group.url)
    hosts = [each.rsplit(":", 1) for each in parts.netloc.split(",")]
    sentinels = [(host, int(port)) for host, port in hosts]
    kinds = {"sync": Sentinel, "async": AsyncSentinel}
    load = Load(lambda flavor: kinds[flavor](sentinels).master_for(parts.path.strip("/")))
    with load.running():
        group.master.kill()
        group.wait_failover(old)
        load.wait_for_more()
    assert load.unexpected == []
    assert load.wrong_answers() == []
    assert len(load.repeated()) <= 8, "at most the call each caller was in when the master died"


@over("async redis", "async pool", "async engine", "async engine with asyncpg")
async def test_callers_who_are_cancelled_leave_no_key_that_nobody_works_on(url, kind):
    client = CLIENTS[kind][2](url)
    if hasattr(client, "open"):
        await client.open()
    once = AsyncOnce(client)

    async def work():
        return 1

    keys = [f"key-{number}" for number in range(60)]
    await once.run("before", work)
    for number, key in enumerate(keys):
        call = asyncio.create_task(once.run(key, work))
        await asyncio.sleep(number % 30 * 0.0001)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
    states = [None if (entry := await once.get(key)) is None else entry.state for key in keys]
    assert set(states) <= {"done", "failed", None}
    await once.close()
    await (
        client.dispose()
        if hasattr(client, "dispose")
        else client.aclose()
        if hasattr(client, "aclose")
        else client.close()
    )
