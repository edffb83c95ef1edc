"""`kill -9` anywhere between the delivery and the acknowledgement: every message has its effect once."""

import asyncio
import random
import subprocess
import sys
from pathlib import Path

import pytest

from support.places import kinds

KILLS = 200


@kinds("sqlite3", "psycopg")
@pytest.mark.timeout(300)
def test_two_hundred_kills_lose_nothing_and_double_nothing(place, tmp_path):
    asyncio.run(place.make_schema())
    place.sql(
        "CREATE TABLE balance (amount integer)",
        "INSERT INTO balance VALUES (0)",
        "CREATE TABLE ledger (message integer)",
    )
    acks = tmp_path / "acks"
    acks.touch()
    consumer = [sys.executable, Path(__file__).with_name("inbox_consumer.py")]
    run = subprocess.run(
        [*consumer, place.url, acks, str(KILLS), str(random.getrandbits(32))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    messages = int(run.stdout)
    assert messages > KILLS
    assert place.sql("SELECT message FROM ledger ORDER BY message") == [(n,) for n in range(messages)]
    assert place.sql("SELECT amount FROM balance") == [(messages,)]
    assert place.sql("SELECT count(*) FROM dupeproof_inbox") == [(messages,)]
