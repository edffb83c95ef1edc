"""What has not expired survives every purge, what has does not; also while other processes keep writing."""

import asyncio
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from cleanup_waiting import until

from dupeproof import Once
from dupeproof.cleanup import AsyncPurger, Purger
from dupeproof.core.events import Kind
from dupeproof.stores import open_store

WRITER = Path(__file__).with_name("cleanup_writer.py")


def written_by_another_process(url):
    done = subprocess.run([sys.executable, WRITER, url], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def check_store(url, ids):
    """Every unexpired id is known, and of the expired ones nothing is left, not even a row."""
    store = open_store(url)

    def only_the_living():
        stats = store.stats()
        return (
            stats.expired == 0
            and stats.marks == len(ids["live_marks"])
            and sum(stats.records.values()) == len(ids["live_records"])
        )

    until(only_the_living)
    store.close()
    with Once(url, namespace="purge") as once:
        known = {key: once.get(key) for keys in ids.values() for key in keys}
        assert [key for key in ids["live_records"] if known[key] is None or known[key].state == "seen"] == []
        assert [key for key in ids["gone_marks"] if key not in ids["live_records"] and known[key]] == []
        assert [key for key in ids["gone_records"] if known[key] and known[key].state != "seen"] == []
        assert [key for key in ids["live_marks"] if not once.seen(key)] == []
    assert len(ids["live_marks"]) > 150 < len(ids["live_records"]), "the writer revived nothing"


class Survival:
    expires_by_itself = False

    def counted(self):
        counts = Counter()

        def listener(event):
            counts[event.kind] += event.count

        return counts, listener

    def check_events(self, counts):
        assert set(counts) == {Kind.PURGED}
        assert (counts[Kind.PURGED] == 0) is self.expires_by_itself

    def test_a_purging_thread_removes_only_what_has_expired(self, url):
        counts, listener = self.counted()
        with Purger(url, every="1ms", batch=7, pause=0, events=[listener]) as purger:
            ids = written_by_another_process(url)
            check_store(url, ids)
            assert purger.running
        self.check_events(counts)

    async def test_a_purging_task_removes_only_what_has_expired(self, url):
        counts, listener = self.counted()
        async with AsyncPurger(url, every="1ms", batch=7, pause=0, events=[listener]) as purger:
            ids = await asyncio.to_thread(written_by_another_process, url)
            await asyncio.to_thread(check_store, url, ids)
            assert purger.running
        self.check_events(counts)


class TestSQLite(Survival):
    @pytest.fixture
    def url(self, tmp_path):
        return f"sqlite:///{tmp_path}/dedup.db?synchronous=normal"


class TestPostgres(Survival):
    @pytest.fixture
    def url(self, postgres_url):
        return postgres_url


class TestRedis(Survival):
    expires_by_itself = True

    @pytest.fixture
    def url(self, redis_url):
        return redis_url
