"""A relay at work while one transaction stays open: per minute what was sent, the pages a look touched, and the lag.

A database keeps what was deleted for as long as a transaction is open that may still see it. `make relay-horizon` holds one
open for six minutes and ends with 1 if in the last of them less than 95 % was sent, of what was added, than in the first.
"""

import argparse
import multiprocessing
import sqlite3
import sys
import tempfile
import threading
import time
from pathlib import Path

import psycopg
from outbox_boxes import connect_to_mariadb

from dupeproof import Outbox, Relay
from dupeproof.core.events import Event, Kind
from dupeproof_lab.servers import MariaDB, Postgres

KEPT = 0.95
THREADS, KEYS = 4, 1_000
HEAD = "minute  added/s  sent/s  takes/s  pages/take  longest lag s  backlog"
processes = multiprocessing.get_context("spawn")


def connect(url: str):
    if url.startswith("postgresql"):
        return psycopg.connect(url)
    if url.startswith("sqlite"):
        return sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30)
    return connect_to_mariadb(url)


def produce(url: str, rate: float, added, stop) -> None:
    """At that rate; what could not be added in time is not made up for."""
    outbox = Outbox()

    def add(shard: int) -> None:
        connection, due, number = connect(url), time.monotonic(), 0
        while not stop.is_set():
            outbox.add(connection, topic="t", payload={"n": number}, key=f"k{(number * 7 + shard) % KEYS}")
            connection.commit()
            number += 1
            with added.get_lock():
                added.value += 1
            due = max(due + THREADS / rate, time.monotonic() - 1)
            time.sleep(max(0.0, due - time.monotonic()))
        connection.close()

    threads = [threading.Thread(target=add, args=(shard,)) for shard in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def relay(url: str, sent, batches, lag, stop) -> None:
    def listen(event: Event) -> None:
        if event.kind is Kind.SENT:
            sent.value += event.count
            batches.value += 1
            lag.value = max(lag.value, event.seconds or 0.0)

    running = Relay(url, publisher=lambda message: None, events=[listen])
    threading.Thread(target=lambda: (stop.wait(), running.stop()), daemon=True).start()
    running.run()


def hold(url: str, kind: str):
    """A transaction that reads, or one that has added a message, and is not ended."""
    if kind == "none":
        return None
    connection = connect(url)
    cursor = connection.cursor()
    if kind == "producer":
        Outbox(notify=False).add(connection, topic="t", payload="late", key="late")
    elif url.startswith("postgresql"):
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        cursor.execute("SELECT count(*), pg_current_xact_id() FROM dupeproof_outbox")
    elif url.startswith("sqlite"):
        cursor.execute("BEGIN")
        cursor.execute("SELECT count(*) FROM dupeproof_outbox").fetchall()
    else:
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        cursor.execute("SELECT count(*) FROM dupeproof_outbox")
    return connection


def pages(url: str, watching, batches: int) -> tuple[int, int]:
    """Looks so far, and pages touched for them; on MariaDB batches, and pages touched by everybody. SQLite does not tell."""
    cursor = watching.cursor()
    if url.startswith("postgresql"):
        cursor.execute(
            "SELECT coalesce(sum(calls), 0)::bigint, coalesce(sum(shared_blks_hit + shared_blks_read), 0)::bigint"
            " FROM pg_stat_statements WHERE query LIKE 'SELECT%dupeproof_outbox_take%'"
        )
    elif url.startswith("sqlite"):
        return batches, 0
    else:
        cursor.execute(
            f"SELECT {batches}, variable_value FROM information_schema.global_status"
            " WHERE variable_name = 'innodb_buffer_pool_read_requests'"
        )
    [(looks, touched)] = cursor.fetchall()
    watching.commit()
    return int(looks), int(touched)


def measure(url: str, rate: float, minutes: int, seconds: float, kind: str) -> list[tuple[float, float]]:
    connection = connect(url)
    Outbox().create_schema(connection)
    if url.startswith("postgresql"):
        connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
    connection.commit()
    added, sent, batches = (processes.Value("q", 0) for _ in range(3))
    lag, stop = processes.Value("d", 0.0), processes.Event()
    children = [
        processes.Process(target=produce, args=(url, rate, added, stop)),
        processes.Process(target=relay, args=(url, sent, batches, lag, stop)),
    ]
    for child in children:
        child.start()
    rates = []
    try:
        while batches.value < 10:
            assert all(child.is_alive() for child in children), "a child did not start"
            time.sleep(0.1)
        holder = hold(url, kind)
        print(HEAD, flush=True)
        for minute in range(1, minutes + 1):
            before = added.value, sent.value, *pages(url, connection, batches.value)
            lag.value, began = 0.0, time.monotonic()
            time.sleep(seconds)
            took = time.monotonic() - began
            after = added.value, sent.value, *pages(url, connection, batches.value)
            new = [now - then for now, then in zip(after, before, strict=True)]
            rates.append((new[0] / took, new[1] / took))
            print(
                f"{minute:6}  {new[0] / took:7,.0f}  {new[1] / took:6,.0f}  {new[2] / took:7,.1f}"
                f"  {new[3] / max(1, new[2]):10,.0f}  {lag.value:13.2f}  {added.value - sent.value:7,}",
                flush=True,
            )
        if holder is not None:
            holder.rollback()
            holder.close()
    finally:
        stop.set()
        for child in children:
            child.join(30)
    return rates


def started(database: str):
    """With a vacuum that comes often: it can remove nothing, but statements are planned anew after it."""
    return Postgres(settings={"autovacuum_naptime": "5s"}) if database == "postgres" else MariaDB()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=["postgres", "mariadb", "sqlite"], default="postgres")
    parser.add_argument("--held", choices=["reader", "producer", "none"], default="reader")
    parser.add_argument("--rate", type=float, default=800)
    parser.add_argument("--minutes", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=60, help="of a minute")
    given = parser.parse_args()
    print(f"{given.database}, {given.rate:g} messages a second, held open: {given.held}")
    with tempfile.TemporaryDirectory() as folder:
        how = given.rate, given.minutes, given.seconds, given.held
        if given.database == "sqlite":
            rates = measure(f"sqlite:///{Path(folder) / 'shop.db'}", *how)
        else:
            with started(given.database) as server:
                rates = measure(server.url, *how)
    (added_first, sent_first), (added_last, sent_last) = rates[0], rates[-1]
    plain = sent_last / sent_first
    kept = plain * added_first / added_last
    print(f"sent in the last minute: {plain:.2f} of the first; for what was added in each: {kept:.2f}")
    return 0 if kept >= KEPT else 1


if __name__ == "__main__":
    sys.exit(main())
