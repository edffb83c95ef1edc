"""Our tables in a schema of choice: the search path of the URL leads everything there, and nothing elsewhere."""

import pytest
from migrations_catalogues import connected
from migrations_exercise import ALL

from dupeproof import StoreUnavailable
from dupeproof.cli.app import run
from dupeproof.doctor import examine
from dupeproof.sqlalchemy import schema

pytestmark = pytest.mark.server("postgres")


@pytest.fixture
def url(postgres_url):
    with connected(postgres_url) as connection:
        connection.exec_driver_sql("CREATE SCHEMA dedup")
    return f"{postgres_url}?options=-csearch_path%3Ddedup"


def schemas_with_ours(url):
    with connected(url) as connection:
        found = connection.exec_driver_sql(
            "SELECT DISTINCT n.nspname FROM pg_namespace AS n LEFT JOIN pg_class AS c ON c.relnamespace = n.oid"
            " LEFT JOIN pg_proc AS p ON p.pronamespace = n.oid WHERE c.relname ^@ 'dupeproof' OR p.proname ^@ 'dupeproof'"
        )
        return [name for (name,) in found]


@pytest.mark.parametrize("made_by", ["first use", "command", "sqlalchemy"])
def test_everything_works_in_the_schema_of_the_url(url, postgres_url, made_by):
    if made_by == "command":
        assert run(["schema", url, "--apply"]) == 0
    if made_by == "sqlalchemy":
        with connected(postgres_url) as connection:
            schema.create(connection, "dedup")
    for work in sorted(ALL.items(), key=lambda item: item[0] != "records"):
        work[1](url)
    assert schemas_with_ours(url) == ["dedup"]
    report = examine(url)
    assert not {"no-tables", "old-tables", "missing-tables"} & {each.code for each in report.findings}
    for command in (
        ["stats"],
        ["list"],
        ["windows", "list"],
        ["outbox", "status"],
        ["outbox", "dead"],
        ["purge"],
    ):
        assert run([command[0], *command[1:], url]) == 0, command
    assert run(["stats", postgres_url]) == 0  # which makes tables of its own, in public
    assert sorted(schemas_with_ours(url)) == ["dedup", "public"]


def test_two_schemas_of_one_database_do_not_know_of_each_other(url, postgres_url):
    with connected(postgres_url) as connection:
        connection.exec_driver_sql("CREATE SCHEMA other")
    for each in (url, url.replace("dedup", "other")):
        for work in ("records", "outbox"):
            ALL[work](each)
    with connected(postgres_url) as connection:
        for name in ("dedup", "other"):
            [(count,)] = schema.adapt(connection).execute(f"SELECT count(*) FROM {name}.dupeproof_outbox")
            assert count == 0
            assert schema.applied(connection, name)
    with connected(postgres_url) as connection:
        assert schema.applied(connection) == set()


def test_a_schema_that_is_not_there_is_an_error_that_says_so(postgres_url):
    with pytest.raises(StoreUnavailable, match="search_path"):
        ALL["records"](f"{postgres_url}?options=-csearch_path%3Dnowhere")
