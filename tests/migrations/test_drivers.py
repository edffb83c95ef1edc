"""Revisions run on any driver of SQLAlchemy, also under `run_sync` of an async engine."""

import pytest
import sqlalchemy
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

import dupeproof.alembic
import dupeproof.sqlalchemy


def up_and_down(connection):
    metadata = sqlalchemy.MetaData()
    dupeproof.sqlalchemy.tables(metadata, dialect=connection.dialect.name)
    context = MigrationContext.configure(connection)
    assert compare_metadata(context, metadata) == [
        ("dupeproof_upgrade", None, max_version(connection.dialect.name))
    ]
    op = Operations(context)
    dupeproof.alembic.upgrade(op)
    assert compare_metadata(context, metadata) == []
    dupeproof.alembic.downgrade(op)
    metadata.create_all(connection)
    metadata.drop_all(connection)
    return sqlalchemy.inspect(connection).get_table_names()


def max_version(dialect):
    return dupeproof.sqlalchemy.operations.latest() if dialect == "postgresql" else None


def engine_url(url, driver):
    scheme, _, rest = url.partition("://")
    return f"{scheme}+{driver}://{rest}"


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
@pytest.mark.server("postgres")
def test_on_drivers_of_threads(postgres_url, driver):
    engine = sqlalchemy.create_engine(engine_url(postgres_url, driver), poolclass=NullPool)
    with engine.begin() as connection:
        assert up_and_down(connection) == []


ASYNC = [
    pytest.param("postgres", "psycopg", marks=pytest.mark.server("postgres")),
    pytest.param("postgres", "asyncpg", marks=pytest.mark.server("postgres")),
    pytest.param("mariadb", "aiomysql", marks=pytest.mark.server("mariadb")),
    ("sqlite", "aiosqlite"),
]


@pytest.mark.parametrize(("kind", "driver"), ASYNC)
async def test_on_drivers_of_tasks(request, tmp_path, kind, driver):
    url = f"sqlite:///{tmp_path}/a.db" if kind == "sqlite" else request.getfixturevalue(f"{kind}_url")
    engine = create_async_engine(engine_url(url, driver), poolclass=NullPool)
    async with engine.begin() as connection:
        assert await connection.run_sync(up_and_down) == []
