"""A message that kills its consumer each time is dead-lettered, whoever counts; those that were fetched with it are not."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from brokers_ledgers import PostgresLedger
from brokers_places import PLACES, SERVERS, message, new_queue

WORKER = Path(__file__).with_name("brokers_killed.py")
REAL = [pytest.param(name, marks=pytest.mark.server(SERVERS[name], "postgres")) for name in SERVERS]
PATIENCE = 60


@pytest.fixture
def ledger(postgres_module_url):
    ledger = PostgresLedger(postgres_module_url)
    ledger.empty()
    return ledger


def deaths(place, name, queue, ledger, kind, attempts, until_done):
    """Start consumers one after the other, as a supervisor does, until all is done; how often one died."""
    died = 0
    give_up = time.monotonic() + PATIENCE
    while True:
        command = [sys.executable, WORKER, name, place.url, queue, ledger.url, kind, str(attempts)]
        process = subprocess.Popen(command)
        try:
            while process.poll() is None and not until_done():
                assert time.monotonic() < give_up, f"{died} died, {len(ledger.rows())} done"
                time.sleep(0.05)
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                assert process.wait(30) == 0
                return died
            assert process.returncode == -signal.SIGKILL
            died += 1
        finally:
            process.kill()
            process.wait()


def dead_of(place, queue, run, until):
    from dupeproof import Once

    found = []
    reader = run(place.consumer(f"{queue}.dead", found.append, once=Once("memory://", namespace="readers")))
    until(lambda: found or reader.ended, lambda: reader.error)
    reader.stop()
    return found


@pytest.mark.timeout(180)
@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("name", REAL)
def test_a_killer_is_put_aside_and_nothing_else(request, name, kind, ledger, run, until):
    place = PLACES[name](request.getfixturevalue(f"{SERVERS[name]}_server").url)
    queue = new_queue()
    place.declare(queue)
    before = [message(queue, f"before-{n}", key="k") for n in range(5)]
    after = [message(queue, f"after-{n}", key="k") for n in range(5)]
    assert place.publish(*before, message(queue, "killer", b"kill", key="k"), *after) == [None] * 11
    died = deaths(place, name, queue, ledger, kind, 3, lambda: len(ledger.rows()) == 10)
    assert died <= 3, "once beside others, and twice alone"
    [dead] = dead_of(place, queue, run, until)
    assert dead.id == "killer"
    assert "its consumer ended" in dead.headers["dupeproof-reason"]
    assert set(ledger.counts()) == {each.id for each in (*before, *after)}
    assert set(ledger.counts().values()) == {1}


@pytest.mark.timeout(120)
@pytest.mark.server("kafka")
def test_under_a_claim_the_store_counts(kafka_server, tmp_path, run, until):
    """Where the broker does not: each claim that was left behind is an attempt."""
    place = PLACES["kafka"](kafka_server.url)
    queue = new_queue()
    place.declare(queue)
    place.publish(message(queue, "killer", b"kill"))
    for _ in range(2):
        command = [
            sys.executable,
            WORKER,
            "kafka",
            place.url,
            queue,
            f"sqlite:///{tmp_path}/once.db",
            "claim",
            "2",
        ]
        assert subprocess.run(command, timeout=60, check=False).returncode == -signal.SIGKILL
    last = subprocess.Popen(command)
    try:
        [dead] = dead_of_late(place, queue, run, until, last)
    finally:
        last.kill()
        last.wait()
    assert "its consumer ended" in dead.headers["dupeproof-reason"]


def dead_of_late(place, queue, run, until, process):
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": place.url})
    until(
        lambda: f"{queue}.dead" in admin.list_topics(timeout=10).topics or process.poll() is not None,
        process.poll,
    )
    return dead_of(place, queue, run, until)


def test_attempts_of_an_inbox_are_counted_until_they_end(inbox_place):
    from dupeproof import Inbox

    inbox = Inbox("billing", database=inbox_place)
    with inbox.transaction() as connection:
        inbox.create_schema(connection)
    for expected in (1, 2):
        with inbox.transaction() as connection:
            assert inbox.begin_attempt(connection, "m-1") == expected
    with Inbox("other", database=inbox_place).transaction() as connection:
        assert Inbox("other").begin_attempt(connection, "m-1") == 1
    with inbox.transaction() as connection:
        inbox.end_attempts(connection, ["m-1", "m-2"])
    with inbox.transaction() as connection:
        assert inbox.begin_attempt(connection, "m-1") == 1


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param("postgres", marks=pytest.mark.server("postgres")),
        pytest.param("mariadb", marks=pytest.mark.server("mariadb")),
    ]
)
def inbox_place(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/inbox.db"
    return request.getfixturevalue(f"{request.param}_url")
