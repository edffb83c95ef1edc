"""Four relays, two of them killed and started again at random: all is delivered, in order per key.

`make storm` runs it at full size.
"""

import os
import random
import signal
import threading
import time

import psycopg
import pytest
from outbox_deliveries import wait_for

from dupeproof import Inbox, Outbox

MESSAGES = int(os.environ.get("OUTBOX_MESSAGES", "3000"))
KEYS = int(os.environ.get("OUTBOX_KEYS", "100"))
RELAYS, KILLED, WRITERS = 4, 2, 3
OPTIONS = {"batch": 100, "pace": 0.002}


def write(url, keys, each):
    """The messages of these keys, a few in each transaction; one writer for each key, so their order is known."""
    outbox = Outbox()
    draw = random.Random(len(keys))
    left = {key: iter(range(each)) for key in keys}
    with psycopg.connect(url) as connection:
        while left:
            for key in draw.choices(list(left), k=draw.randint(1, 20)):
                number = next(left[key], None) if key in left else None
                if number is None:
                    left.pop(key, None)
                else:
                    outbox.add(connection, topic="orders", payload=number, key=key)
            if draw.random() < 0.1:
                time.sleep(0.001)
            connection.commit()


@pytest.mark.timeout(900)
def test_all_is_delivered_in_order_although_relays_are_killed(
    box_on_postgres, postgres_module_url, deliveries, record_property
):
    box = box_on_postgres
    each = MESSAGES // KEYS
    keys = [f"k{number}" for number in range(KEYS)]
    draw = random.Random(7)
    kills = 0
    with (
        psycopg.connect(postgres_module_url) as elsewhere,
        psycopg.connect(box.url) as beside,
    ):
        # Open writing transactions, in another database and in this one, for as long as it takes.
        elsewhere.execute("CREATE TABLE IF NOT EXISTS held_open (n integer)")
        elsewhere.execute("INSERT INTO held_open VALUES (1)")
        box.outbox.add(beside, topic="orders", payload=0, key="held")
        writers = [
            threading.Thread(target=write, args=(box.url, keys[number::WRITERS], each))
            for number in range(WRITERS)
        ]
        for writer in writers:
            writer.start()
        relays = [deliveries.start(box.url, **OPTIONS) for _ in range(RELAYS)]
        while any(writer.is_alive() for writer in writers) or box.waiting() > 0:
            victim = draw.randrange(KILLED)
            wait_for(lambda victim=victim: deliveries.at_work(relays[victim]), what="the relay")
            time.sleep(draw.uniform(0, 0.4))
            relays[victim].send_signal(signal.SIGKILL)
            relays[victim].wait()
            kills += 1
            relays[victim] = deliveries.start(box.url, **OPTIONS)
        for writer in writers:
            writer.join()
        assert "held" not in deliveries.by_key()
        beside.commit()
        wait_for(lambda: box.waiting() == 0, what="the message that was committed last")
        elsewhere.rollback()
    wait_for(lambda: "held" in deliveries.by_key())
    wait_for(lambda: all(map(deliveries.at_work, relays)), what="the relays that were started last")
    for relay in relays:
        relay.send_signal(signal.SIGTERM)
    assert [relay.wait(30) for relay in relays] == [0] * RELAYS
    assert kills > 0
    assert deliveries.firsts() == {key: list(range(each)) for key in keys} | {"held": [0]}
    again = deliveries.duplicates()
    record_property("duplicates", again)
    print(f"{MESSAGES} messages, {KEYS} keys, {kills} kills, {again} sent again")
    assert again <= kills * OPTIONS["batch"], "more was sent again than the killed relays had in hand"
    assert _removed_by_an_inbox(box.url, deliveries.lines()) == again


def _removed_by_an_inbox(url, delivered):
    """How many of these deliveries a consumer with an inbox would not work on."""
    inbox, known = Inbox("storm"), 0
    with psycopg.connect(url) as connection:
        for start in range(0, len(delivered), 1_000):
            answers = inbox.first_many(connection, delivered[start : start + 1_000])
            known += answers.count(False)
    return known
