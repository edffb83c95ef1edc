"""What PostgreSQL has to do for us: no reading of whole tables, no index entry for a finish, few bytes for a mark."""

import os
import time

import psycopg
import pytest

from dupeproof.core.records import ClaimRequest, Fail, Finish, Mark, Release, Renew, Terms
from dupeproof.stores import open_store

HOUR = 3_600_000
TERMS = Terms("costs", HOUR, HOUR)
TOKEN = b"12345678"


@pytest.fixture
def database(postgres_url):
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection


def counted(database, column, *, until):
    """A server's own count, once it has heard of everything: connections report when they end."""
    deadline = time.monotonic() + 20
    while True:
        count = database.execute(
            f"SELECT sum({column}) FROM pg_stat_user_tables WHERE relname IN ('dupeproof_records', 'dupeproof_marks')"
        ).fetchone()[0]
        if until(count) or time.monotonic() > deadline:
            return count
        time.sleep(0.05)


def use_every_verb(store, size):
    """Each verb with a batch of so many: new keys, known ones, and ones to be refused."""
    keys = [os.urandom(16) for _ in range(size)]
    for token in (TOKEN, b"somebody"):
        store.claim([ClaimRequest(key, token, TERMS) for key in keys])
        store.renew([Renew(key, token, HOUR, HOUR) for key in keys])
        store.fail([Fail(key, token, HOUR, "ValueError") for key in keys])
    store.claim([ClaimRequest(key, b"the next", TERMS) for key in keys])
    store.release([Release(key, b"the next", HOUR) for key in keys])
    store.claim([ClaimRequest(key, TOKEN[::-1], TERMS) for key in keys])
    store.finish([Finish(key, TOKEN[::-1], HOUR, b"1", "json") for key in keys])
    store.claim([ClaimRequest(key, TOKEN, TERMS) for key in keys])
    for _ in range(2):
        store.mark([Mark(key, HOUR) for key in keys])


@pytest.mark.parametrize("size", [1, 20])
def test_plans_made_for_empty_tables_do_not_read_full_ones_from_end_to_end(database, postgres_url, size):
    store = open_store(f"{postgres_url}?pool=1").wrapped
    store.migrate()
    # Known to be empty, which makes reading the table look cheapest; and nobody will look again.
    for table in ("dupeproof_records", "dupeproof_marks"):
        database.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
        database.execute(f"VACUUM ANALYZE {table}")
    for _ in range(10):  # the server keeps a plan after five
        use_every_verb(store, size)
    database.execute(
        "INSERT INTO dupeproof_marks SELECT gen_random_uuid(), now() + interval '1 hour' FROM generate_series(1, 20000)"
    )
    use_every_verb(store, size)
    store.close()
    assert counted(database, "idx_scan", until=lambda count: count >= 100) >= 100
    assert counted(database, "seq_tup_read", until=lambda count: True) == 0


def test_a_finish_writes_to_no_index_unless_its_page_is_full(database, postgres_url):
    store = open_store(postgres_url)
    for _ in range(300):
        key = os.urandom(16)
        store.claim([ClaimRequest(key, TOKEN, TERMS)])
        assert store.finish([Finish(key, TOKEN, HOUR, b"1", "json")]) == [True]
    store.close()
    updates = counted(database, "n_tup_upd", until=lambda count: count == 300)
    assert updates == 300
    assert counted(database, "n_tup_hot_upd", until=lambda count: True) >= 0.95 * float(updates)


def test_a_mark_takes_at_most_120_bytes_with_its_indexes(database, postgres_url):
    store = open_store(postgres_url)
    for _ in range(50):
        store.mark([Mark(os.urandom(16), HOUR) for _ in range(1_000)])
    store.close()
    size = database.execute("SELECT pg_total_relation_size('dupeproof_marks')").fetchone()[0]
    assert size / 50_000 < 120
