"""Alembic's own commands on a real application: they propose nothing that is ours, whoever looks after our tables."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from migrations_catalogues import catalogue, connected, engine_url

from dupeproof import Inbox, Outbox
from dupeproof.sqlalchemy import schema
from dupeproof.stores import definitions

EXAMPLE = Path(__file__).parents[2] / "examples" / "alembic_orders"
KINDS = [
    pytest.param("postgres", marks=pytest.mark.server("postgres")),
    pytest.param("mariadb", marks=pytest.mark.server("mariadb")),
    "sqlite",
]


_COMMANDS = """
import shlex, sys
from alembic.config import main

for command in sys.argv[1:]:
    main(argv=shlex.split(command))
"""


class App:
    """A copy of the example, in which revisions may be written."""

    def __init__(self, folder, url):
        self.url, self.folder = url, folder / "app"
        shutil.copytree(EXAMPLE, self.folder)
        self.environment = {**os.environ, "DATABASE": engine_url(url)}

    def run(self, *arguments, fails=False):
        done = subprocess.run(
            [sys.executable, "-W", "error", *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        said = done.stdout + done.stderr
        assert (done.returncode != 0) is fails, said
        return said

    def alembic(self, *commands, fails=False):
        """One after the other in one process, as starting it is what takes the time."""
        return self.run("-c", _COMMANDS, *commands, fails=fails)

    def change(self, file, before, after):
        path = self.folder / file
        text = path.read_text()
        assert before in text
        path.write_text(text.replace(before, after))

    def first_revision_forgotten(self):
        shutil.rmtree(self.folder / "revisions" / "versions")
        (self.folder / "revisions" / "versions").mkdir()

    def proposed(self, *commands):
        """What autogenerate writes into a new revision; then these commands."""
        before = set(self.folder.glob("revisions/versions/*.py"))
        self.alembic("revision --autogenerate -m proposed", *commands)
        [new] = set(self.folder.glob("revisions/versions/*.py")) - before
        return new.read_text()


@pytest.fixture
def url_of(request, tmp_path):
    def of(kind):
        return f"sqlite:///{tmp_path}/shop.db" if kind == "sqlite" else request.getfixturevalue(f"{kind}_url")

    return of


@pytest.mark.parametrize("kind", KINDS)
def test_the_example_is_upgraded_checked_and_downgraded(url_of, tmp_path, kind):
    app = App(tmp_path, url_of(kind))
    assert "No new upgrade operations" in app.alembic("upgrade head", "check")
    assert app.run("orders.py", "tea") == "ordered\n"
    assert app.run("orders.py", "tea") == "ordered before\n"
    assert app.proposed("upgrade head", "downgrade base").count("    pass\n") == 2
    with connected(app.url) as connection:
        assert schema.adapt(connection).execute("SELECT count(*) FROM alembic_version") == [(0,)]
        assert not connection.dialect.has_table(connection, "dupeproof_inbox")
    app.alembic("upgrade head", "check")


@pytest.mark.parametrize("kind", [KINDS[0], "sqlite"])
def test_autogenerate_writes_one_operation_for_all_of_ours(url_of, tmp_path, kind):
    app = App(tmp_path, url_of(kind))
    app.first_revision_forgotten()
    text = app.proposed("upgrade head", "check", "downgrade base", "upgrade head", "check")
    assert text.count("dupeproof") == 3  # the import, the upgrade, the downgrade
    assert "dupeproof.alembic.upgrade(op" in text


@pytest.mark.server("postgres")
def test_nothing_is_proposed_where_our_own_migrations_made_the_tables(postgres_url, tmp_path):
    app = App(tmp_path, postgres_url)
    with connected(postgres_url) as connection:
        schema.create(connection)
    app.first_revision_forgotten()
    app.change(
        "orders.py",
        'class Order(Base):\n    __tablename__ = "orders"',
        "class Order(Base):\n    __abstract__ = True",
    )
    assert "No new upgrade operations" in app.alembic("check")
    assert "dupeproof" not in app.proposed()


@pytest.mark.server("postgres")
@pytest.mark.parametrize("version", [1, 5])
def test_an_upgrade_of_ours_is_proposed_as_one_operation(postgres_url, tmp_path, version):
    app = App(tmp_path, postgres_url)
    app.change("revisions/versions/0001_orders.py", "upgrade(op,", f"upgrade(op, to={version},")
    assert "dupeproof_upgrade" in app.alembic("upgrade head", "check", fails=True)
    # At the end nothing of ours goes with the step back: an older library works with what is there.
    text = app.proposed("upgrade head", "check", "downgrade -1", "upgrade head", "downgrade base")
    newest = definitions.migrations.migrations()[-1].version
    assert f"dupeproof.alembic.upgrade(op, to={newest})" in text
    assert f"dupeproof.alembic.downgrade(op, to={version})" in text
    assert "op.create_table" not in text


@pytest.mark.parametrize("kind", [KINDS[0], "sqlite"])
def test_include_name_hides_the_tables_that_we_look_after(url_of, tmp_path, kind):
    app = App(tmp_path, url_of(kind))
    app.change("orders.py", "dupeproof.sqlalchemy.tables(", "(lambda *_, **__: None)(")
    app.change("revisions/versions/0001_orders.py", "dupeproof.alembic.upgrade(op, schema=SCHEMA)", "")
    app.change("revisions/versions/0001_orders.py", "dupeproof.alembic.downgrade(op, schema=SCHEMA)", "")
    app.alembic("upgrade head")
    with connected(app.url) as connection:
        Inbox("orders").create_schema(connection)
        Outbox().create_schema(connection)
    said = app.alembic("check", fails=True)
    assert "remove_table" in said
    app.change(
        "revisions/env.py", "import orders\n", "import orders\nfrom dupeproof.alembic import include_name\n"
    )
    app.change(
        "revisions/env.py", "connection=connection,", "connection=connection, include_name=include_name,"
    )
    assert "No new upgrade operations" in app.alembic("check")
    assert "dupeproof" not in app.proposed()


def test_nothing_is_proposed_where_tables_are_both_known_and_hidden(url_of, tmp_path):
    app = App(tmp_path, url_of("sqlite"))
    app.alembic("upgrade head")
    app.change(
        "revisions/env.py", "import orders\n", "import orders\nfrom dupeproof.alembic import include_name\n"
    )
    app.change(
        "revisions/env.py", "connection=connection,", "connection=connection, include_name=include_name,"
    )
    assert "No new upgrade operations" in app.alembic("check")


@pytest.mark.server("postgres")
def test_the_tables_are_kept_in_a_schema_of_their_own(postgres_url, tmp_path):
    with connected(postgres_url) as connection:
        connection.exec_driver_sql("CREATE SCHEMA dedup")
    app = App(tmp_path, postgres_url)
    app.environment["SCHEMA"] = "dedup"
    app.alembic("upgrade head", "check")
    separator = "&" if "?" in app.environment["DATABASE"] else "?"
    app.environment["DATABASE"] += f"{separator}options=-csearch_path%3Dpublic,dedup"
    assert app.run("orders.py", "tea") == "ordered\n"
    app.alembic("downgrade base")


@pytest.mark.server("postgres")
def test_the_sql_that_alembic_prints_makes_the_same(postgres_url, postgres_module_url, tmp_path):
    with connected(postgres_module_url) as connection:
        schema.drop(connection)
    printed = App(tmp_path, postgres_module_url).alembic("upgrade head --sql")
    with connected(postgres_module_url) as connection:
        connection.exec_driver_sql(
            "\n".join(line for line in printed.splitlines() if line not in ("BEGIN;", "COMMIT;"))
        )
    with connected(postgres_url) as connection:
        schema.create(connection)
        connection.exec_driver_sql("CREATE TABLE orders (id serial PRIMARY KEY, item varchar(255) NOT NULL)")
        connection.exec_driver_sql(
            "CREATE TABLE alembic_version (version_num varchar(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
        )
    assert catalogue(postgres_module_url) == catalogue(postgres_url)


@pytest.mark.server("postgres")
def test_a_revision_of_a_newer_dupeproof_says_so(postgres_url, tmp_path):
    app = App(tmp_path, postgres_url)
    app.change("revisions/versions/0001_orders.py", "upgrade(op,", "upgrade(op, to=999,")
    said = app.alembic("upgrade head", fails=True)
    assert "knows its schema up to version" in said
    assert "install the one" in said
