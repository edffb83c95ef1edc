"""How fast ids come and go, printed (`pytest -rP`); a busy machine must not turn a figure into a failure."""

import os
import time

import pytest
from cleanup_waiting import until

from dupeproof.cleanup import Purger
from dupeproof.core.records import Mark
from dupeproof.stores import open_store

COUNT = 20_000


class Throughput:
    def test_purging_is_measured_against_the_rate_at_which_ids_arrive(self, url):
        store = open_store(url)
        store.check()
        began = time.perf_counter()
        for _ in range(0, COUNT, 1_000):
            store.mark([Mark(os.urandom(16), window=1) for _ in range(1_000)])
        arriving = COUNT / (time.perf_counter() - began)
        until(lambda: store.stats().expired == COUNT)
        report = Purger(store).run_once()
        assert report.removed == COUNT
        going = report.removed / report.seconds
        print(f"ids arrive at {arriving:,.0f}/s in batches of 1,000, and are purged at {going:,.0f}/s")
        store.close()


class TestSQLite(Throughput):
    @pytest.fixture
    def url(self, tmp_path):
        return f"sqlite:///{tmp_path}/dedup.db"


class TestPostgres(Throughput):
    @pytest.fixture
    def url(self, postgres_url):
        return postgres_url
