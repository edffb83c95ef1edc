"""A COMMIT whose reply never came may or may not have happened; the retry finds out."""

import dataclasses

import pytest

from support.places import kinds, settled
from support.proxy import Proxy


@kinds("psycopg", "sqlalchemy pymysql", "async asyncpg", "async sqlalchemy psycopg")
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
                text = "UPDATE balance SET amount = amount + 1"
                await settled(getattr(connection, "exec_driver_sql", connection.execute)(text))
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
