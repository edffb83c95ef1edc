"""Handlers as users write them, right and wrong, with a count of what they did. The file is where TORTURE_DB says."""

import asyncio
import os
import sqlite3
import subprocess
from collections import Counter
from contextlib import closing

from dupeproof.brokers.base import Reject


def _connected():
    connection = sqlite3.connect(os.environ["TORTURE_DB"], timeout=30, isolation_level=None)
    connection.execute("CREATE TABLE IF NOT EXISTS done (id TEXT)")
    return connection


def naive(message):
    """Every delivery has an effect."""
    with closing(_connected()) as connection:
        connection.execute("INSERT INTO done VALUES (?)", (message.id,))


def forgetful(message):
    """Marks first, works later: one that dies in between loses the message. Here it forgets one in a hundred."""
    if int(message.id[2:]) % 100 != 7:
        careful(message)


def careful(message):
    """Looks and writes in one transaction."""
    with closing(_connected()) as connection:
        connection.execute("BEGIN IMMEDIATE")
        if connection.execute("SELECT 1 FROM done WHERE id = ?", (message.json()["id"],)).fetchone() is None:
            connection.execute("INSERT INTO done VALUES (?)", (message.id,))
        connection.execute("COMMIT")


async def careful_task(message):
    """The same from a coroutine."""
    await asyncio.sleep(0)
    careful(message)


def loud(message):
    """Prints, as handlers do, and so does what it starts."""
    print("working on", message.id)
    subprocess.run(["cat"], check=True)
    careful(message)


def signed(message):
    """Its effect is the process that had it."""
    with closing(_connected()) as connection:
        connection.execute("INSERT INTO done VALUES (?)", (f"pid-{os.getpid()}",))


def stubborn(message):
    """Takes one message at the sixth try, and another one never."""
    if message.id == "m-0000003" and message.attempt < 6:
        raise TimeoutError("not yet")
    if message.id == "m-0000005":
        raise Reject("never this one")
    careful(message)


def broken(message):
    raise SystemExit(3)


def count():
    with closing(_connected()) as connection:
        return Counter(ident for (ident,) in connection.execute("SELECT id FROM done"))


def loud_count():
    print("counting")
    return count()


def not_a_count():
    return 5


def no_count():
    raise LookupError("nothing to count")


not_a_function = 5
