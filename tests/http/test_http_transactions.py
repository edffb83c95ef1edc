"""`idempotency.transaction`: the record and the response in the transaction that does the work."""

import sqlite3
import time

import httpx
import psycopg
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import sessionmaker
from starlette.applications import Starlette
from starlette.responses import FileResponse, JSONResponse, StreamingResponse
from starlette.routing import Route

from dupeproof import AsyncOnce
from dupeproof.errors import ClaimLost, ConfigError
from dupeproof.http import SHARED, IdempotencyMiddleware, idempotency, key_for
from support.stores import emptied

KEY = {"Idempotency-Key": "k"}


class Crash(BaseException):
    """The process dies here, as far as anybody outside can tell."""


def asked(handler, once, **options):
    app = Starlette(routes=[Route("/orders", handler, methods=["POST"])])
    guarded = IdempotencyMiddleware(app, store=once, scope=SHARED, **options)
    transport = httpx.ASGITransport(app=guarded, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://shop")


class Database:
    """Orders in SQLite or PostgreSQL, reached with a driver of the handler's own."""

    def __init__(self, url):
        self.url = url
        with self.connect() as connection:
            connection.execute("DROP TABLE IF EXISTS orders")
            connection.execute("CREATE TABLE orders (name TEXT)")
            idempotency.create_schema(connection)
            connection.commit()

    def connect(self):
        if self.url.startswith("sqlite"):
            return sqlite3.connect(self.url.removeprefix("sqlite:///"))
        return psycopg.connect(self.url)

    def orders(self):
        with self.connect() as connection:
            return connection.execute("SELECT count(*) FROM orders").fetchone()[0]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.server("postgres"))])
def database(request, tmp_path):
    if request.param == "sqlite":
        return Database(f"sqlite:///{tmp_path}/shop.db")
    return Database(emptied(request.getfixturevalue("postgres_module_url")))


@pytest.fixture(params=["the same database", "another store"])
async def once(request, database):
    url = database.url if request.param == "the same database" else "memory://"
    async with AsyncOnce(url, namespace="http", lease="300ms") as once:
        yield once


def handler_of(database, *, fails=None):
    def handler(request):
        connection = database.connect()
        try:
            with connection:
                if database.url.startswith("sqlite"):
                    connection.execute("BEGIN IMMEDIATE")
                with idempotency.transaction(connection) as keep:
                    connection.execute("INSERT INTO orders VALUES ('o-1')")
                    response = keep(JSONResponse({"orders": 1}, 201))
                if fails == "before the commit":
                    raise Crash
            if fails == "after the commit":
                raise Crash
        finally:
            connection.close()
        return response

    async def of_loop(request):
        return handler(request)

    return of_loop


async def test_a_retry_gets_the_recorded_response(database, once):
    async with asked(handler_of(database), once) as client:
        first, again = [await client.post("/orders", headers=KEY) for _ in range(2)]
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.headers["idempotent-replayed"] == "true"
    assert again.content == first.content
    assert database.orders() == 1


async def test_a_crash_after_the_commit_repeats_nothing(database, once):
    async with asked(handler_of(database, fails="after the commit"), once) as client:
        with pytest.raises(Crash):
            await client.post("/orders", headers=KEY)
    assert database.orders() == 1
    async with asked(handler_of(database), once) as client:
        await until_not_busy(client)
        again = await client.post("/orders", headers=KEY)
    assert again.json() == {"orders": 1}
    assert again.headers["idempotent-replayed"] == "true"
    assert database.orders() == 1


async def test_a_crash_before_the_commit_leaves_nothing(database, once):
    async with asked(handler_of(database, fails="before the commit"), once) as client:
        with pytest.raises(Crash):
            await client.post("/orders", headers=KEY)
    assert database.orders() == 0
    async with asked(handler_of(database), once) as client:
        await until_not_busy(client)
        assert (await client.post("/orders", headers=KEY)).json() == {"orders": 1}
    assert database.orders() == 1


async def until_not_busy(client):
    while (await client.post("/orders", headers=KEY)).status_code == 409:
        time.sleep(0.02)  # noqa: ASYNC251 - nothing else is going on


async def test_a_run_that_lost_its_key_cannot_commit(database, once):
    """Another run completes while this one is in its transaction, which can be only if the store lost the claim."""

    async def overtaken(request):
        with (
            pytest.raises(ClaimLost),
            database.connect() as connection,
            idempotency.transaction(connection) as keep,
        ):
            await once.forget(key_for(SHARED, "k"))
            async with asked(handler_of(database), once) as client:
                assert (await client.post("/orders", headers=KEY)).status_code == 201
            connection.execute("INSERT INTO orders VALUES ('too late')")
            keep(JSONResponse({}))
        return JSONResponse({"lost": True})

    async with asked(overtaken, once) as client:
        response = await client.post("/orders", headers=KEY)
    assert response.json() == {"lost": True}
    assert response.headers["idempotency-stored"] == "false"
    assert database.orders() == 1


async def test_another_request_does_not_get_the_recorded_response(database):
    """Though the store has lost the key, which it would have known by."""
    async with (
        AsyncOnce("memory://", lease="300ms") as once,
        asked(handler_of(database), once) as client,
    ):
        for body, status in ((b"one", 201), (b"two", 422), (b"one", 201)):
            response = await client.post("/orders", headers=KEY, content=body)
            assert response.status_code == status, body
            await once.forget(key_for(SHARED, "k"))
    assert response.headers["idempotent-replayed"] == "true"
    assert database.orders() == 1


@pytest.mark.parametrize(
    "response", [StreamingResponse(iter([b"a"])), FileResponse(__file__), {"a": 1}, "text"], ids=type
)
async def test_what_has_no_whole_body_cannot_be_recorded(database, once, response):
    async def handler(request):
        connection = database.connect()
        try:
            connection.execute("INSERT INTO orders VALUES ('o-1')")
            with pytest.raises(ConfigError, match="whole body"), idempotency.transaction(connection) as keep:
                keep(response)
        finally:
            connection.close()
        return JSONResponse({})

    async with asked(handler, once) as client:
        assert (await client.post("/orders", headers=KEY)).status_code == 200
    assert database.orders() == 0


async def test_without_a_key_nothing_is_recorded(database, once):
    async with asked(handler_of(database), once) as client:
        for _ in range(2):
            assert (await client.post("/orders")).status_code == 201
    assert database.orders() == 2


async def test_where_each_statement_would_commit_it_refuses(database, once):
    async def handler(request):
        connection = sqlite3.connect(":memory:", isolation_level=None)
        with pytest.raises(ConfigError, match="no transaction"), idempotency.transaction(connection):
            pass
        connection.close()
        return JSONResponse({})

    async with asked(handler, once) as client:
        assert (await client.post("/orders", headers=KEY)).status_code == 200


async def test_a_response_must_be_handed_over(database, once):
    async def handler(request):
        connection = database.connect()
        try:
            connection.execute("INSERT INTO orders VALUES ('o-1')")
            with pytest.raises(ConfigError, match="keep"), idempotency.transaction(connection):
                pass
        finally:
            connection.close()
        return JSONResponse({})

    async with asked(handler, once) as client:
        assert (await client.post("/orders", headers=KEY)).status_code == 200


async def test_a_session_of_sqlalchemy(tmp_path):
    engine = create_engine(f"sqlite:///{tmp_path}/shop.db")
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE orders (name TEXT)"))
        idempotency.create_schema(connection)

    async def handler(request):
        with sessionmaker(engine).begin() as session, idempotency.transaction(session) as keep:
            session.execute(text("INSERT INTO orders VALUES ('o-1')"))
            return keep(JSONResponse({"paid": True}))

    async with AsyncOnce("memory://") as once, asked(handler, once) as client:
        for _ in range(2):
            assert (await client.post("/orders", headers=KEY)).json() == {"paid": True}
    with engine.begin() as connection:
        assert connection.execute(text("SELECT count(*) FROM orders")).scalar() == 1
    engine.dispose()


@pytest.mark.server("postgres")
async def test_an_async_session_of_sqlalchemy(request):
    url = (
        request.getfixturevalue("postgres_url")
        .replace("postgresql://", "postgresql+asyncpg://")
        .partition("?")[0]
    )
    engine = create_async_engine(url)
    async with engine.begin() as connection:
        await connection.execute(text("CREATE TABLE orders (name TEXT)"))
        await idempotency.create_schema_async(connection)

    async def handler(request):
        async with async_sessionmaker(engine).begin() as session, idempotency.transaction(session) as keep:
            await session.execute(text("INSERT INTO orders VALUES ('o-1')"))
            return keep(JSONResponse({"paid": True}))

    async with AsyncOnce("memory://") as once, asked(handler, once) as client:
        for _ in range(2):
            assert (await client.post("/orders", headers=KEY)).json() == {"paid": True}
    async with engine.begin() as connection:
        assert (await connection.execute(text("SELECT count(*) FROM orders"))).scalar() == 1
    await engine.dispose()
