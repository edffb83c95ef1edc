"""A store with something of everything in it."""

import os
import re
import sqlite3
import time
from contextlib import closing
from html import unescape

import pytest

from dupeproof import Done, Inbox, NotDone, Once, Outbox, Relay, Unknown, step
from dupeproof.core.records import ClaimRequest, Terms
from dupeproof.keys.names import key_digest
from dupeproof.stores import open_store

TOKEN = "a-token-for-the-console"
EVIL = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"


def digest_of(key, namespace="default"):
    return key_digest(namespace)(key).hex()


def words(answer):
    """Of a page, as a person reads them."""
    return " ".join(unescape(re.sub("<[^>]+>", " ", answer.text)).split())


def address(folder):
    return f"sqlite:///{folder}/dedup.db?synchronous=normal"


def fill(folder):
    """An SQLite file with a key in each state, duplicates of an inbox, and a dead message."""
    url = address(folder)
    with Once(url) as once:
        once.seen("marked")
        once.run("done", lambda: {"receipt": "secret-receipt-17"})
        once.run(EVIL, lambda: EVIL)
    for key, attempts in (("failed", None), ("dead", 1)):
        with Once(url, max_attempts=attempts) as once, pytest.raises(ZeroDivisionError):
            once.run(key, lambda: 1 / 0)
    held(url, "held")
    claimed(url, "running", Terms("default", lease=86_400_000, window=86_400_000))
    with closing(sqlite3.connect(f"{folder}/dedup.db", isolation_level=None)) as connection:
        late(connection)
        dead_message(connection, url)


def held(url, key):
    claimed(url, key, Terms("default", lease=1, window=86_400_000, hold=True))
    with Once(url) as once:
        while once.get(key).state != "held":
            time.sleep(0.002)


def claimed(url, key, terms):
    with closing(open_store(url)) as store:
        store.claim([ClaimRequest(key_digest("default")(key), os.urandom(8), terms)])


def late(connection):
    inbox = Inbox("shipping")
    inbox.create_schema(connection)
    for message in ("a", "a", "b", "b", "b", "c"):
        connection.execute("BEGIN IMMEDIATE")
        inbox.first(connection, message)
        connection.execute("COMMIT")


def dead_message(connection, url):
    outbox = Outbox()
    outbox.create_schema(connection)
    connection.execute("BEGIN IMMEDIATE")
    message = outbox.add(connection, topic=EVIL, key="customer-7", payload=b"secret-payload")
    connection.execute("COMMIT")

    def refuse(message):
        raise ValueError(EVIL)

    with Relay(url, publisher=refuse, max_attempts=1) as relay:
        relay.run_once()
    return message


def charges_in_doubt(url, count=4):
    """Held calls of a function with a name, a kept key and steps, as a provider that does not answer leaves them."""

    def pay(order, number):
        step("reserve", lambda: order)
        step("charge", refuse, TimeoutError if number % 2 else ConnectionError)

    def refuse(error):
        raise error("nobody knows")

    with Once(url, namespace="shop", window="7d", keep_keys=True, on_error="hold") as once:
        guarded = once(key="order", name="shop.pay", fingerprint=False)(pay)
        for number in range(count):
            with pytest.raises((TimeoutError, ConnectionError)):
                guarded(f"order-{number}", number)


def lookup(entry):
    """What the provider says of the charges in doubt."""
    match entry.key:
        case None:
            return Unknown()
        case "shop.pay:order-0":
            return Done({"receipt": 17})
        case "shop.pay:order-1":
            return NotDone()
        case "shop.pay:order-2":
            return Unknown()
    raise ConnectionError("the provider is away")
