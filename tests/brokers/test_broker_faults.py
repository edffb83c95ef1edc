"""Consumers that are killed, a broker that restarts, a database that goes away: nothing lost, nothing twice."""

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from brokers_ledgers import PostgresLedger
from brokers_places import PLACES, SERVERS, message, new_queue

from dupeproof.brokers.errors import BrokerUnavailable

WORKER = Path(__file__).with_name("brokers_worker.py")
KINDS = {"rabbitmq": "sync", "redis_streams": "async", "nats": "async", "kafka": "sync"}
OTHERS = {name: "async" if kind == "sync" else "sync" for name, kind in KINDS.items()}
"""Threads here, tasks there: processes take their time to start."""
REAL = [pytest.param(name, marks=pytest.mark.server(SERVERS[name], "postgres")) for name in SERVERS]


@pytest.fixture
def ledger(postgres_module_url):
    ledger = PostgresLedger(postgres_module_url)
    ledger.empty()
    return ledger


@pytest.fixture
def worker(ledger):
    """Start consumers as processes of their own; what is left of them ends with the test."""
    started = []

    def start(name, place, queue, kind, pause=0.01):
        command = [sys.executable, WORKER, name, place.url, queue, ledger.url, kind, str(pause)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("name", REAL)
def test_consumers_killed_again_and_again_lose_and_double_nothing(request, name, ledger, worker, until):
    kind = KINDS[name]
    place = PLACES[name](request.getfixturevalue(f"{SERVERS[name]}_server").url)
    queue = new_queue()
    place.declare(queue)
    chance = random.Random(7)
    messages = [message(queue, f"m-{n}", key=f"k-{n % 7}") for n in range(90)]
    again = chance.sample(messages, 20)
    assert place.publish(*messages) == [None] * 90
    assert place.publish_again(*again) == [None] * 20
    workers = [worker(name, place, queue, kind, 0.04) for _ in range(2)]
    kills = 0
    while (done := len(ledger.rows())) < 60:
        until(lambda done=done: len(ledger.rows()) >= done + 12, ledger.counts)
        victim = workers.pop(0)
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        workers.append(worker(name, place, queue, kind, 0.04))
        kills += 1
    assert kills >= 2
    until(lambda: len(ledger.rows()) >= 90, lambda: len(ledger.rows()))
    time.sleep(0.5)  # what would come twice, comes now
    assert ledger.counts() == Counter(each.id for each in messages)


@pytest.mark.parametrize("name", REAL)
def test_sigterm_ends_the_work_under_way_and_nothing_else(request, name, ledger, worker, until):
    kind = OTHERS[name]
    place = PLACES[name](request.getfixturevalue(f"{SERVERS[name]}_server").url)
    queue = new_queue()
    place.declare(queue)
    place.publish(*(message(queue, f"m-{n}") for n in range(40)))
    process = worker(name, place, queue, kind, 0.05)
    until(lambda: len(ledger.rows()) >= 8, ledger.counts)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    done = int(process.stdout.read().split()[-1])
    assert done == len(ledger.rows()) < 40
    worker(name, place, queue, kind)
    until(lambda: len(ledger.rows()) >= 40, ledger.counts)
    assert ledger.counts() == Counter(f"m-{n}" for n in range(40))


@pytest.mark.parametrize("name", REAL)
@pytest.mark.timeout(180)
def test_the_broker_restarts_in_the_middle(request, name, ledger, run, until):
    """Once killed, once stopped properly; with a publisher and consumers of both kinds that carry on by themselves."""
    options = {"appendonly": True} if name == "redis_streams" else {}
    server = request.getfixturevalue(f"own_{SERVERS[name]}")(**options)
    place = PLACES[name](server.url)
    queue = new_queue()
    place.declare(queue)
    runs = [
        run(
            place.consumer(
                queue,
                ledger.write_async if is_async else ledger.write,
                inbox=ledger.inbox(is_async=is_async, group=queue),
                backoff="100ms",
                max_backoff="500ms",
            )
        )
        for is_async in (False, True)
    ]
    publisher = place.publisher()

    def publish(number):
        """As a relay does: what is not confirmed is sent again."""
        while True:
            try:
                if publisher.publish([message(queue, f"m-{number}", key="k")]) == [None]:
                    return
            except BrokerUnavailable:
                time.sleep(0.1)

    for number in range(20):
        publish(number)
    until(lambda: len(ledger.rows()) >= 10, ledger.counts)
    server.kill()
    server.start()
    for number in range(20, 40):
        publish(number)
    until(lambda: len(ledger.rows()) >= 40, lambda: (len(ledger.rows()), [each.tally for each in runs]))
    server.restart()
    for number in range(40, 60):
        publish(number)
    until(lambda: len(ledger.rows()) >= 60, lambda: (len(ledger.rows()), [each.tally for each in runs]))
    publisher.close()
    for each in runs:
        each.stop()
    assert ledger.counts() == Counter(f"m-{n}" for n in range(60))


@pytest.mark.parametrize("name", [each for each in REAL if each.values[0] in ("rabbitmq", "kafka")])
def test_a_database_that_goes_away_blames_no_message(request, name, own_postgres, run, until):
    place = PLACES[name](request.getfixturevalue(f"{SERVERS[name]}_server").url)
    database = own_postgres()
    ledger = PostgresLedger(database.url)
    queue = new_queue()
    place.declare(queue)
    inbox = ledger.inbox(is_async=False, group=queue)
    running = run(place.consumer(queue, ledger.write, inbox=inbox, max_attempts=2, backoff="100ms"))
    place.publish(message(queue, "before"))
    until(lambda: running.tally.done == 1)
    database.kill()
    place.publish(*(message(queue, f"m-{n}") for n in range(20)))
    time.sleep(1.0)
    database.start()
    until(lambda: running.tally.done == 21, lambda: running.tally)
    running.stop()
    assert running.tally.dead == running.tally.retried == 0
    assert ledger.counts() == Counter(["before", *(f"m-{n}" for n in range(20))])
