"""A user with exactly what `dupeproof schema --grants` prints can work, and is told when something of it is missing."""

import re
from urllib.parse import urlsplit

import psycopg
import pytest
from migrations_catalogues import connected
from migrations_exercise import ALL

from dupeproof import ConfigError, Once, StoreUnavailable
from dupeproof.cli.app import run
from dupeproof.sqlalchemy import schema
from dupeproof.stores.definitions import GROUPS
from dupeproof.stores.postgres.migrations import migrations

EXECUTE = "GRANT EXECUTE"
ADVICE = re.compile("--grants USER|GRANT CONNECT ON DATABASE")


def printed(capsys, *arguments):
    capsys.readouterr()
    assert run(["schema", *arguments]) == 0, capsys.readouterr().err
    return capsys.readouterr().out.splitlines()


def refusal(url, place=""):
    """The first error of those who work with this table, or with any."""
    for name, work in ALL.items():
        about = GROUPS.get(name, ())
        if about and place.startswith("public.") and place[7:] not in about:
            continue
        try:
            work(url)
        except (StoreUnavailable, ConfigError) as error:
            return str(error)
    return "nothing was refused"


class Guest:
    """A user to whom PostgreSQL gives nothing but what it is told to give."""

    def __init__(self, owner, url):
        self.owner = owner
        there = owner.info
        self.name = f"guest of {there.dbname}"
        owner.execute(f"CREATE ROLE \"{self.name}\" LOGIN PASSWORD 'plain'")
        owner.execute(f"REVOKE ALL ON DATABASE {there.dbname} FROM PUBLIC")
        owner.execute("REVOKE ALL ON SCHEMA public FROM PUBLIC")
        owner.execute("REVOKE ALL ON ALL FUNCTIONS IN SCHEMA public FROM PUBLIC")
        user = self.name.replace(" ", "%20")
        self.url = f"postgresql://{user}:plain@{there.host}:{there.port}/{there.dbname}"

    def gone(self):
        self.owner.execute(f'DROP OWNED BY "{self.name}"; DROP ROLE "{self.name}"')


@pytest.fixture
def guest(postgres_url):
    with connected(postgres_url) as connection:
        schema.create(connection)
    with psycopg.connect(postgres_url, autocommit=True) as owner:
        made = Guest(owner, postgres_url)
        yield made
        made.gone()


@pytest.mark.server("postgres")
def test_a_user_with_what_is_printed_can_work_and_is_told_what_is_missing(guest, postgres_url, capsys):
    lines = printed(capsys, postgres_url, "--grants", guest.name)
    for line in lines:
        guest.owner.execute(line)
    for work in ALL.values():
        work(guest.url)
    [(made,)] = guest.owner.execute(
        "SELECT count(*) FROM pg_class WHERE pg_get_userbyid(relowner) = %s", [guest.name]
    ).fetchall()
    assert made == 0
    with psycopg.connect(guest.url) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("CREATE TABLE dupeproof_mine ()")
    # Without any one of them something fails, and the error leads back to this command.
    for line in lines:
        if line.startswith(EXECUTE):
            continue
        privileges, place = re.fullmatch(r"GRANT (.*) ON (.*) TO .*;", line).groups()
        for privilege in privileges.split(", "):
            guest.owner.execute(f'REVOKE {privilege} ON {place} FROM "{guest.name}"')
            guest.owner.execute("TRUNCATE dupeproof_outbox_shards")  # as on the first day
            assert ADVICE.search(refusal(guest.url, place)), (privilege, place)
            guest.owner.execute(f'GRANT {privilege} ON {place} TO "{guest.name}"')
    functions = [line for line in lines if line.startswith(EXECUTE)]
    for line in functions:
        guest.owner.execute(line.replace("GRANT", "REVOKE").replace(" TO ", " FROM "))
    assert "--grants USER" in refusal(guest.url)


@pytest.mark.server("mariadb")
def test_a_user_of_mariadb_with_what_is_printed_can_work(mariadb_url, capsys):
    with connected(mariadb_url) as connection:
        schema.create(connection)
    there = urlsplit(mariadb_url)
    database = there.path[1:]
    name = f"guest_{database[-8:]}"
    lines = printed(capsys, mariadb_url, "--grants", name)
    url = there._replace(netloc=f"{name}:plain@{there.hostname}:{there.port}").geturl()
    with connected(mariadb_url) as owner:
        owner.exec_driver_sql(f"CREATE USER '{name}'@'%%' IDENTIFIED BY 'plain'")
        try:
            for line in lines:
                owner.exec_driver_sql(line.replace("%", "%%"))
            for kind in ("inbox", "outbox", "purge"):
                ALL[kind](url)
            owner.exec_driver_sql(f"REVOKE INSERT ON {database}.dupeproof_inbox FROM '{name}'@'%%'")
            with pytest.raises(ConfigError, match="--grants USER"):
                ALL["inbox"](url)
        finally:
            owner.exec_driver_sql(f"DROP USER '{name}'@'%%'")


@pytest.mark.server("postgres")
def test_what_is_printed_names_the_schema_of_the_url(postgres_url, capsys):
    with connected(postgres_url) as connection:
        connection.exec_driver_sql('CREATE SCHEMA "my own"')
        schema.create(connection, "my own")
    lines = printed(capsys, f"{postgres_url}?options=-csearch_path%3D%22my%5C%20own%22", "--grants", "app")
    assert 'GRANT USAGE ON SCHEMA "my own" TO "app";' in lines
    assert run(["schema", postgres_url, "--grants", "app"]) != 0
    assert "make them first" in capsys.readouterr().err


@pytest.mark.server("postgres")
def test_the_revision_that_is_printed_goes_from_what_is_there(postgres_url, capsys):
    newest = migrations()[-1].version
    text = "\n".join(printed(capsys, postgres_url, "--alembic"))
    compile(text, "revision", "exec")
    assert f"dupeproof.alembic.upgrade(op, to={newest})" in text
    assert "dupeproof.alembic.downgrade(op)" in text
    with connected(postgres_url) as connection:
        schema.create(connection, to=4)
    assert "dupeproof.alembic.downgrade(op, to=4)" in "\n".join(printed(capsys, postgres_url, "--alembic"))


def test_what_cannot_be_printed_says_why(tmp_path, capsys):
    with Once(f"sqlite:///{tmp_path}/a.db") as once:
        once.check()
    for arguments, why in [
        (["--grants", "app"], "SQLite knows no users"),
        (["--grants", "app", "--apply"], "one at a time"),
    ]:
        assert run(["schema", f"sqlite:///{tmp_path}/a.db", *arguments]) != 0
        assert why in capsys.readouterr().err
