"""Connections to the URL of an inbox are kept for the next transaction, and replaced where they were lost."""

import asyncio
import os
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from dupeproof import AsyncInbox, ConfigError, Inbox
from support.places import kinds, settled

SERVERS = ("psycopg", "sqlalchemy pymysql")
MINE = {
    "postgresql": "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    " AND backend_type = 'client backend'",
    "mysql": "SELECT id FROM information_schema.processlist WHERE db = database() AND id <> connection_id()",
}
END = {"postgresql": "SELECT pg_terminate_backend({})", "mysql": "KILL {}"}
SCHEMES = {
    "postgresql": ["postgresql", "postgresql+psycopg", "postgresql+asyncpg"],
    "mysql": ["mysql", "mariadb+aiomysql"],
}


@pytest.fixture
def until():
    def wait(condition):
        deadline = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.02)

    return wait


def connections_of(place):
    return {number for (number,) in place.sql(MINE[place.dialect])}


def end_all(place):
    """As a restart of the server does, or something in between that drops connections."""
    for number in connections_of(place):
        place.sql(END[place.dialect].format(number))


def urls(place):
    rest = place.url.partition("://")[2]
    return [f"{scheme}://{rest}" for scheme in SCHEMES[place.dialect]]


def mark(inbox, message_id):
    with inbox.transaction() as connection:
        return inbox.first(connection, message_id)


async def mark_async(inbox, message_id):
    async with inbox.transaction() as connection:
        return await inbox.first(connection, message_id)


@kinds(*SERVERS)
async def test_one_connection_serves_one_transaction_after_the_other(place, until):
    await place.make_schema()
    until(lambda: not connections_of(place))
    for url in urls(place):
        for kind, marked in ((Inbox, mark), (AsyncInbox, mark_async)):
            inbox = kind(kind.__name__, database=url)
            used = set()
            for number in range(5):
                assert await settled(marked(inbox, f"{url} {number}")) is True
                used |= connections_of(place)
            assert len(used) == 1
            with pytest.raises(ZeroDivisionError):
                if kind is Inbox:
                    with inbox.transaction() as connection:
                        inbox.first(connection, f"{url} undone")
                        1 // 0
                else:
                    async with inbox.transaction() as connection:
                        await inbox.first(connection, f"{url} undone")
                        1 // 0
            assert await settled(marked(inbox, f"{url} undone")) is True
            await settled(inbox.close())
            await settled(inbox.close())
            until(lambda: not connections_of(place))
            assert await settled(marked(inbox, f"{url} again")) is True
            await settled(inbox.close())


@kinds(*SERVERS)
async def test_those_that_were_lost_are_replaced_before_the_transaction_begins(place, until):
    await place.make_schema()
    for url in urls(place):
        inbox, for_tasks = Inbox("threads", database=url), AsyncInbox("tasks", database=url)
        with ThreadPoolExecutor(4) as pool:
            barrier = threading.Barrier(4)

            def together(number, inbox=inbox, barrier=barrier, url=url):
                with inbox.transaction() as connection:
                    barrier.wait(20)
                    return inbox.first(connection, f"{url} {number}")

            assert all(pool.map(together, range(4)))
        assert len(connections_of(place)) == 4
        assert await mark_async(for_tasks, f"{url} 0")
        await asyncio.sleep(1.1)  # MariaDB's are only asked after a second
        end_all(place)
        until(lambda: not connections_of(place))
        for number in range(4, 8):
            assert mark(inbox, f"{url} {number}") is True
            assert await mark_async(for_tasks, f"{url} {number}") is True
        inbox.close()
        await for_tasks.close()


@kinds("psycopg")
async def test_no_more_are_kept_than_the_url_says(place, until):
    await place.make_schema()
    with Inbox("billing", database=f"{place.url}?pool=2") as inbox:
        barrier = threading.Barrier(5)

        def together(number):
            with inbox.transaction() as connection:
                barrier.wait(20)
                return inbox.first(connection, number)

        with ThreadPoolExecutor(5) as pool:
            assert all(pool.map(together, range(5)))
        until(lambda: len(connections_of(place)) == 2)
    until(lambda: not connections_of(place))
    with pytest.raises(ConfigError, match="pool must be"):
        mark(Inbox("billing", database=f"{place.url}?pool=0"), "m-1")


PROGRAM = """
import asyncio, os, sys, warnings
from dupeproof import AsyncInbox, Inbox

def mark(inbox, message_id):
    with inbox.transaction() as connection:
        return inbox.first(connection, message_id)

async def mark_async(inbox, message_id):
    async with inbox.transaction() as connection:
        return await inbox.first(connection, message_id)

inbox, for_tasks = Inbox("threads", database=sys.argv[1]), AsyncInbox("tasks", database=sys.argv[1])
assert mark(inbox, "m-1") and asyncio.run(mark_async(for_tasks, "m-1"))
child = os.fork()
assert mark(inbox, f"m-2-{child == 0}") and asyncio.run(mark_async(for_tasks, f"m-2-{child == 0}"))
assert not mark(inbox, "m-1")
if child:
    assert os.waitpid(child, 0)[1] == 0
    assert mark(inbox, "m-3") and asyncio.run(mark_async(for_tasks, "m-3"))
"""


@kinds(*SERVERS)
def test_neither_a_fork_nor_one_that_is_not_closed_does_any_harm(place):
    """A child that closed what it has inherited would end its parent's conversation."""
    asyncio.run(place.make_schema())
    for number, url in enumerate(urls(place)):
        if number:
            place.sql("DELETE FROM dupeproof_inbox")
        ran = subprocess.run(
            [sys.executable, "-W", "error", "-c", textwrap.dedent(PROGRAM), url],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "PYTHONASYNCIODEBUG": ""},
        )
        assert (ran.returncode, ran.stderr) == (0, ""), url


@pytest.mark.server("postgres", "pgbouncer")
@pytest.mark.parametrize("scheme", ["postgresql", "postgresql+psycopg"])
def test_a_pooler_in_transaction_mode_may_stand_in_between(own_pgbouncer, postgres_url, scheme):
    """Ten times the same statement on a kept connection: a driver would prepare it by then, with one of several servers."""
    pooled = own_pgbouncer(postgres_url)
    with Inbox("billing", database=f"{scheme}://{pooled.url.partition('://')[2]}") as inbox:
        with inbox.transaction() as connection:
            inbox.create_schema(connection)
        with ThreadPoolExecutor(4) as pool:
            for turn in range(10):
                assert all(pool.map(lambda number, turn=turn: mark(inbox, f"{turn}-{number}"), range(8)))
