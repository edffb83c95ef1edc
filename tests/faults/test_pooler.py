"""Behind a transaction pooler: every statement may meet another connection, which knows nothing of the last one."""

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from support.flavors import both_flavors, open_once

CALLERS = 8
CALLS = 40


@pytest.fixture
def pooled(own_pgbouncer, postgres_url):
    return own_pgbouncer(postgres_url)


def test_the_pooler_does_lose_what_was_prepared(pooled):
    """Otherwise the tests below would show nothing."""
    with psycopg.connect(pooled.url, autocommit=True) as one, psycopg.connect(pooled.url) as other:
        one.pgconn.prepare(b"mine", b"SELECT 1")
        other.execute("SELECT 1")  # in a transaction, which keeps the connection that was prepared
        lost = one.pgconn.exec_prepared(b"mine", None)
        assert lost.error_field(psycopg.pq.DiagnosticField.SQLSTATE) == b"26000"


@both_flavors
def test_many_callers_get_their_own_answers(pooled, flavor):
    with open_once(flavor, pooled.url) as once, ThreadPoolExecutor(CALLERS) as threads:

        def work(caller):
            for number in range(CALLS):
                key = f"{caller}-{number}"
                assert once.run(key, lambda value=key: value) == key
                assert once.run(key, lambda: "ran again") == key
                assert once.seen(key) is False
                assert once.seen(key) is True
            return True

        assert all(threads.map(work, range(CALLERS)))


@both_flavors
def test_guards_that_prepared_on_each_others_connections_both_work(pooled, flavor):
    with open_once(flavor, pooled.url) as one, open_once(flavor, pooled.url) as other:
        for number in range(20):
            assert one.seen(f"id-{number}") is False
            assert other.seen(f"id-{number}") is True
        assert one.fresh([f"id-{number}" for number in range(40)]) == [f"id-{n}" for n in range(20, 40)]
