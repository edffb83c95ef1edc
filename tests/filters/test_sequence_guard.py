"""SequenceGuard: each number of a producer once, by URL or in the caller's transaction."""

import contextlib
import sqlite3
import threading

import psycopg
import pytest
from psycopg.rows import dict_row

from dupeproof import ConfigError, KeyInvalid, SequenceRefused, StoreUnavailable
from dupeproof.filters import AsyncSequenceGuard, SequenceGuard, Verdict
from dupeproof.stores import open_store
from support.stores import EVERY, on


@on(*EVERY)
def test_a_number_is_first_once_and_order_may_vary_within_the_gap(url):
    with SequenceGuard(url, gap=4) as guard:
        assert [guard.first("p", 1, n) for n in (0, 1, 1, 3, 2, 2, 0)] == [1, 1, 0, 1, 1, 0, 0]
        assert guard.first("p", 1, 9) is True
        with pytest.raises(SequenceRefused, match="gap") as refused:
            guard.first("p", 1, 5)
        assert refused.value.verdict is Verdict.TOO_OLD
        assert guard.first("p", 1, 6) is True
        assert guard.first("other", 1, 5) is True


@on(*EVERY)
def test_a_newer_epoch_starts_anew_and_fences_the_older_one(url):
    with SequenceGuard(url) as guard:
        assert guard.first("p", 1, 7) is True
        assert guard.first("p", 2, 0) is True
        with pytest.raises(SequenceRefused, match="newer epoch") as refused:
            guard.first("p", 1, 8)
        assert refused.value.verdict is Verdict.FENCED
        assert guard.first("p", 2, 7) is True


@on(*EVERY)
def test_a_batch_gets_a_verdict_each_in_its_order(url):
    with SequenceGuard(url, gap=2) as guard:
        items = [("p", 1, 5), ("q", 0, 5), ("p", 1, 5), ("p", 0, 6), ("p", 1, 3), ("p", 1, 4)]
        F, D, X, T = Verdict.FRESH, Verdict.DUPLICATE, Verdict.FENCED, Verdict.TOO_OLD
        assert guard.first_many(items) == [F, F, D, X, T, F]
        assert [item for item, verdict in zip(items, guard.first_many(items), strict=True) if verdict] == []
        assert guard.first_many([]) == []


@on(*EVERY)
def test_namespaces_are_apart_and_a_producer_can_be_retired(url):
    store = open_store(url)
    one, other = SequenceGuard(store, namespace="one"), SequenceGuard(store, namespace="other")
    assert one.first("p", 1, 5) is True
    assert other.first("p", 0, 5) is True
    assert one.stats().producers == 2
    assert one.retire("p") is True
    assert one.retire("p") is False
    assert one.first("p", 0, 5) is True
    store.close()


@on(*EVERY)
def test_ten_thousand_numbers_take_one_row(url):
    with SequenceGuard(url, gap=1_024) as guard:
        for start in range(0, 10_000, 1_000):
            assert all(guard.first_many([("p", 0, n) for n in range(start, start + 1_000)]))
        stats = guard.stats()
        assert stats.producers == 1
        if url.startswith("redis"):
            assert stats.bytes < 400


@on(*EVERY)
async def test_the_async_guard_is_the_same(url):
    async with AsyncSequenceGuard(url, gap=4) as guard:
        assert await guard.first("p", 1, 9) is True
        assert await guard.first("p", 1, 9) is False
        with pytest.raises(SequenceRefused):
            await guard.first("p", 1, 1)
        assert await guard.first_many([("p", 1, 8), ("p", 0, 9)]) == [Verdict.FRESH, Verdict.FENCED]
        assert (await guard.stats()).producers == 1
        assert await guard.retire("p") is True


# In the caller's transaction


@pytest.fixture
def lite(tmp_path):
    def connect(**options):
        return contextlib.closing(sqlite3.connect(tmp_path / "own.db", **options))

    with connect() as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        SequenceGuard().create_schema(connection)
        SequenceGuard().create_schema(connection)
    return connect


def test_on_sqlite_the_number_shares_the_fate_of_the_transaction(lite):
    guard = SequenceGuard()
    with lite() as connection:  # sqlite3's usual mode: a transaction opens by itself
        assert guard.first(connection, "p", 0, 1) is True
        assert guard.first(connection, "p", 0, 1) is False
        connection.rollback()
        assert guard.first(connection, "p", 0, 1) is True
        connection.commit()
        assert guard.first_many(connection, [("p", 0, 1), ("p", 0, 2)]) == [Verdict.DUPLICATE, Verdict.FRESH]
        connection.rollback()
    with lite(isolation_level=None) as connection:
        connection.row_factory = sqlite3.Row
        connection.execute("BEGIN")
        assert guard.first(connection, "p", 0, 2) is True
        assert guard.first(connection, "p", 0, 1) is False
        connection.execute("COMMIT")


def test_on_sqlite_a_second_transaction_waits_for_the_first(lite):
    guard = SequenceGuard()
    answers = []

    def second():
        with lite(timeout=20) as connection:
            answers.append(guard.first(connection, "p", 0, 1))
            connection.commit()

    with lite() as connection:
        assert guard.first(connection, "p", 0, 1) is True
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(0.1)
        assert answers == []
        connection.commit()
        thread.join(20)
    assert answers == [False]


def test_without_a_transaction_it_refuses_and_says_what_to_do(lite, postgres_module_url):
    guard = SequenceGuard(namespace="refused")
    with lite(isolation_level=None) as connection, pytest.raises(ConfigError, match="BEGIN IMMEDIATE"):
        guard.first(connection, "p", 0, 1)
    with psycopg.connect(postgres_module_url, autocommit=True) as connection:
        guard.create_schema(connection)
        with pytest.raises(ConfigError, match=r"with connection\.transaction"):
            guard.first(connection, "p", 0, 1)
        with connection.transaction():
            assert guard.first(connection, "p", 0, 1) is True


def test_a_missing_table_says_how_it_is_made(tmp_path, postgres_url):
    guard = SequenceGuard()
    with (
        contextlib.closing(sqlite3.connect(tmp_path / "empty.db")) as connection,
        pytest.raises(ConfigError, match="create_schema"),
    ):
        guard.first(connection, "p", 0, 1)
    with psycopg.connect(postgres_url) as connection, pytest.raises(ConfigError, match="create_schema"):
        guard.first(connection, "p", 0, 1)


def test_on_postgres_the_number_shares_the_fate_of_the_transaction(postgres_module_url):
    guard = SequenceGuard(namespace="fate")
    with psycopg.connect(postgres_module_url, row_factory=dict_row) as connection:
        guard.create_schema(connection)
        connection.commit()
        with pytest.raises(ZeroDivisionError), connection.transaction():
            assert guard.first(connection, "p", 0, 1) is True
            1 // 0
        with connection.transaction():
            assert guard.first(connection, "p", 0, 1) is True
            assert guard.first(connection, "p", 0, 1) is False
        assert guard.first_many(connection, [("p", 0, 2), ("q", 0, 2), ("p", 0, 1)]) == [
            Verdict.FRESH,
            Verdict.FRESH,
            Verdict.DUPLICATE,
        ]
        connection.rollback()
    with SequenceGuard(postgres_module_url, namespace="fate") as by_url:
        assert by_url.first("p", 0, 1) is False
        assert by_url.first("p", 0, 2) is True


@pytest.mark.parametrize("outcome", ["commit", "rollback"])
@pytest.mark.parametrize("known", [False, True])
def test_on_postgres_a_second_transaction_waits_for_the_first(postgres_module_url, outcome, known):
    guard = SequenceGuard(namespace=f"wait-{outcome}-{known}")
    answers = []

    def second():
        with psycopg.connect(postgres_module_url) as connection:
            answers.append(guard.first(connection, "p", 0, 1))

    with psycopg.connect(postgres_module_url) as connection:
        guard.create_schema(connection)
        if known:
            assert guard.first(connection, "p", 0, 0) is True
        connection.commit()
        assert guard.first(connection, "p", 0, 1) is True
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(0.2)
        assert answers == []
        getattr(connection, outcome)()
        thread.join(20)
    assert answers == [outcome == "rollback"]


async def test_the_async_guard_joins_an_async_connection(postgres_module_url):
    guard = AsyncSequenceGuard(namespace="async")
    async with await psycopg.AsyncConnection.connect(postgres_module_url) as connection:
        await guard.create_schema(connection)
        await connection.commit()
        assert await guard.first(connection, "p", 0, 1) is True
        await connection.rollback()
        assert await guard.first_many(connection, [("p", 0, 1), ("p", 0, 1)]) == [
            Verdict.FRESH,
            Verdict.DUPLICATE,
        ]
    async with await psycopg.AsyncConnection.connect(postgres_module_url, autocommit=True) as connection:
        with pytest.raises(ConfigError, match="transaction"):
            await guard.first(connection, "p", 0, 2)
        with pytest.raises(ConfigError, match="AsyncConnection"):
            await guard.first(sqlite3.connect(":memory:"), "p", 0, 2)


# Bad input


@pytest.mark.parametrize("bad", [-1, 2**53, True, 1.0, "1", None])
def test_bad_numbers_are_refused(bad):
    with SequenceGuard("memory://") as guard:
        for args in (("p", bad, 1), ("p", 1, bad)):
            with pytest.raises(KeyInvalid, match="whole number"):
                guard.first(*args)
        with pytest.raises(KeyInvalid):
            guard.first(None, 1, 1)
        assert guard.stats().producers == 0


@pytest.mark.parametrize("gap", [0, -1, 65_537, True, 1.5, "9"])
def test_a_bad_gap_is_refused(gap):
    with pytest.raises(ConfigError, match="gap must be"):
        SequenceGuard("memory://", gap=gap)


def test_without_a_store_or_a_connection_it_says_what_is_missing():
    with pytest.raises(ConfigError, match="pass your connection first"):
        SequenceGuard().first("p", 0, 1)
    with pytest.raises(ConfigError, match="joins the transaction of"):
        SequenceGuard().first("not a connection", "p", 0, 1)


def test_a_redis_that_is_gone_is_told(own_redis):
    server = own_redis()
    with SequenceGuard(f"{server.url}?timeout=1s") as guard:
        assert guard.first("p", 0, 1) is True
        server.kill()
        with pytest.raises(StoreUnavailable):
            guard.first("p", 0, 2)
