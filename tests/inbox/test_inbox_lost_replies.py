"""A COMMIT whose reply never came may or may not have happened; the retry finds out."""

import dataclasses

import pytest

from dupeproof import Inbox
from support.places import kinds, run_on, settled
from support.proxy import Proxy


@kinds(
    "psycopg",
    "async asyncpg",
    "async sqlalchemy psycopg",
    "django postgresql",
    "sqlalchemy pymysql",
    "async sqlalchemy aiomysql",
    "django mysql",
)
@pytest.mark.parametrize("what", ["reply", "request"])
async def test_the_retry_after_a_lost_commit_knows_whether_it_happened(place, what):
    await place.make_schema()
    place.sql("CREATE TABLE balance (amount integer)", "INSERT INTO balance VALUES (0)")
    proxy = Proxy(place.url)
    through = dataclasses.replace(place, url=proxy.url)
    inbox = place.inbox()

    async def handle(at):
        async with at.transaction() as connection:
            first = await settled(inbox.first(connection, "m-1"))
            if first:
                await run_on(connection, "UPDATE balance SET amount = amount + 1")
            if at is through:
                proxy.lose(what, b"COMMIT")
        return first

    try:
        with pytest.raises(Exception, match=r"(?i)connection|closed|lost"):
            await handle(through)
        assert proxy.lost.is_set()
    finally:
        proxy.close()
    assert await handle(place) is (what == "request")
    assert place.sql("SELECT amount FROM balance") == [(1,)]


@kinds("psycopg", "sqlalchemy pymysql")
@pytest.mark.parametrize("what", ["reply", "request"])
async def test_so_does_that_of_a_transaction_the_inbox_opened(place, what):
    await place.make_schema()
    place.sql("CREATE TABLE balance (amount integer)", "INSERT INTO balance VALUES (0)")
    proxy = Proxy(place.url)

    def handle(url, *, losing):
        inbox = Inbox("billing", database=url)
        with inbox.transaction() as connection:
            first = inbox.first(connection, "m-1")
            if first:
                getattr(connection, "exec_driver_sql", connection.execute)(
                    "UPDATE balance SET amount = amount + 1"
                )
            if losing:
                proxy.lose(what, b"COMMIT")
        return first

    try:
        with pytest.raises(Exception, match=r"(?i)connection|closed|lost"):
            handle(proxy.url, losing=True)
        assert proxy.lost.is_set()
    finally:
        proxy.close()
    assert handle(place.url, losing=False) is (what == "request")
    assert place.sql("SELECT amount FROM balance") == [(1,)]
