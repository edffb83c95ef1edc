"""What the inbox costs a consumer, beside none at all and beside a transaction for each message, also while some fail; ratios within one run."""

import os
import statistics
import threading
import time
from typing import NamedTuple

import psycopg
import pytest
from brokers_places import PLACES, SERVERS, message, new_queue
from psycopg_pool import ConnectionPool

from dupeproof import Inbox
from dupeproof.brokers.base import Reject
from dupeproof.inbox import Arrival

MESSAGES = int(os.environ.get("BROKER_MESSAGES", "200"))
ROUNDS = int(os.environ.get("BROKER_ROUNDS", "3"))
GOALS = (
    {"batches": 0.75, "failing": 0.5, "one by one": 5.0}
    if ROUNDS >= 5
    else {"batches": 0.4, "failing": 0.0, "one by one": 2.0}
)
"""A short run, as in CI, shows only that nothing went badly wrong; the goals are for `BROKER_ROUNDS=5` and more.

Of batches to plain ones: with none failing, and with one in a hundred; and how many times one by one they are.
"""


class NoInbox(Inbox):
    """The same consumer with no dedup at all."""

    def arrivals(self, connection, message_ids):
        return [Arrival.FIRST for _ in message_ids]

    def confirm(self, connection, message_ids):
        pass

    def unmark(self, connection, message_ids):
        pass


class Candidate(NamedTuple):
    inbox: type[Inbox]
    batch: int = 100
    failing: bool = False


CANDIDATES = {
    "plain": Candidate(NoInbox),
    "plain, 1 % failing": Candidate(NoInbox, failing=True),
    "batches": Candidate(Inbox),
    "batches, 1 % failing": Candidate(Inbox, failing=True),
    "one by one": Candidate(Inbox, batch=1),
}


def bill(message, connection):
    connection.execute("UPDATE balances SET owed = owed + 1 WHERE account = %s", [len(message.body) % 10])


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.server(SERVERS[name])) for name in SERVERS]
)
def test_the_inbox_costs_little_and_batches_gain_much(request, name, postgres_url):
    place = PLACES[name](request.getfixturevalue(f"{SERVERS[name]}_server").url)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE balances (account int PRIMARY KEY, owed int)")
        connection.execute("INSERT INTO balances SELECT n, 0 FROM generate_series(0, 9) n")
        Inbox("any").create_schema(connection)
    seconds: dict[str, list[float]] = {each: [] for each in CANDIDATES}
    with ConnectionPool(postgres_url, min_size=2, max_size=2, open=True) as pool:
        for _ in range(ROUNDS):
            for candidate, options in CANDIDATES.items():
                seconds[candidate].append(consumed(place, options, pool))

    def ratio(candidate: str, to: str) -> float:
        """How fast a candidate is beside another, in the same round."""
        found = sorted(b / a for a, b in zip(seconds[candidate], seconds[to], strict=True))
        print(f"  {candidate} to {to}: {statistics.median(found):.2f} ({found[0]:.2f} to {found[-1]:.2f})")
        return statistics.median(found)

    print(f"\n{name}, {MESSAGES:,} messages, {ROUNDS} rounds")
    for candidate, times in seconds.items():
        print(f"  {candidate}: {MESSAGES / statistics.median(times):,.0f}/s")
    assert ratio("batches", "plain") >= GOALS["batches"]
    assert ratio("batches, 1 % failing", "plain") >= GOALS["failing"]
    ratio("batches, 1 % failing", "plain, 1 % failing")
    assert ratio("batches", "one by one") >= GOALS["one by one"]


def consumed(place, options, pool) -> float:
    """Seconds for all messages, at the pace from the first one done to the last, of those that were there before it began.

    Where some fail, from the first dead letter on: to open the way for it takes Kafka half a second, and only once.
    """
    queue = new_queue()
    place.declare(queue)
    if place.name == "kafka":
        place.declare(f"{queue}.dead")  # which takes longer than all the rest, and only once
    bodies = [b"bad" if options.failing and n % 100 == 37 else b"x" * (n % 10) for n in range(MESSAGES)]
    for start in range(0, MESSAGES, 1_000):
        part = enumerate(bodies[start : start + 1_000], start)
        assert not any(place.publish(*(message(queue, f"{queue}-{n}", body) for n, body in part)))
    times: list[tuple[float, int]] = []

    def handle(message, connection):
        bill(message, connection)
        if message.body == b"bad":
            raise Reject("as planned")
        times.append((time.perf_counter(), consumer.tally.dead))

    inbox = options.inbox(queue, database=pool)
    consumer = place.consumer(queue, handle, inbox=inbox, batch=options.batch)
    thread = threading.Thread(target=consumer.run)
    thread.start()
    while consumer.tally.done + consumer.tally.dead < MESSAGES and not consumer.tally.retried:
        time.sleep(0.01)
    consumer.stop()
    thread.join()
    assert consumer.tally.dead == bodies.count(b"bad")
    assert consumer.tally.done == MESSAGES - consumer.tally.dead
    counted = [at for at, dead in times if dead or not options.failing]
    return (counted[-1] - counted[0]) / len(counted) * MESSAGES
