"""A consumer that dies: each life takes messages from where the acknowledgements end, and is killed somewhere.

    python inbox_consumer.py URL ACKS KILLS SEED

The broker is a file with one byte for each acknowledgement; what was acknowledged last is delivered again. Half of the
lives end at a chosen step, the other half at a moment chosen by somebody else. The last life ends by itself. Says how
many messages there were.
"""

import itertools
import os
import random
import signal
import sqlite3
import sys
import time
from pathlib import Path

import psycopg

from dupeproof import Inbox

STEPS = 6  # of a message
REDELIVERED = 3
LAST = 10


def connect(url):
    if url.startswith("sqlite"):
        return sqlite3.connect(url.removeprefix("sqlite:///"), timeout=20)
    return psycopg.connect(url)


def consume(url, acks, die_at=None, messages=None):
    inbox = Inbox("billing")
    steps = itertools.count()

    def step():
        if next(steps) == die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    connection = connect(url)
    acked = acks.stat().st_size
    for number in itertools.count(max(0, acked - REDELIVERED)):
        if number == messages:
            break
        step()
        if inbox.first(connection, f"m-{number}"):
            step()
            connection.execute("UPDATE balance SET amount = amount + 1")
            step()
            connection.execute(f"INSERT INTO ledger VALUES ({number})")
        step()
        connection.commit()
        step()
        if number >= acked:
            with acks.open("ab") as file:
                file.write(b".")
        step()
    connection.close()


def main():
    url, acks, kills, seed = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    chance = random.Random(seed)
    for life in range(kills):
        die_at = chance.randrange(STEPS * 12) if life % 2 else None
        child = os.fork()
        if child == 0:
            try:
                consume(url, acks, die_at)
            finally:
                os._exit(1)  # nothing but a kill ends a life
        if die_at is None:
            time.sleep(chance.uniform(0.002, 0.04))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WTERMSIG(status) == signal.SIGKILL
    messages = acks.stat().st_size + LAST
    consume(url, acks, messages=messages)
    print(messages)


if __name__ == "__main__":
    main()
