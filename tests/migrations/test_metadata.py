"""Our tables in a MetaData are those that our own SQL makes, whichever of the two makes them."""

import pytest
import sqlalchemy
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.operations.ops import CreateTableOp
from migrations_catalogues import catalogue, connected

import dupeproof.alembic
import dupeproof.sqlalchemy
from dupeproof import ConfigError, Inbox, Once, Outbox
from dupeproof.sqlalchemy import schema
from dupeproof.stores import definitions, open_store

DATABASES = [
    pytest.param("postgresql", marks=pytest.mark.server("postgres")),
    pytest.param("mysql", marks=pytest.mark.server("mariadb")),
    "sqlite",
]


@pytest.fixture(params=DATABASES)
def two(request, tmp_path):
    """Two empty databases of one kind."""
    if request.param == "sqlite":
        return [f"sqlite:///{tmp_path}/{name}.db" for name in "ab"]
    kind = {"postgresql": "postgres", "mysql": "mariadb"}[request.param]
    urls = [request.getfixturevalue(f"{kind}{part}_url") for part in ("", "_module")]
    with connected(urls[1]) as connection:
        schema.drop(connection)
    return urls


def metadata_for(url, **options):
    metadata = sqlalchemy.MetaData(
        naming_convention={"pk": "pk_%(table_name)s", "ix": "ix_%(column_0_label)s"}
    )
    dupeproof.sqlalchemy.tables(metadata, dialect=url.partition(":")[0], **options)
    return metadata


def make_ours(url):
    with connected(url) as connection:
        schema.create(connection)


def differences(url, metadata):
    with connected(url) as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True}
        )
        return compare_metadata(context, metadata)


def test_what_create_all_makes_is_what_our_own_sql_makes(two):
    ours, theirs = two
    make_ours(ours)
    metadata = metadata_for(theirs)
    with connected(theirs) as connection:
        metadata.create_all(connection)
    assert catalogue(theirs) == catalogue(ours)
    assert differences(ours, metadata) == []
    assert differences(theirs, metadata) == []
    with connected(theirs) as connection:
        metadata.drop_all(connection)
        assert sqlalchemy.inspect(connection).get_table_names() == []


def test_tables_that_a_plain_revision_made_are_completed_by_the_operation(two):
    ours, theirs = two
    make_ours(ours)
    metadata = metadata_for(theirs)
    with connected(theirs) as connection:
        op = Operations(MigrationContext.configure(connection))
        for table in metadata.sorted_tables:
            made = CreateTableOp.from_table(table)
            op.invoke(made)
            for index in table.indexes:
                op.create_index(
                    index.name,
                    table.name,
                    [column.name for column in index.columns],
                    **{name: value for name, value in index.dialect_kwargs.items() if value is not None},
                )
        dupeproof.alembic.upgrade(op)
        dupeproof.alembic.upgrade(op)
    assert catalogue(theirs) == catalogue(ours)
    assert differences(theirs, metadata) == []


@pytest.mark.server("postgres")
def test_a_store_completes_tables_that_a_plain_revision_made(postgres_url):
    metadata = metadata_for(postgres_url)
    with connected(postgres_url) as connection:
        for table in metadata.sorted_tables:
            connection.execute(sqlalchemy.schema.CreateTable(table))
    with Once(postgres_url) as once:
        assert once.run("key", lambda: 1) == 1
    assert differences(postgres_url, metadata) == []


def test_everything_is_removed_by_the_downgrade(two):
    ours, _ = two
    empty = catalogue(ours)
    with connected(ours) as connection:
        op = Operations(MigrationContext.configure(connection))
        dupeproof.alembic.upgrade(op)
        assert sqlalchemy.inspect(connection).has_table("dupeproof_inbox")
    with connected(ours) as connection:
        op = Operations(MigrationContext.configure(connection))
        dupeproof.alembic.downgrade(op, to=3)  # an older library works with the newer schema
        assert sqlalchemy.inspect(connection).has_table("dupeproof_inbox")
        dupeproof.alembic.downgrade(op)
    assert catalogue(ours) == empty


@pytest.mark.parametrize("groups", ["inbox", ["outbox"]])
def test_only_the_groups_that_are_wanted_are_made(two, groups):
    url, _ = two
    metadata = metadata_for(url, groups=groups)
    wanted = [groups] if isinstance(groups, str) else groups
    with connected(url) as connection:
        dupeproof.alembic.upgrade(Operations(MigrationContext.configure(connection)), groups=wanted)
    with connected(url) as connection:
        there = set(sqlalchemy.inspect(connection).get_table_names())
    known = set(definitions.tables(url.partition(":")[0]))
    assert there == definitions.names_in(tuple(wanted)) & known
    assert differences(url, metadata) == []
    with connected(url) as connection:
        if "inbox" in wanted:
            assert Inbox("billing").first(connection, "m-1")
        if "outbox" in wanted:
            Outbox().add(connection, topic="t", payload={})
    if url.startswith("postgresql"):
        with Once(url) as once:  # which makes the rest
            assert once.run("key", lambda: 1) == 1
        assert open_store(url).wrapped.migrate() == []


@pytest.mark.server("postgres")
def test_the_tables_may_have_a_schema_of_their_own(postgres_url):
    metadata = metadata_for(postgres_url, schema="once's own")
    with connected(postgres_url) as connection:
        connection.exec_driver_sql('CREATE SCHEMA "once\'s own"')
        metadata.create_all(connection)
    with connected(postgres_url) as connection:
        found = sqlalchemy.inspect(connection)
        assert found.get_table_names() == []
        assert set(found.get_table_names(schema="once's own")) == set(definitions.tables("postgresql"))
        connection.exec_driver_sql('SET LOCAL search_path TO "once\'s own"')
        assert Inbox("billing").first(connection, "m-1")
    with connected(postgres_url) as connection:
        metadata.drop_all(connection)
        assert (
            connection.exec_driver_sql("SELECT count(*) FROM pg_proc WHERE proname ^@ 'dupeproof'").scalar()
            == 0
        )


@pytest.mark.server("postgres")
def test_a_schema_that_is_not_there_is_named(postgres_url):
    with connected(postgres_url) as connection, pytest.raises(ConfigError, match="CREATE SCHEMA"):
        dupeproof.alembic.upgrade(Operations(MigrationContext.configure(connection)), schema="nowhere")


@pytest.mark.server("postgres")
def test_what_somebody_has_changed_is_found(postgres_url):
    make_ours(postgres_url)
    metadata = metadata_for(postgres_url)
    for change in (
        "DROP INDEX dupeproof_inbox_expiry",
        "ALTER TABLE dupeproof_inbox ALTER COLUMN consumer_group TYPE varchar(9)",
        "ALTER TABLE dupeproof_offsets ADD COLUMN mine text",
        "DROP TABLE dupeproof_topics",
    ):
        before = len(differences(postgres_url, metadata))
        with connected(postgres_url) as connection:
            connection.exec_driver_sql(change)
        assert len(differences(postgres_url, metadata)) == before + 1, change


def test_every_table_belongs_to_a_group():
    for dialect in ("postgresql", "sqlite", "mysql"):
        assert set(definitions.tables(dialect)) <= definitions.names_in(())


def test_what_cannot_be_is_refused(tmp_path):
    metadata = sqlalchemy.MetaData()
    with pytest.raises(ConfigError, match="no group of tables 'letters'"):
        dupeproof.sqlalchemy.tables(metadata, groups=["letters"])
    with pytest.raises(ConfigError, match="no support for oracle"):
        dupeproof.sqlalchemy.tables(metadata, dialect="oracle")
    with pytest.raises(ConfigError, match="SQLite has no schemas"):
        dupeproof.sqlalchemy.tables(metadata, "own", dialect="sqlite")
    with pytest.raises(ConfigError, match="mysql has no tables for records"):
        dupeproof.sqlalchemy.tables(metadata, groups=["records"], dialect="mysql")
    with pytest.raises(ConfigError, match="takes a MetaData"):
        dupeproof.sqlalchemy.tables("postgresql://")
    assert not metadata.tables
    dupeproof.sqlalchemy.tables(metadata)
    dupeproof.sqlalchemy.tables(metadata)  # twice is fine
    with pytest.raises(ConfigError, match="for postgresql already"):
        dupeproof.sqlalchemy.tables(metadata, dialect="sqlite")
    with (
        connected(f"sqlite:///{tmp_path}/a.db") as connection,
        pytest.raises(ConfigError, match="dialect='sqlite'"),
    ):
        metadata.create_all(connection)
