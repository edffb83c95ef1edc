"""A mark that would be committed alone is refused, however deep the setting is hidden; a pipeline hides no answers."""

import psycopg
import pytest
import sqlalchemy
from psycopg import AsyncConnection

from dupeproof import AsyncInbox, ConfigError, Inbox, Outbox
from support.places import engine_url, kinds

AUTOCOMMIT = {
    "sqlalchemy psycopg": ("psycopg", {"autocommit": True}),
    "sqlalchemy pymysql": ("pymysql", {"autocommit": True}),
    "sqlalchemy pysqlite": ("pysqlite", {"isolation_level": None}),
}


@kinds(*AUTOCOMMIT)
async def test_a_driver_that_commits_each_statement_is_found_below_sqlalchemy(place):
    await place.make_schema()
    driver, options = AUTOCOMMIT[place.name]
    engine = sqlalchemy.create_engine(
        engine_url(place.url, driver), poolclass=sqlalchemy.pool.NullPool, connect_args=options
    )
    with engine.begin() as connection, pytest.raises(ConfigError, match="no transaction"):
        place.inbox().first(connection, "m-1")
    assert place.sql("SELECT count(*) FROM dupeproof_inbox") == [(0,)]


@kinds("sqlalchemy pysqlite")
async def test_sqlalchemys_own_recipe_for_sqlite_is_a_transaction(place):
    await place.make_schema()
    engine = sqlalchemy.create_engine(
        engine_url(place.url, "pysqlite"),
        poolclass=sqlalchemy.pool.NullPool,
        connect_args={"isolation_level": None},
    )
    sqlalchemy.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    inbox = place.inbox()
    with engine.connect() as connection:
        assert inbox.first(connection, "m-1") is True
        connection.rollback()
    with engine.begin() as connection:
        assert inbox.first(connection, "m-1") is True
    with engine.begin() as connection:
        assert inbox.first(connection, "m-1") is False


def test_in_a_pipeline_new_messages_are_new(postgres_url):
    inbox, outbox = Inbox("billing"), Outbox()
    with psycopg.connect(postgres_url) as connection:
        inbox.create_schema(connection)
        connection.execute("CREATE TABLE own (id int PRIMARY KEY)")
        connection.commit()
        with connection.pipeline():
            assert inbox.first(connection, "m-1") is True
            assert inbox.first(connection, "m-1") is False
            assert inbox.first_many(connection, ["m-1", "m-2"]) == [False, True]
            assert inbox.insert_once(connection, "own", {"id": 1}, key="id") is True
            outbox.add(connection, topic="t", payload=1)
        connection.rollback()
        assert inbox.first(connection, "m-1") is True
        assert connection.execute("SELECT count(*) FROM dupeproof_outbox").fetchone() == (0,)


async def test_in_a_pipeline_of_tasks_too(postgres_url):
    inbox = AsyncInbox("billing")
    async with await AsyncConnection.connect(postgres_url) as connection:
        await inbox.create_schema(connection)
        async with connection.pipeline():
            assert await inbox.first_many(connection, ["m-1", "m-1", "m-2"]) == [True, False, True]


def test_a_pipeline_without_a_transaction_is_refused(postgres_url):
    inbox = Inbox("billing")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        inbox.create_schema(connection)
        with connection.pipeline():
            connection.execute("SELECT 1")
            with pytest.raises(ConfigError, match="no transaction"):
                inbox.first(connection, "m-1")
            with connection.transaction():
                assert inbox.first(connection, "m-1") is True
