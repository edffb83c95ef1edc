"""What adding and relaying cost beside the plain statements, printed (`pytest -rP`); a busy machine fails nothing."""

import json
import statistics
import time

import psycopg

from dupeproof import Outbox, Relay

ROUNDS, ADDED, RELAYED, BATCH = 5, 400, 4_000, 500
PAYLOAD = {"order": "o-1", "amount": 500, "items": [1, 2, 3]}
PLAIN = """
    CREATE TABLE plain (
        id uuid PRIMARY KEY DEFAULT gen_random_uuid(), seq bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
        topic text NOT NULL, key text, payload bytea NOT NULL, created_at timestamptz NOT NULL DEFAULT now())
"""
INSERT = "INSERT INTO plain (topic, key, payload) VALUES (%s, %s, %s)"
SELECT = "SELECT id, seq, topic, key, payload FROM plain ORDER BY seq LIMIT %s FOR UPDATE SKIP LOCKED"


def seconds(work):
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def in_turn(ours, plain):
    """Ours over plain in each round; what the machine does meanwhile meets both."""
    ratios = sorted(seconds(ours) / seconds(plain) for _ in range(ROUNDS))
    return f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"


def test_adding_is_measured_beside_a_plain_insert(box_on_postgres):
    box = box_on_postgres
    connection = box.connection
    connection.execute(PLAIN)

    def adding(outbox):
        for number in range(ADDED):
            outbox.add(connection, topic="orders", payload=PAYLOAD, key=f"k{number}")
        connection.commit()

    def plain():
        for number in range(ADDED):
            connection.execute(INSERT, ("orders", f"k{number}", json.dumps(PAYLOAD).encode()))
        connection.commit()

    print(f"adding costs {in_turn(lambda: adding(Outbox()), plain)} times a plain insert")
    print(f"without notify {in_turn(lambda: adding(Outbox(notify=False)), plain)} times")
    assert box.waiting() == 2 * ROUNDS * ADDED


def test_relaying_is_measured_beside_select_and_delete(box_on_postgres):
    box = box_on_postgres
    connection = box.connection
    connection.execute(PLAIN)
    taken, rates = [], []

    def plain():
        with psycopg.connect(box.url) as reading:
            while rows := reading.execute(SELECT, (BATCH,)).fetchall():
                taken.extend(rows)
                reading.execute("DELETE FROM plain WHERE id = ANY (%s)", ([row[0] for row in rows],))
                reading.commit()

    got = []
    with Relay(box.url, publisher=got.append, batch=BATCH) as relay:
        ratios = []
        for _ in range(ROUNDS):
            rows = [{"topic": "orders", "payload": PAYLOAD, "key": f"k{n % 500}"} for n in range(RELAYED)]
            box.outbox.add_many(connection, rows)
            with connection.cursor() as cursor:
                cursor.executemany(INSERT, [("orders", f"k{n % 500}", b"x" * 50) for n in range(RELAYED)])
            connection.commit()
            ours, theirs = seconds(relay.run_once), seconds(plain)
            rates.append(RELAYED / ours)
            ratios.append(theirs / ours)
    assert len(got) == len(taken) == ROUNDS * RELAYED
    print(
        f"relayed {statistics.median(rates):,.0f}/s, {statistics.median(ratios):.2f} times select and delete "
        f"({min(ratios):.2f} to {max(ratios):.2f})"
    )
