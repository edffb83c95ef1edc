"""Two transactions with the same message: the second waits for the fate of the first, within bounds."""

import contextlib
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
import sqlalchemy
from psycopg import IsolationLevel
from pymysql.constants import CLIENT
from sqlalchemy.pool import NullPool

from dupeproof import Inbox, RetryTransaction
from support.places import ONE_OF_EACH, engine_transaction, engine_url, kinds, settled, sqlite_path


@kinds(*ONE_OF_EACH, "sqlite3 with BEGIN")
@pytest.mark.parametrize("outcome", ["commit", "rollback"])
@pytest.mark.parametrize("ids", [["m-1"], ["m-0", "m-1", "m-2"]])
async def test_the_second_waits_for_the_fate_of_the_first(place, outcome, ids):
    await place.make_schema()
    if place.dialect == "sqlite":
        place.sql("PRAGMA journal_mode = WAL")
    inbox = place.inbox()
    began, answers = threading.Event(), []

    def second():
        with place._transaction(place.url) as connection:
            began.set()
            answers.extend(
                place.inbox().first_many(connection, ids)
            )  # its first call, so it looks at its window

    with contextlib.suppress(ZeroDivisionError):
        async with place.transaction() as connection:
            assert inbox.first(connection, "m-1") is True
            thread = threading.Thread(target=second)
            thread.start()
            assert began.wait(20)
            thread.join(0.3)
            assert answers == []
            if outcome == "rollback":
                1 // 0
    thread.join(20)
    assert answers == [each != "m-1" or outcome == "rollback" for each in ids]


@kinds(*ONE_OF_EACH)
async def test_of_many_at_once_one_is_first_whoever_rolls_back(place):
    """Where the database breaks a deadlock or gives up waiting it says so, and the transaction is run again."""
    await place.make_schema()
    inbox = place.inbox()
    barrier = threading.Barrier(6)
    worked = []

    def consume(number):
        barrier.wait(20)
        for turn in range(20):
            while True:
                try:
                    with place._transaction(place.url) as connection:
                        if inbox.first(connection, f"m-{turn}"):
                            if number == turn % 6:
                                raise ZeroDivisionError
                            worked.append(turn)
                    break
                except (RetryTransaction, ZeroDivisionError) as error:
                    if isinstance(error, ZeroDivisionError):
                        break

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(consume, range(6)))
    assert sorted(worked) == list(range(20))
    assert place.sql("SELECT count(*) FROM dupeproof_inbox") == [(20,)]


@kinds(*ONE_OF_EACH)
async def test_batches_in_opposite_order_each_get_their_share(place):
    await place.make_schema()
    inbox = place.inbox()
    ids = [f"m-{n}" for n in range(200)]

    def consume(batch):
        while True:
            with contextlib.suppress(RetryTransaction), place._transaction(place.url) as connection:
                return sum(inbox.first_many(connection, batch))

    for _ in range(5):
        with ThreadPoolExecutor(4) as pool:
            taken = list(pool.map(consume, [ids, ids[::-1], ids[50:], ids[::-2]]))
        assert sum(taken) == len(ids)
        place.sql("DELETE FROM dupeproof_inbox")


@kinds(*ONE_OF_EACH)
async def test_waiting_ends_and_says_that_the_transaction_can_be_run_again(place):
    await place.make_schema()
    inbox = place.inbox()
    shorter = {
        "postgresql": "SET lock_timeout = '50ms'",
        "mysql": "SET innodb_lock_wait_timeout = 1",
        "sqlite": "PRAGMA busy_timeout = 50",
    }
    async with place.transaction() as connection:
        assert inbox.first(connection, "m-1") is True
        with (
            pytest.raises(RetryTransaction, match=r"lock for longer.*run it again"),
            place._transaction(place.url) as other,
        ):
            getattr(other, "exec_driver_sql", other.execute)(shorter[place.dialect])
            inbox.first(other, "m-1")


@kinds("psycopg")
@pytest.mark.parametrize("level", [IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE])
async def test_a_serialization_failure_is_told_and_the_next_try_knows(place, level):
    await place.make_schema()
    inbox = place.inbox()
    with psycopg.connect(place.url) as connection:
        connection.isolation_level = level
        connection.execute("SELECT 1")  # its view of the database begins here
        async with place.transaction() as other:
            assert inbox.first(other, "m-1") is True
        with pytest.raises(RetryTransaction, match="run it again"):
            inbox.first(connection, "m-1")
        connection.rollback()
        assert inbox.first(connection, "m-1") is False


@kinds("sqlalchemy pymysql")
@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
async def test_on_mariadb_an_older_view_does_not_hide_the_mark(place, level):
    await place.make_schema()
    inbox = place.inbox()
    place.sql("CREATE TABLE aside (id integer)")
    with engine_transaction(place.url, "pymysql", isolation_level=level) as connection:
        connection.exec_driver_sql("SELECT count(*) FROM aside")  # its view of the database begins here
        async with place.transaction() as other:
            assert await settled(inbox.first_many(other, ["m-1", "m-2"])) == [True, True]
        assert inbox.first(connection, "m-1") is False
        assert inbox.first_many(connection, ["m-2", "m-3"]) == [False, True]


@kinds("sqlalchemy pymysql")
async def test_a_deadlock_is_told(place):
    """Two transactions that mark two messages each, in opposite order."""
    await place.make_schema()
    inbox = place.inbox()
    ready, answers = threading.Event(), []

    def opposite():
        try:
            with place._transaction(place.url) as connection:
                inbox.first(connection, "m-2")
                ready.set()
                answers.append(inbox.first(connection, "m-1"))
        except RetryTransaction as error:
            answers.append(str(error))

    thread = threading.Thread(target=opposite)
    with contextlib.suppress(RetryTransaction):
        async with place.transaction() as connection:
            assert inbox.first(connection, "m-1") is True
            thread.start()
            assert ready.wait(20)
            try:
                answers.append(inbox.first(connection, "m-2"))
            except RetryTransaction as error:
                answers.append(str(error))
                raise
    thread.join(20)
    assert sum(isinstance(answer, bool) for answer in answers) == 1
    assert sum("deadlock" in str(answer) for answer in answers) == 1


@kinds("sqlalchemy pymysql")
@pytest.mark.parametrize("flags", [0, CLIENT.FOUND_ROWS])
async def test_the_answer_does_not_depend_on_how_a_client_counts_rows(place, flags):
    await place.make_schema()
    inbox = place.inbox()
    engine = sqlalchemy.create_engine(
        engine_url(place.url, "pymysql"), poolclass=NullPool, connect_args={"client_flag": flags}
    )
    with engine.begin() as connection:
        for turn in range(2):
            assert inbox.first(connection, "m-1") is (turn == 0)
            assert inbox.first_many(connection, ["m-1", "m-2", "m-3"]) == [False, turn == 0, turn == 0]
        connection.exec_driver_sql("UPDATE dupeproof_inbox SET expires_at = seen_at")
        assert inbox.first(connection, "m-1") is True
        assert inbox.first_many(connection, ["m-1", "m-2"]) == [False, True]


def test_on_sqlite_a_reader_that_became_outdated_is_told(tmp_path):
    """In WAL mode a transaction that has read cannot write once another has: SQLite does not even wait."""
    url = f"sqlite:///{tmp_path}/own.db"
    inbox = Inbox("billing")
    with contextlib.closing(sqlite3.connect(sqlite_path(url))) as one:
        one.execute("PRAGMA journal_mode = WAL")
        inbox.create_schema(one)
        one.commit()
        with contextlib.closing(sqlite3.connect(sqlite_path(url), isolation_level=None)) as two:
            two.execute("BEGIN")
            two.execute("SELECT * FROM dupeproof_inbox").fetchall()
            assert inbox.first(one, "m-1") is True
            one.commit()
            with pytest.raises(RetryTransaction, match="run it again"):
                inbox.first(two, "m-1")
            two.execute("ROLLBACK")
            two.execute("BEGIN")
            assert inbox.first(two, "m-1") is False
            two.execute("ROLLBACK")
