"""What the inbox costs a consumer, beside none at all and beside a transaction for each message; ratios within one run."""

import os
import statistics
import threading
import time

import psycopg
import pytest
from brokers_places import PLACES, SERVERS, message, new_queue
from psycopg_pool import ConnectionPool

from dupeproof import Inbox
from dupeproof.inbox import Arrival

MESSAGES = int(os.environ.get("BROKER_MESSAGES", "200"))
ROUNDS = int(os.environ.get("BROKER_ROUNDS", "3"))
GOALS = (0.7, 5.0) if ROUNDS >= 5 else (0.4, 2.5)
"""A short run, as in CI, shows only that nothing went badly wrong; the goals are for `BROKER_ROUNDS=5` and more."""


class NoInbox(Inbox):
    """The same consumer with no dedup at all."""

    def arrivals(self, connection, message_ids):
        return [Arrival.FIRST for _ in message_ids]

    def confirm(self, connection, message_ids):
        pass


CONTENDERS = {"none": (NoInbox, 100), "batches": (Inbox, 100), "one by one": (Inbox, 1)}


def bill(message, connection):
    connection.execute("UPDATE balances SET owed = owed + 1 WHERE account = %s", [len(message.body) % 10])


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.server(SERVERS[name])) for name in ("rabbitmq", "kafka")]
)
def test_the_inbox_costs_little_and_batches_gain_much(request, name, postgres_url):
    place = PLACES[name](request.getfixturevalue(f"{SERVERS[name]}_server").url)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE balances (account int PRIMARY KEY, owed int)")
        connection.execute("INSERT INTO balances SELECT n, 0 FROM generate_series(0, 9) n")
        Inbox("any").create_schema(connection)
    seconds: dict[str, list[float]] = {each: [] for each in CONTENDERS}
    with ConnectionPool(postgres_url, min_size=2, max_size=2, open=True) as pool:
        for _ in range(ROUNDS):
            for contender, (kind, batch) in CONTENDERS.items():
                seconds[contender].append(consumed(place, kind, batch, pool))
    medians = {each: statistics.median(times) for each, times in seconds.items()}
    to_none = statistics.median(a / b for a, b in zip(seconds["none"], seconds["batches"], strict=True))
    to_single = statistics.median(
        a / b for a, b in zip(seconds["one by one"], seconds["batches"], strict=True)
    )
    rates = ", ".join(f"{each} {MESSAGES / median:,.0f}/s" for each, median in medians.items())
    print(f"\n{name}: {rates}; {to_none:.2f} of none, {to_single:.1f} times one by one")
    print({each: [round(MESSAGES / t) for t in times] for each, times in seconds.items()})
    assert to_none >= GOALS[0]
    assert to_single >= GOALS[1]


def consumed(place, kind, batch, pool) -> float:
    """Seconds from the first message done to the last, of those that were there before it began."""
    queue = new_queue()
    place.declare(queue)
    assert not any(place.publish(*(message(queue, f"{queue}-{n}", b"x" * (n % 10)) for n in range(MESSAGES))))
    times: list[float] = []

    def handle(message, connection):
        bill(message, connection)
        times.append(time.perf_counter())

    consumer = place.consumer(queue, handle, inbox=kind(queue, database=pool), batch=batch)
    thread = threading.Thread(target=consumer.run)
    thread.start()
    while consumer.tally.done < MESSAGES and not consumer.tally.retried:
        time.sleep(0.01)
    consumer.stop()
    thread.join()
    assert consumer.tally.done == MESSAGES
    return times[-1] - times[0]
