"""What a look costs while a transaction stays open, counted in pages: what was sent since is not walked over."""

import threading

import psycopg
import pytest

from dupeproof import Outbox, Relay

WARM, ROUNDS, EACH = 15, 60, 60
PAGES = """
    SELECT (sum(shared_blks_hit + shared_blks_read) / sum(calls))::bigint FROM pg_stat_statements
    WHERE query LIKE 'SELECT%%dupeproof_outbox_take%%' OR query LIKE 'SELECT%%dupeproof_outbox_settle%%'
"""


class Shop:
    """A database of its own, messages, and how many pages a relay touches to send them."""

    def __init__(self, url, **options):
        self.connection = psycopg.connect(url)
        self.watching = psycopg.connect(url, autocommit=True)
        self.watching.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        self.outbox = Outbox(notify=False)
        self.outbox.create_schema(self.connection)
        self.connection.commit()
        self.url = url
        self.got = []
        self.number = 0
        self.relay = Relay(url, publisher=lambda message: self.got.append(message.json()), **options)

    def add(self, count, **options):
        rows = []
        for _ in range(count):
            rows.append({"topic": "t", "payload": self.number, "key": f"k{self.number % 97}", **options})
            self.number += 1
        self.outbox.add_many(self.connection, rows)
        self.connection.commit()

    def send(self, **options):
        """Pages that each of its statements touched while it sent a round of messages."""
        self.watching.execute("SELECT pg_stat_statements_reset()")
        self.add(EACH, **options)
        while len(self.got) < self.number:
            self.relay.run_once()
        [(pages,)] = self.watching.execute(PAGES).fetchall()
        return pages

    def close(self):
        self.relay.close()
        self.connection.close()
        self.watching.close()


@pytest.fixture
def shop(own_postgres):
    made = Shop(own_postgres().url)
    yield made
    made.close()


def reading(shop):
    old = psycopg.connect(shop.url)
    old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    old.execute("SELECT count(*), pg_current_xact_id() FROM pg_class")
    return old


def producing(shop):
    """It has the smallest number of all, and commits last."""
    old = psycopg.connect(shop.url)
    shop.outbox.add(old, topic="t", payload="late", key="late")
    return old


@pytest.mark.parametrize("vacuumed", [False, True])
@pytest.mark.parametrize("options", [{}, {"delay": "1ms"}], ids=["at once", "delayed"])
@pytest.mark.parametrize("held", [reading, producing])
def test_a_look_costs_the_same_however_much_was_sent_since_a_transaction_began(shop, held, options, vacuumed):
    with held(shop) as old:
        for _ in range(WARM):
            shop.send(**options)
        first = min(shop.send(**options) for _ in range(3))
        for _ in range(ROUNDS):
            shop.send(**options)
        if vacuumed:  # it removes nothing, and statements are planned anew
            shop.watching.execute("VACUUM ANALYZE")
        last = min(shop.send(**options) for _ in range(3))
        old.rollback()
    assert last < 1.5 * first, "it walks over what was sent before"


def test_one_that_commits_late_is_sent_before_what_is_added_after(shop):
    with psycopg.connect(shop.url) as late:
        shop.outbox.add(late, topic="t", payload="late", key="k")
        for _ in range(5):
            shop.send()
        late.commit()
    shop.outbox.add(shop.connection, topic="t", payload="after", key="k")
    shop.connection.commit()
    shop.got.clear()
    shop.relay.run_once()
    assert shop.got == ["late", "after"]


def test_many_that_commit_in_any_order_are_all_sent_in_their_order(shop):
    """Each thread adds to keys of its own, some transactions staying open over many looks."""
    done = threading.Event()

    def produce(thread):
        with psycopg.connect(shop.url) as connection, psycopg.connect(shop.url) as slow:
            for number in range(60):
                if number % 20 == 0:
                    slow.commit()
                    shop.outbox.add(slow, topic="t", payload=["slow", thread, number], key=f"slow{thread}")
                shop.outbox.add(connection, topic="t", payload=["fast", thread, number], key=f"fast{thread}")
                connection.commit()
            slow.commit()

    def relay():
        while not done.is_set():
            shop.relay.run_once()

    threads = [threading.Thread(target=produce, args=(number,)) for number in range(4)]
    relaying = threading.Thread(target=relay)
    for each in (relaying, *threads):
        each.start()
    for each in threads:
        each.join()
    done.set()
    relaying.join()
    shop.relay.run_once()
    for thread in range(4):
        of = [each for each in shop.got if each[1] == thread]
        assert [number for kind, _, number in of if kind == "fast"] == list(range(60))
        assert [number for kind, _, number in of if kind == "slow"] == [0, 20, 40]


def test_numbers_that_begin_anew_are_found(shop):
    """As after tables were emptied, or a backup was restored, with the marks left as they were."""
    shop.send()
    shop.connection.execute("TRUNCATE dupeproof_outbox RESTART IDENTITY")
    shop.add(1)
    shop.got.clear()
    with Relay(shop.url, publisher=lambda message: shop.got.append(message.json())) as fresh:
        fresh.run_once()
    assert shop.got == [shop.number - 1]


def test_what_waited_for_its_key_is_found_when_the_wait_is_over(own_postgres):
    bad, got = {"first"}, []

    def publish(message):
        if message.json() in bad:
            raise ValueError
        got.append(message.json())

    shop = Shop(own_postgres().url)
    with Relay(shop.url, publisher=publish, backoff="300ms") as relay:
        for payload in ("first", "second"):
            shop.outbox.add(shop.connection, topic="t", payload=payload, key="k0")
        shop.connection.commit()
        relay.run_once()
        for _ in range(5):
            shop.add(EACH)
            relay.run_once()
        bad.clear()
        while len(got) < 5 * EACH + 2:
            relay.run_once()
    of_key = [each for each in got if isinstance(each, str) or each % 97 == 0]
    assert of_key == ["first", "second", *(n for n in range(5 * EACH) if n % 97 == 0)]
    shop.close()
