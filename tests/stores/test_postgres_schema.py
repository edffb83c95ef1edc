"""The schema of PostgreSQL is the sum of its migrations, and can be printed for those who apply it by hand."""

import subprocess

import psycopg
import pytest

from dupeproof import Once, StoreUnavailable
from dupeproof.stores import open_async_store, open_store
from dupeproof.stores.postgres.migrations import migrations
from dupeproof_lab.servers import install


def dumped(url: str) -> str:
    """The database as SQL, without what differs between any two dumps."""
    tool = install.ensure("postgres")["initdb"].with_name("pg_dump")
    run = subprocess.run(
        [tool, "--schema-only", "--no-owner", url], capture_output=True, text=True, check=True
    )
    return "\n".join(line for line in run.stdout.splitlines() if not line.startswith(("--", "\\")))


def test_the_printed_schema_is_what_the_migrations_make(postgres_url, postgres_module_url):
    store = open_store(postgres_url).wrapped
    assert store.migrate() == [each.version for each in migrations()]
    assert store.migrate() == []
    with psycopg.connect(postgres_module_url, autocommit=True) as connection:
        connection.execute(store.schema())
    by_hand = open_store(postgres_module_url).wrapped
    assert by_hand.migrate() == []
    assert dumped(postgres_module_url) == dumped(postgres_url)
    store.close()
    by_hand.close()


async def test_the_async_store_migrates_too(postgres_url):
    store = open_async_store(postgres_url).wrapped
    assert await store.migrate() == [each.version for each in migrations()]
    await store.close()


def test_the_schema_comes_back_when_somebody_dropped_it(postgres_url):
    with Once(postgres_url) as once:
        once.run("k", lambda: 1)
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        assert once.run("k", lambda: 2) == 2


def test_a_user_who_may_not_make_tables_can_use_those_an_owner_made(postgres_server, postgres_url):
    role = f"plain_{abs(hash(postgres_url)) % 10**8}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'plain'")
        connection.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        host = connection.info
        plain = f"postgresql://{role}:plain@{host.host}:{host.port}/{host.dbname}"
        try:
            with Once(plain) as once:
                with pytest.raises(StoreUnavailable, match="dupeproof schema"):
                    once.seen("a")
                open_store(postgres_url).wrapped.migrate()
                with pytest.raises(StoreUnavailable):
                    once.check()
                connection.execute(
                    f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}"
                )
                assert once.seen("a") is False
                assert once.run("k", lambda: 1) == 1
                assert once.check().store == "postgresql"
        finally:
            connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")
